"""Every image of a folder, in class folders or not: to look at or to measure with, and not to train on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fourierscale.data.decode import Header, decode_image, read_header
from fourierscale.data.errors import DataError, MissingDataError
from fourierscale.data.folder import SPLITS, image_files
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.protocols import find_protocol
from fourierscale.data.survey import GREY, TOP_LEVEL, FolderOptions, choose_resolutions

__all__ = ["PlainImages", "open_images"]


@dataclass(frozen=True, eq=False)
class PlainImages:
    """Some images of a folder, all of one size.

    Attributes:
        pixels: ``(N, C, n, n)`` from 0 to 1.
        classes: Name of the class folder of each, empty where there is none.
        resolutions: Levels up to ``n`` that suit the images.
        note: How many of how many they are, and what was left out, in words.
    """

    pixels: Tensor
    classes: tuple[str, ...]
    resolutions: tuple[int, ...]
    note: str

    def labels(self, known: Sequence[str]) -> Tensor | None:
        """Index of each image's class among known ones; None if some image is in no such class."""
        if not set(self.classes) <= set(known):
            return None
        return torch.tensor([list(known).index(name) for name in self.classes])


def open_images(
    root: str | os.PathLike[str], count: int, options: FolderOptions, report: ProgressCallback | None = None
) -> PlainImages:
    """Open so many images of a folder, evenly spread over all that are large enough, with class folders or without.

    Files that cannot be read are left out, and named.

    Args:
        root: The folder; images in folders below count as well.
        count: At most so many.
        options: ``size`` is the side of the images; if not given, the largest that ``count`` of them have, at most 96.
        report: Told how far it is.

    Raises:
        UnknownNameError: There is no such folder, and the name is a single word: perhaps that of a protocol, misspelt.
        MissingDataError: No folder, or no image in it that can be used.
    """
    folder = Path(root)
    if not folder.exists() and len(folder.parts) == 1:
        find_protocol(str(folder))
    if not folder.is_dir():
        what = "it is a file" if folder.exists() else "there is no such folder"
        raise MissingDataError(f"{folder}: expected a folder of images, {what}")
    paths = image_files(folder)

    def look(index: int) -> Header | None:
        try:
            return read_header(paths[index])
        except DataError:
            return None

    headers = list(for_each(len(paths), look, "looking at the images", report))
    sides = np.array([0 if header is None else min(header.height, header.width) for header in headers], dtype=np.int64)
    if not sides.any():
        raise MissingDataError(f"{folder}: expected images, got {len(paths)} files that could be some, none of any use")
    usable = np.sort(sides[sides > 0])
    size = options.size or min(TOP_LEVEL, int(usable[-min(count, len(usable))]))
    modes = {header.mode for header in headers if header is not None}
    colour = options.colour or ("grey" if modes <= GREY else "rgb")
    images, classes, bad = [], [], int((sides == 0).sum())
    large = np.flatnonzero(sides >= size)
    order = np.unique(np.linspace(0, len(large) - 1, min(count, len(large))).round().astype(int))
    for index in large[order] if len(large) else ():
        try:
            images.append(decode_image(paths[index], colour=colour, size=size, shape=options.shape))
        except DataError:  # damage behind the header
            bad += 1
            continue
        classes.append(_class_of(paths[index].relative_to(folder)))
    if not images:
        raise MissingDataError(
            f"{folder}: expected images of at least {size} x {size} pixels, got none: lower the size"
        )
    note = f"{len(images)} of {len(paths):,} images of {folder}, {size} x {size}"
    small = int(((sides > 0) & (sides < size)).sum())
    note += f", {small} are smaller" if small else ""
    note += f", {bad} cannot be read" if bad else ""
    pixels = torch.from_numpy(np.stack(images)).to(torch.float32) / 255
    return PlainImages(pixels, tuple(classes), choose_resolutions(usable, size, options.lowest), note)


def _class_of(path: Path) -> str:
    """The first folder of a path that is no split."""
    return next((name for name in path.parts[:-1] if name.lower() not in SPLITS), "")
