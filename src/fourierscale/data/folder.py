"""Any folder of class folders of images is a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.decode import MAX_PIXELS, Colour, decode_image
from fourierscale.data.errors import FormatError, MissingDataError

__all__ = ["ImageFolder", "stack"]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
SPLITS = ("train", "val", "valid", "validation", "test")


class ImageFolder:
    """Images under ``root/CLASS/...``, or under ``root/train/CLASS/...`` and ``root/val/CLASS/...``.

    Images are listed at once and decoded when asked for. Classes are the sorted folder names; images are in the order
    of their paths, split by split. Hidden files and files that are not images by their suffix are left out.

    Args:
        root: The folder. If all its sub-folders are named like splits (train, val, test, ...), the class folders are
            one level below.
        split: Keep one split only; by default all splits are merged.
        colour: ``"rgb"`` or ``"grey"``.
        max_pixels: Larger images are refused.

    Attributes:
        paths: One path per image.
        labels: ``(N,)``, index into ``classes``.
        splits: The name of each image's split, ``""`` where the folder has none.
        classes: Class names, sorted.

    Raises:
        MissingDataError: No folder, no images, a class without images, or fewer than two classes.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str | None = None,
        colour: Colour = "rgb",
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.root = Path(root)
        self.colour: Colour = colour
        self.max_pixels = max_pixels
        if not self.root.is_dir():
            raise MissingDataError(f"{self.root}: expected a folder of class folders, there is no such folder")
        found = list(self._find(split))
        self.classes = tuple(sorted({name for _, name, _ in found}))
        if len(self.classes) < 2:
            raise MissingDataError(
                f"{self.root}: expected at least two class folders with images, got "
                + (f"only {self.classes[0]!r}" if self.classes else "none; images go in ROOT/CLASS/")
            )
        index = {name: label for label, name in enumerate(self.classes)}
        self.paths = tuple(path for _, _, path in found)
        self.splits = tuple(part for part, _, _ in found)
        self.labels: NDArray[np.int64] = np.array([index[name] for _, name, _ in found], dtype=np.int64)

    def _find(self, split: str | None) -> Iterable[tuple[str, str, Path]]:
        """``(split, class, path)`` of every image, in order."""
        folders = _subfolders(self.root)
        if folders and all(folder.name in SPLITS for folder in folders):
            names = [folder.name for folder in folders]
            if split is not None and split not in names:
                raise MissingDataError(f"{self.root}: expected a folder {split!r}, got {', '.join(names)}")
            parts = [(folder.name, _subfolders(folder)) for folder in folders if split in (None, folder.name)]
        elif split is not None:
            raise MissingDataError(f"{self.root}: expected a folder {split!r}, but it holds no train or val folders")
        else:
            parts = [("", folders)]
        for part, classes in parts:
            for folder in classes:
                images = _images(folder)
                if not images:
                    raise MissingDataError(f"{folder}: expected images of class {folder.name!r}, got none")
                yield from ((part, folder.name, path) for path in images)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        """Decode image ``index``: ``(C, H, W)``, unsigned bytes."""
        return decode_image(self.paths[index], colour=self.colour, max_pixels=self.max_pixels)

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.root)!r}: {len(self)} images, {len(self.classes)} classes)"

    def load_all(self, size: int | None = None) -> NDArray[np.uint8]:
        """Decode every image into one array ``(N, C, H, W)``, several at a time.

        Args:
            size: If given, each image's largest centred square is resized to ``size`` x ``size``; if not, all images
                must have one size.

        Raises:
            FormatError: Two images differ in size and no ``size`` is given.
        """

        def decode(path: Path) -> NDArray[np.uint8]:
            return decode_image(path, colour=self.colour, size=size, max_pixels=self.max_pixels)

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # Pillow decodes outside Python's lock
            try:
                return stack(len(self), pool.map(decode, self.paths), [str(path) for path in self.paths])
            except BaseException:
                pool.shutdown(cancel_futures=True)  # one bad image: do not decode the rest first
                raise


def stack(count: int, images: Iterable[NDArray[np.uint8]], names: list[str]) -> NDArray[np.uint8]:
    """Write ``count`` images of one size into one array as they come; never holds them twice."""
    stacked: NDArray[np.uint8] | None = None
    for index, image in enumerate(images):
        if stacked is None:
            stacked = np.empty((count, *image.shape), dtype=np.uint8)
        if image.shape != stacked.shape[1:]:
            (_, height, width), (h, w) = image.shape, stacked.shape[2:]
            raise FormatError(
                f"{names[index]} is {height} x {width} but {names[0]} is {h} x {w}: give size=... to resize them all"
            )
        stacked[index] = image
    if stacked is None:
        raise MissingDataError("expected images to stack, got none")
    return stacked


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    )
