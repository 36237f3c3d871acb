"""Protocols by name, on small sets in the official layouts: sizes, resolutions, hashes, errors."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fourierscale.data import FolderOptions, Scaling, protocols, sources
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError, UnknownNameError
from fourierscale.data.loading import load_protocol
from fourierscale.data.protocols import find_protocol, folder_path, list_protocols
from fourierscale.data.reading import RawImages
from fourierscale.data.splits import split_hash, stratified_split
from fourierscale.data.survey import survey_folder
from tests.data.small_sets import write_idx_set
from tests.data.test_stl10 import write_part


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """700 random digits, a hundredth of MNIST."""
    write_idx_set(tmp_path, train=600, test=100)
    return tmp_path


@pytest.fixture
def whole_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    """70,000 black digits: as many as published, in another order."""
    raw = RawImages(
        np.zeros((70_000, 1, 28, 28), dtype=np.uint8), np.arange(70_000) % 10, tuple("0123456789"), "a test", "mnist"
    )
    monkeypatch.setattr(sources, "get_dataset", lambda *arguments: raw)


def write_folder(root: Path, sizes: tuple[int, ...] = (20, 30)) -> Path:
    rng = np.random.default_rng(0)
    for label, count in enumerate(sizes):
        for index in range(count):
            path = root / f"class{label}" / f"{index:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (14, 12, 3), dtype=np.uint8)).save(path)
    return root


def test_the_whole_of_mnist_is_cut_10k_2k_50k_with_equal_resolutions_and_classes(
    whole_mnist: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = dataclasses.replace(find_protocol("mnist-scale"), hashes=())
    splits = load_protocol(plain)
    assert [len(part) for part in splits] == [10_000, 2_000, 50_000]
    for part in splits:
        _, counts = np.unique(part.item_resolutions, return_counts=True)
        assert len(counts) == 21
        assert counts.max() - counts.min() <= 1
        assert part.labels.bincount().tolist() == [len(part) // 10] * 10
    assert splits.note == plain.note
    assert splits.hashes["train"] == "1b233933c96fdd2b4155640dea8e1404d42352179b41527d0bea7ad54c6073a4"


def test_a_split_that_is_not_the_published_one_is_refused(whole_mnist: None) -> None:
    with pytest.raises(CorruptFileError, match=r"mnist-scale: the train split has hash 1b233933c96f, published 7ef5"):
        load_protocol("mnist-scale")
    assert len(load_protocol("mnist-scale", seed=1).train) == 10_000  # hashes are of seed 0


def test_limited_training_sets_are_nested_and_share_validation_and_test(whole_mnist: None) -> None:
    base = dataclasses.replace(find_protocol("mnist-scale"), hashes=())
    found = [load_protocol(base, train_size=size) for size in (1000, 2500, 5000)]
    assert [len(splits.train) for splits in found] == [1000, 2500, 5000]
    assert len({splits.hashes["val"] for splits in found}) == 1
    assert len({splits.hashes["test"] for splits in found}) == 1
    for splits in found:
        _, counts = np.unique(splits.train.item_resolutions, return_counts=True)
        assert counts.max() - counts.min() <= 1


def test_a_smaller_set_keeps_the_proportions_and_says_so(digits: Path) -> None:
    splits = load_protocol("mnist-scale", data_dir=digits)
    assert [len(part) for part in splits] == [100, 20, 500]
    assert "only 700 of 70,000 images are there" in splits.note
    assert "not compared with published digests" in splits.source
    assert [len(load_protocol("mnist-scale-2500", data_dir=digits).train)] == [25]
    assert [len(load_protocol("mnist-scale", data_dir=digits, train_size=40).train)] == [40]


def test_missing_scales_train_at_28_and_test_everywhere(digits: Path) -> None:
    train, val, test = load_protocol("mnist-scale-missing", data_dir=digits)
    assert set(train.item_resolutions) == set(val.item_resolutions) == {28}
    assert set(test.item_resolutions) == set(range(8, 29))


def test_overrides_reach_the_datasets_and_only_training_is_augmented(digits: Path) -> None:
    splits = load_protocol(
        "mnist-scale",
        data_dir=digits,
        scaling=Scaling(kind="bicubic", enlarge="zero"),
        resolution_mode="every",
        augment="warp",
        seed=4,
    )
    assert splits.protocol.kind == splits.test.preprocessing.kind == "bicubic"
    assert [part.preprocessing.enlarge_size for part in splits] == [28, 28, 28]
    assert len(splits.test) == 500 * 21
    assert [part.augment is None for part in splits] == [False, True, True]
    assert splits.train.seed == 4
    assert load_protocol("mnist-scale-gaussian", data_dir=digits).test.preprocessing.kind == "gaussian"


def test_normalised_black_is_minus_mean_over_std(digits: Path) -> None:
    splits = load_protocol("mnist-scale", data_dir=digits)
    black = torch.zeros(1, 28, 28)
    torch.testing.assert_close((black - splits.train.mean) / splits.train.std, black - 0.0607 / 0.2161)


def test_stl10_in_part_names_the_protocol_for_it(tmp_path: Path) -> None:
    write_part(tmp_path, "train", 60)
    with pytest.raises(MissingDataError, match=r"needs the train and the test part.*stl10-scale-5k"):
        load_protocol("stl10-scale", data_dir=tmp_path)
    small = load_protocol("stl10-scale-5k", data_dir=tmp_path)
    assert [len(part) for part in small] == [42, 6, 12]
    assert "not comparable" in small.note
    write_part(tmp_path, "test", 70, seed=1)
    whole = load_protocol("stl10-scale", data_dir=tmp_path)
    assert [len(part) for part in whole] == [70, 10, 50]
    assert load_protocol("stl10-scale-5k", data_dir=tmp_path).hashes == small.hashes  # the test part is left alone


def test_a_folder_is_cut_70_10_20_and_every_image_is_used(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "photos")
    splits = load_protocol(str(folder), folder=FolderOptions(size=12))
    assert [len(part) for part in splits] == [35, 5, 10]
    assert splits.classes == ("class0", "class1")
    assert splits.train.labels.bincount().tolist() == [14, 21]
    assert splits.protocol.resolutions == (6, 7, 8, 10, 11, 12)  # six distinct ones of seven
    assert set(splits.train.item_resolutions) == {12}  # every image is 14 x 12
    assert splits.note == splits.protocol.note


def test_a_name_is_a_protocols_before_it_is_a_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "mnist-scale")
    assert folder_path("mnist-scale") is None
    for name in ("./mnist-scale", "folder:mnist-scale", str(tmp_path / "mnist-scale")):
        assert load_protocol(name, folder=FolderOptions(size=12)).classes == ("class0", "class1")


def test_a_folder_that_was_looked_at_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = survey_folder(write_folder(tmp_path))
    monkeypatch.setattr("fourierscale.data.survey.read_header", None)
    assert [len(part) for part in load_protocol(found)] == [35, 5, 10]


def test_every_protocol_is_consistent_with_itself() -> None:
    for protocol in list_protocols():
        assert find_protocol(protocol.name) is protocol
        assert sum(protocol.sizes) <= protocol.of
        assert set(protocol.equivariance) <= set(protocol.resolutions)
        assert len(protocol.mean) == len(protocol.std)
        assert protocol.note
        assert len(protocol.hashes) in (0, 3)
        assert protocol.train_size is None or protocol.train_size < protocol.sizes[0]
    assert {protocol.name for protocol in list_protocols()} >= {"mnist-scale", "stl10-scale-5k", "imagenette-scale"}


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    [
        (
            "minst-scale",
            {},
            UnknownNameError,
            "or no such folder: did you mean 'mnist-scale'",
        ),
        ("zzz", {}, UnknownNameError, "no protocol 'zzz', or no such folder: choose one of mnist-scale"),
        ("", {}, DataError, "path of a folder"),
        ("/no/such/place", {}, MissingDataError, "no such folder"),
        ("./mnist-scale", {}, MissingDataError, "mnist-scale: expected a folder of class folders, there is no such"),
        ("mnist-scale", {"size": 64}, DataError, "size is for a folder of images"),
        ("photos", {"size": 1}, DataError, "2 or more"),
    ],
)
def test_mistakes_are_data_errors(name: str, options: dict[str, int], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        load_protocol(name, folder=FolderOptions(**options))  # type: ignore[arg-type]


def test_too_few_images_are_refused(tmp_path: Path) -> None:
    write_idx_set(tmp_path)
    with pytest.raises(MissingDataError, match="10 images are too few"):
        load_protocol("mnist-scale", data_dir=tmp_path)
    with pytest.raises(DataError, match="cannot take 999 out of 35"):
        load_protocol(str(write_folder(tmp_path / "photos")), folder=FolderOptions(size=8), train_size=999)


def test_hashes_are_of_the_index_lists(digits: Path) -> None:
    splits = load_protocol("mnist-scale", data_dir=digits)
    labels = np.concatenate([np.arange(600) % 10, np.arange(100) % 10])
    indices = stratified_split(labels, {"train": 100, "val": 20, "test": 500}, 0)
    assert splits.hashes == {name: split_hash(part) for name, part in indices.items()}
    assert protocols.PROTOCOLS["mnist-scale"].hashes[0].startswith("7ef514b6c82e")
