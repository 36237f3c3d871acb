"""Pairs of fields from files of several kinds, whole or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fourierscale.data import DataError, FolderOptions, load_fields, read_fields
from fourierscale.data.fields import field_levels, read_inputs, read_pairs
from fourierscale.functional import downscale
from tests.training.small_pairs import write_fields


def _pairs(count: int = 10, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, size, size)), rng.standard_normal((count, 2, size, size)).astype(np.float32)


def _write(root: Path, kind: str) -> Path:
    x, y = _pairs()
    if kind == "folder":
        np.save(root / "x.npy", x)
        np.save(root / "y.npy", y)
        return root
    path = root / f"pairs.{kind}"
    if kind == "npz":
        np.savez(path, x=x, y=y)
    else:
        torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, path)
    return path


@pytest.mark.parametrize("kind", ["npz", "pt", "folder"])
def test_every_kind_of_place_gives_the_same_pairs(tmp_path: Path, kind: str) -> None:
    pairs = read_pairs(_write(tmp_path, kind))
    x, y = _pairs()
    torch.testing.assert_close(pairs.x, torch.from_numpy(x).float()[:, None])
    torch.testing.assert_close(pairs.y, torch.from_numpy(y))
    parts = read_fields(_write(tmp_path, kind))
    assert [len(parts[name]) for name in ("train", "val", "test")] == [8, 1, 1]
    rows = torch.cat([part.x.flatten(1)[:, 0] for part in parts.values()])
    assert sorted(rows.tolist()) == sorted(pairs.x.flatten(1)[:, 0].tolist())


def test_test_fields_may_lie_on_a_finer_grid(tmp_path: Path) -> None:
    splits = load_fields(str(write_fields(tmp_path)))
    assert (splits.protocol.equivariance, splits.protocol.resolutions) == ((8, 16), (8, 16, 32))
    batch = splits.test.__getitems__([0, 1])
    assert batch.images.shape == batch.labels.shape == (2, 1, 32, 32)
    train = splits.train.__getitems__([0])
    assert train.images.shape == (1, 1, 16, 16)
    whole = torch.cat([splits.train.__getitems__([n]).images for n in range(len(splits.train))])
    assert abs(float(whole.mean())) < 1e-5
    assert float(whole.std()) == pytest.approx(1, abs=1e-3)
    smaller = load_fields(str(tmp_path), folder=FolderOptions(size=12, lowest=5))
    assert smaller.protocol.equivariance == (5, 12)
    torch.testing.assert_close(
        smaller.train.images, downscale(splits.train.images[: len(smaller.train)], 12), rtol=0, atol=1e-5
    )
    assert len(load_fields(str(tmp_path), train_size=5).train) == 5


def test_levels_and_what_is_tested() -> None:
    assert field_levels(48, 48) == ((24, 48), (24, 48))
    assert field_levels(64, 256, 32, 32) == ((32,), (32, 64, 128, 256))
    for size, lowest in ((65, None), (1, None), (64, 65), (64, 0)):
        with pytest.raises(DataError, match="expected"):
            field_levels(64, 64, size, lowest)


def test_fields_that_are_not_finite_are_named_or_left_out(tmp_path: Path) -> None:
    x, y = _pairs()
    x[3, 0, 0], y[7, 1, 2, 2] = np.nan, np.inf
    np.savez(tmp_path / "a.npz", x=x, y=y)
    with pytest.raises(DataError, match=r"2 of 10 pairs hold values that are not finite: 3, 7; .* --skip-bad"):
        read_pairs(tmp_path / "a.npz")
    assert len(read_pairs(tmp_path / "a.npz", skip_bad=True)) == 8
    with pytest.raises(DataError, match="1 of 10 fields"):
        read_inputs(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"x": np.zeros((3, 8, 8))}, "arrays named x and y"),
        ({"x": np.zeros((3, 8, 8)), "y": np.zeros((4, 8, 8))}, "as many fields"),
        ({"x": np.zeros((3, 8, 8)), "y": np.zeros((3, 4, 4))}, "on one grid"),
        ({"x": np.zeros((3, 8, 6)), "y": np.zeros((3, 8, 6))}, "square grid"),
        ({"x": np.zeros((3, 8, 8), complex), "y": np.zeros((3, 8, 8))}, "real numbers"),
        ({"x": np.array(["a"]), "y": np.zeros((3, 8, 8))}, "real numbers"),
        ({"x": np.array([{}], dtype=object), "y": np.zeros((3, 8, 8))}, "cannot be read"),
        ({"x": np.zeros((0, 8, 8)), "y": np.zeros((0, 8, 8))}, "got shape"),
        ({"x": np.ones((2, 8, 8)), "y": np.ones((2, 8, 8))}, "3 pairs or more"),
    ],
)
def test_arrays_that_are_no_pairs_are_refused_in_one_sentence(tmp_path: Path, arrays: dict, told: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=told) as error:
        read_fields(tmp_path / "a.npz")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a.npz", "a.pt", "a.txt"])
@pytest.mark.parametrize("content", [b"", b"no array at all", b"PK\x03\x04 broken"])
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError):
        read_fields(tmp_path / name)
    with pytest.raises(DataError):
        read_fields(tmp_path / "nowhere")
    with pytest.raises(DataError, match="expected"):
        read_fields(tmp_path)
