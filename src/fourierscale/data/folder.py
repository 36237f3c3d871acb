"""Any folder of class folders of images is a dataset."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.decode import MAX_PIXELS, Colour, Shape, decode_image
from fourierscale.data.errors import DataError, FormatError, MissingDataError
from fourierscale.data.progress import for_each

__all__ = ["ImageFolder", "image_files", "stack"]

SUFFIXES = {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
UNREAD = {".heic", ".heif"}  # of telephones; Pillow does not know them
LAYOUT = "one folder for each class, {root}/CLASS/IMAGE.jpg"


class ImageFolder:
    """Images under ``root/CLASS/...``, or under ``root/train/CLASS/...`` and ``root/val/CLASS/...``.

    Images are listed at once and decoded when asked for. Classes are the sorted folder names; images are in the order
    of their paths, split by split. Images in folders within a class folder belong to the class. Hidden files and
    files that are not images by their suffix are left out; links to files are followed, links to folders only where
    they are class folders or splits.

    Args:
        root: The folder. Sub-folders named train, val or test (or training, valid, validation, testing) that hold
            folders and no images are splits, with the class folders one level below.
        split: Keep one split only; by default all splits are merged.
        colour: ``"rgb"`` or ``"grey"``.
        max_pixels: Larger images are refused.

    Attributes:
        paths: One path per image.
        labels: ``(N,)``, index into ``classes``.
        splits: The name of each image's split, ``""`` where the folder has none.
        classes: Class names, sorted.
        notes: What was left out, one sentence each.

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
            what = "it is a file" if self.root.exists() else "there is no such folder"
            raise MissingDataError(f"{self.root}: expected a folder of class folders, {what}")
        others: Counter[str] = Counter()
        found = list(self._find(split, others))
        self.classes = tuple(sorted({name for _, name, _ in found}))
        if len(self.classes) < 2:
            raise MissingDataError(self._too_few())
        index = {name: label for label, name in enumerate(self.classes)}
        self.paths = tuple(path for _, _, path in found)
        self.splits = tuple(part for part, _, _ in found)
        self.labels: NDArray[np.int64] = np.array([index[name] for _, name, _ in found], dtype=np.int64)
        self.notes = tuple(self._left_out(others))

    def _find(self, split: str | None, others: Counter[str]) -> Iterable[tuple[str, str, Path]]:
        """``(split, class, path)`` of every image, in order; counts the suffixes of other files."""
        folders = _subfolders(self.root)
        if any(_is_split(folder) for folder in folders):
            names = [folder.name for folder in folders]
            strange = [name for name in names if name.lower() not in SPLITS]
            if strange:
                raise MissingDataError(
                    f"{self.root} holds the split {next(n for n in names if n not in strange)!r} beside "
                    f"{_listed(strange)}: keep only train, val and test there, each with its class folders"
                )
            if split is not None and split not in names:
                raise MissingDataError(f"{self.root}: expected a folder {split!r}, got {', '.join(names)}")
            parts = [(folder.name, _subfolders(folder)) for folder in folders if split in (None, folder.name)]
        elif split is not None:
            raise MissingDataError(f"{self.root}: expected a folder {split!r}, but it holds no train or val folders")
        else:
            parts = [("", folders)]
        for part, classes in parts:
            if part and not classes:
                raise MissingDataError(f"{self.root / part}: expected class folders, got none; remove it or fill it")
            for folder in classes:
                images = image_files(folder, others)
                if not images:
                    photos = sum(path.suffix.lower() in UNREAD for path in folder.iterdir())
                    remedy = "convert its HEIC files to JPEG or PNG" if photos else "remove the folder or fill it"
                    raise MissingDataError(f"{folder}: expected images of class {folder.name!r}, got none; {remedy}")
                yield from ((part, folder.name, path) for path in images)

    def _too_few(self) -> str:
        """Why there are not two classes, and what to do."""
        loose, layout = len(self._loose()), LAYOUT.format(root=self.root)
        if not self.classes:
            inside = f"got {loose} image{'s' * (loose > 1)} directly inside" if loose else "got none"
            return f"{self.root}: expected at least two class folders with images, {inside}; images go in {layout}"
        only = self.root / self.classes[0]
        text = f"{self.root}: expected at least two class folders with images, got only {self.classes[0]!r}"
        inner = _subfolders(only) if only.is_dir() else []
        if len(inner) > 1:
            return f"{text}, which holds the folders {_listed([f.name for f in inner])}: did you mean {only}?"
        return f"{text}; images go in {layout}"

    def _left_out(self, others: Counter[str]) -> Iterable[str]:
        loose = len(self._loose())
        if loose:
            yield f"{loose} image{'s' * (loose > 1)} beside the class folders, in no class, left out"
        if others.keys() & UNREAD:
            yield f"{sum(others[suffix] for suffix in UNREAD)} HEIC files left out: convert them to JPEG or PNG first"
        if others:
            kinds = ", ".join(f"{suffix or 'no suffix'} {count}" for suffix, count in others.most_common(4))
            yield f"{others.total()} files that are no images by their names left out ({kinds})"
        by_case: dict[str, list[str]] = {}
        for name in self.classes:
            by_case.setdefault(name.casefold(), []).append(name)
        for names in by_case.values():
            if len(names) > 1:
                yield f"classes {_listed(names)} differ in case alone: are they one class?"

    def _loose(self) -> list[Path]:
        return [path for path in self.root.iterdir() if _is_image(path)]

    def part_of(self, index: int) -> str:
        """The split of image ``index``: ``"train"``, ``"val"`` or ``"test"``, ``""`` where the folder has none."""
        return SPLITS.get(self.splits[index].lower(), "")

    def short(self, index: int) -> str:
        """The path of image ``index`` below the root."""
        return self.paths[index].relative_to(self.root).as_posix()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        """Decode image ``index``: ``(C, H, W)``, unsigned bytes."""
        return self.decode(index)

    def decode(self, index: int, size: int | None = None, shape: Shape = "crop") -> NDArray[np.uint8]:
        """Decode image ``index``, as a square of ``size`` if it is given; see :func:`decode_image`."""
        return decode_image(self.paths[index], colour=self.colour, size=size, max_pixels=self.max_pixels, shape=shape)

    def why(self, index: int, error: DataError) -> str:
        """Why image ``index`` cannot be used, without its path."""
        text = str(error).removeprefix(f"{self.paths[index]}: ")
        return text.removeprefix("cannot be read as an image (").removesuffix(")") if "cannot be" in text else text

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
        images = for_each(len(self), lambda index: self.decode(index, size))
        return stack(len(self), images, [str(path) for path in self.paths])


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


def _is_split(folder: Path) -> bool:
    """A class may be called train; a split of this name holds folders and no images."""
    return folder.name.lower() in SPLITS and bool(_subfolders(folder)) and not any(map(_is_image, folder.iterdir()))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and not path.is_dir()


def image_files(folder: Path, others: Counter[str] | None = None) -> list[Path]:
    """Images in a folder and below, sorted; links to folders are not followed, for they may lead in circles.

    Args:
        folder: Where to look.
        others: Counts the suffixes of files that are no images by their names.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(place, name) for name in files if not name.startswith(".")):
            if _is_image(path):
                found.append(path)
            elif others is not None:
                others[path.suffix.lower()] += 1
    return sorted(found)


def _listed(names: list[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
