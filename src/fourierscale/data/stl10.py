"""Read STL-10 in its official binary layout.

``train_X.bin`` and ``test_X.bin`` hold 96 x 96 colour images as unsigned bytes, channel by channel and *column* by
column; ``train_y.bin`` and ``test_y.bin`` hold one byte per label, 1 to 10. The unlabelled part is never touched.
Coates, Ng and Lee, "An Analysis of Single-Layer Networks in Unsupervised Feature Learning", AISTATS 2011.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.errors import CorruptFileError, FormatError, MissingDataError
from fourierscale.data.published import Published

__all__ = ["PUBLISHED", "parts_in", "read_class_names", "read_part"]

SIDE = 96
IMAGE_BYTES = 3 * SIDE * SIDE
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
PARTS = ("train", "test")
PUBLISHED = (
    Published("train_X.bin", 5000 * IMAGE_BYTES, "md5:918c2871b30a85fa023e0c44e0bee87f"),
    Published("train_y.bin", 5000, "md5:5a34089d4802c674881badbb80307741"),
    Published("test_X.bin", 8000 * IMAGE_BYTES, "md5:7f263ba9f9e0b06b93213547f721ac82"),
    Published("test_y.bin", 8000, "md5:36f9794fa4beb8a2c72628de14fa638e"),
)


def parts_in(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Which of ``"train"`` and ``"test"`` a folder holds, images and labels both."""
    folder = Path(folder)
    return tuple(part for part in PARTS if all((folder / f"{part}_{kind}.bin").is_file() for kind in "Xy"))


def read_part(folder: str | os.PathLike[str], part: str = "train") -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the images and labels of one part; the other part need not be there.

    A file of the full published size must have the published md5. Smaller sets in the same layout are read as they are.

    Args:
        folder: The folder ``stl10_binary``.
        part: ``"train"`` or ``"test"``.

    Returns:
        Images ``(N, 3, 96, 96)`` with rows before columns, and labels 0 to 9.

    Raises:
        MissingDataError: A file of the part is not there.
        CorruptFileError: A file is cut short, its md5 is wrong, a label is out of range, or the counts differ.
    """
    if part not in PARTS:
        raise FormatError(f"STL-10 has the parts 'train' and 'test', got {part!r}; the unlabelled part is not used")
    images_path, labels_path = (Path(folder) / f"{part}_{kind}.bin" for kind in "Xy")
    raw, labels = _read_bytes(images_path), _read_bytes(labels_path)
    if raw.size % IMAGE_BYTES:
        raise CorruptFileError(
            f"{images_path}: expected a multiple of {IMAGE_BYTES} bytes (3 x 96 x 96), got {raw.size}; fetch it again"
        )
    count = raw.size // IMAGE_BYTES
    if labels.size != count:
        raise CorruptFileError(f"{labels_path}: expected {count} labels for as many images, got {labels.size}")
    if count and (labels.min() < 1 or labels.max() > len(CLASSES)):
        raise CorruptFileError(f"{labels_path}: expected labels 1 to 10, got {labels.min()} to {labels.max()}")
    images = raw.reshape(count, 3, SIDE, SIDE).swapaxes(2, 3)  # column, row -> row, column
    return np.ascontiguousarray(images), labels.astype(np.int64) - 1


def _read_bytes(path: Path) -> NDArray[np.uint8]:
    if not path.is_file():
        raise MissingDataError(f"{path.parent}: expected {path.name} of STL-10's binary layout, it is not there")
    for published in PUBLISHED:
        if path.name == published.name and path.stat().st_size == published.size:
            published.check(path)
    return np.fromfile(path, dtype=np.uint8)


def read_class_names(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Class names of ``class_names.txt`` in label order, or the published ones where the file is missing.

    Raises:
        CorruptFileError: The file does not hold ten different names.
    """
    path = Path(folder) / "class_names.txt"
    if not path.is_file():
        return CLASSES
    names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
    if len(names) != len(CLASSES) or len(set(names)) != len(names):
        raise CorruptFileError(f"{path}: expected {len(CLASSES)} different class names, got {len(set(names))}")
    return names
