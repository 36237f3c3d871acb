"""STL-10's binary layout: pixels land where they should, damage is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourierscale.data import stl10
from fourierscale.data.errors import CorruptFileError, DataError, FormatError, MissingDataError


def write_part(folder: Path, part: str, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Write a small part in the official layout, pixel by pixel; return it as (N, 3, row, column) and labels 0..9."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 3, 96, 96), dtype=np.uint8)
    labels = rng.integers(0, 10, count)
    folder.mkdir(parents=True, exist_ok=True)
    stream = bytearray()
    for image in images:
        for channel in range(3):
            for column in range(96):
                stream += bytes(image[channel, :, column])
    (folder / f"{part}_X.bin").write_bytes(stream)
    (folder / f"{part}_y.bin").write_bytes(bytes((labels + 1).tolist()))
    return images, labels


def test_columns_become_rows_and_labels_start_at_zero(tmp_path: Path) -> None:
    expected, expected_labels = write_part(tmp_path, "train", 4)
    images, labels = stl10.read_part(tmp_path, "train")
    assert images.dtype == np.uint8
    assert images.flags.c_contiguous
    assert (images == expected).all()
    assert labels.dtype == np.int64
    assert (labels == expected_labels).all()


def test_the_training_part_needs_no_test_files(tmp_path: Path) -> None:
    write_part(tmp_path, "train", 2)
    assert stl10.parts_in(tmp_path) == ("train",)
    with pytest.raises(MissingDataError, match=r"expected test_X\.bin"):
        stl10.read_part(tmp_path, "test")


def test_the_unlabelled_part_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'train' and 'test'"):
        stl10.read_part(tmp_path, "unlabeled")


def test_a_file_of_the_published_size_must_have_the_published_md5(tmp_path: Path) -> None:
    write_part(tmp_path, "train", 1)
    (tmp_path / "train_y.bin").write_bytes(b"\1" * 5000)
    with pytest.raises(CorruptFileError, match="md5 5a34089d4802c674881badbb80307741"):
        stl10.read_part(tmp_path, "train")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("train_X.bin", b"\0" * (2 * 27648 - 1), "multiple of 27648"),
        ("train_X.bin", b"\0" * 27648, "expected 1 labels"),
        ("train_y.bin", b"\1\2\3", "expected 2 labels"),
        ("train_y.bin", b"\0\1", "labels 1 to 10, got 0 to 1"),
        ("train_y.bin", b"\1\13", "got 1 to 11"),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    write_part(tmp_path, "train", 2)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorruptFileError, match=text):
        stl10.read_part(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(0, 3 * 27648) | st.integers(0, 3).map(lambda n: n * 27648), labels=st.binary(max_size=4))
def test_any_two_files_give_matching_counts_or_a_data_error(tmp_path: Path, size: int, labels: bytes) -> None:
    (tmp_path / "train_X.bin").write_bytes(bytes(size))
    (tmp_path / "train_y.bin").write_bytes(labels)
    try:
        images, read = stl10.read_part(tmp_path)
    except DataError:
        return
    assert images.size == size
    assert [label + 1 for label in read] == list(labels)


def test_class_names_come_from_the_file_and_default_to_the_published_ones(tmp_path: Path) -> None:
    assert stl10.read_class_names(tmp_path) == stl10.CLASSES
    names = [f"class{i}" for i in range(10)]
    (tmp_path / "class_names.txt").write_text("\n".join(names))
    assert stl10.read_class_names(tmp_path) == tuple(names)
    (tmp_path / "class_names.txt").write_text("cat\ncat\n")
    with pytest.raises(CorruptFileError, match="expected 10 different class names, got 1"):
        stl10.read_class_names(tmp_path)
