"""A folder of class folders as images at their own resolutions, split; images that cannot be used are named."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.decode import Colour, Shape, decode_image
from fourierscale.data.errors import DataError, MissingDataError
from fourierscale.data.folder import ImageFolder
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.protocols import FOLDER, Protocol, find_protocol
from fourierscale.data.sized import SizedImages
from fourierscale.data.splits import split_classes
from fourierscale.data.streamed import StreamedImages
from fourierscale.data.survey import (
    LARGEST,
    Survey,
    choose_resolutions,
    own_resolutions,
    reason,
    refuse,
    stop,
    survey,
)

__all__ = ["FolderSettings", "FoundImages", "folder_path", "open_folder", "plan_splits"]

Indices = NDArray[np.int64]
SHARES = {"val": 0.1, "test": 0.2}


@dataclass(frozen=True)
class FolderSettings:
    """What can be chosen about a folder.

    Attributes:
        size: The highest resolution; follows from the images if not given.
        lowest: The lowest, likewise.
        shape: How images become square; see :func:`decode_image`.
        colour: ``"rgb"`` or ``"grey"``; if not given, grey if all images are.
        skip_bad: Go on without images that cannot be used.
    """

    size: int | None = None
    lowest: int | None = None
    shape: Shape = "crop"
    colour: Colour | None = None
    skip_bad: bool = False


@dataclass(frozen=True, eq=False)
class FoundImages:
    """What a protocol cuts its splits from.

    Attributes:
        labels: ``(N,)``, index into ``classes``.
        classes: Class names.
        source: Where the images came from, in words.
        cut: Gives the images at some indices.
        splits: The indices of each split, where they are not the protocol's shares.
        own: ``(N,)``, the resolution of each image, where it is not dealt.
        notes: What a reader of results must know, one sentence each.
        names: What each image's file is called, where that is known.
    """

    labels: Indices
    classes: tuple[str, ...]
    source: str
    cut: Callable[[Indices], NDArray[np.uint8] | StreamedImages | SizedImages]
    splits: Mapping[str, Indices] | None = None
    own: Indices | None = None
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def folder_path(name: str) -> Path:
    """The folder that ``folder:PATH`` names.

    >>> str(folder_path("folder:photos"))
    'photos'
    """
    return Path(os.path.expanduser(name.removeprefix(FOLDER)))


def open_folder(
    name: str, settings: FolderSettings, seed: int, report: ProgressCallback | None, memory_limit: int
) -> tuple[Protocol, FoundImages]:
    """The protocol of ``folder:PATH`` and its images.

    Images are decoded once, all of them, so that every damaged file is found before training begins; a folder that
    decodes to more than ``memory_limit`` bytes is then decoded again whenever a batch is made.

    Raises:
        MissingDataError: A folder that is not one of class folders, or a class with too few images.
        CorruptFileError: Images that cannot be used, unless they are to be skipped.
    """
    find_protocol(name, settings.size)  # a wrong setting is refused before images are looked at
    found = survey(ImageFolder(folder_path(name)), report)
    folder = found.folder
    folder.colour = settings.colour or found.colour
    resolutions = choose_resolutions(found.sides, settings.size, settings.lowest, LARGEST)
    size = resolutions[-1]
    if len(found.bad) == len(folder):
        raise stop(folder, found.bad)
    own = own_resolutions(found.sides, resolutions)
    bad = dict(found.bad) | _too_small(found, own, resolutions[0])
    streamed = int((own**2).sum()) * (1 if folder.colour == "grey" else 3) > memory_limit

    def decode(index: int) -> NDArray[np.uint8] | str | None:
        if index in bad:
            return bad[index]
        try:
            image = decode_image(
                folder.paths[index],
                colour=folder.colour,
                size=int(own[index]),
                max_pixels=folder.max_pixels,
                shape=settings.shape,
            )
        except DataError as error:
            return reason(error, folder, index)
        return None if streamed else image

    images = for_each(len(folder), decode, "decoding the images", report)
    bad |= {index: why for index, why in enumerate(images) if isinstance(why, str)}
    if bad and not settings.skip_bad:
        raise stop(folder, bad)
    notes = list(folder.notes)
    if bad:
        notes.append(f"left out: {refuse(folder, bad)}")
        if report is not None:
            report(notes[-1], None)
    kept = np.array([index for index in range(len(folder)) if index not in bad], dtype=np.int64)
    labels = folder.labels[kept]
    splits, told = plan_splits(folder, kept, seed)

    def cut(chosen: Indices) -> StreamedImages | SizedImages:
        if streamed:
            return StreamedImages(folder, own, kept[chosen], settings.shape)
        return SizedImages([images[index] for index in kept[chosen]], size)

    protocol = find_protocol(name, size, resolutions[0], settings.shape, folder.colour)
    source = f"folder {folder.root}" + (", streamed" if streamed else "")
    protocol = replace(protocol, note=f"{told}; {protocol.note}")
    names = tuple(folder.short(index) for index in kept)
    return protocol, FoundImages(labels, folder.classes, source, cut, splits, own[kept], tuple(notes), names)


def _too_small(found: Survey, own: Indices, lowest: int) -> dict[int, str]:
    return {
        int(index): f"{found.widths[index]} x {found.heights[index]} pixels, smaller than {lowest}"
        for index in np.flatnonzero(own == 0)
        if int(index) not in found.bad
    }


def plan_splits(folder: ImageFolder, kept: Indices, seed: int) -> tuple[dict[str, Indices], str]:
    """Which of the images that can be used go where, and a few words on it.

    The folder's own splits hold. What they lack is cut from the training images: validation images always, and where
    there are no test images, those of the val folder are the test images. Without splits every class is cut by itself,
    70 / 10 / 20 %.

    Args:
        folder: The images.
        kept: Which of them can be used; indices in the result are positions in this list.
        seed: Decides which images of a class go where.
    """
    labels = folder.labels[kept]
    parts = np.array([folder.part_of(index) for index in kept])
    if not (parts != "").any():
        _check_counts(folder, labels, len(SHARES) + 1, "to train, validate and test")
        return split_classes(labels, SHARES, seed), "70 / 10 / 20 % of every class"
    train, val, test = (np.flatnonzero(parts == name) for name in ("train", "val", "test"))
    if not len(train) or not len(val) + len(test):
        lacking = "train" if not len(train) else "test"
        raise MissingDataError(f"{folder.root}: expected a folder {lacking!r} beside {_folders(folder)}")
    if len(val) and len(test):
        _check_counts(folder, labels[train], 1, "to train")
        return {"train": train, "val": val, "test": test}, "the folder's own train, val and test"
    which = "test" if len(test) else "val"
    _check_counts(folder, labels[train], 2, "to train and validate")
    inner = split_classes(labels[train], {"val": SHARES["val"]}, seed)
    splits = {"train": train[inner["train"]], "val": train[inner["val"]], "test": test if len(test) else val}
    return splits, f"tested on the folder {which!r}, validated on 10 % of 'train'"


def _check_counts(folder: ImageFolder, labels: Indices, least: int, purpose: str) -> None:
    counts = np.bincount(labels, minlength=len(folder.classes))
    few = [(name, int(count)) for name, count in zip(folder.classes, counts, strict=True) if count < least]
    if few:
        told = ", ".join(f"{name!r} has {count}" for name, count in few[:4])
        more = f" and {len(few) - 4} more classes have too few" if len(few) > 4 else ""
        raise MissingDataError(
            f"{folder.root}: expected at least {least} usable images of every class, {purpose}, but {told}{more}: "
            "add images, or remove the class"
        )


def _folders(folder: ImageFolder) -> str:
    return ", ".join(repr(name) for name in sorted(set(folder.splits)))
