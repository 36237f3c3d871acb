"""Images and masks that are there, decoded: what a net is trained on to say of every pixel what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fourierscale.data.decode import Shape, decode_image, opened_image
from fourierscale.data.errors import DataError, FormatError, MissingDataError
from fourierscale.data.mask_folder import MASK_MODES, MaskSurvey
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.protocols import IMAGENET, IMAGENET_GREY, Protocol
from fourierscale.data.splits import Indices, split_classes
from fourierscale.data.survey import SHARES, FolderOptions, own_resolutions
from fourierscale.functional.levels import Levels

__all__ = ["FoundPairs", "choose_levels", "open_masks", "read_mask"]

NAMES = "classes.txt"
MOST_CLASSES = 255  # masks are kept as bytes, and one number is for pixels that are ignored
LEVELS, TOP = 3, 96


@dataclass(frozen=True, eq=False)
class FoundPairs:
    """What splits are cut from.

    Attributes:
        images: Each ``(C, m, m)``, unsigned bytes.
        masks: Each ``(1, m, m)``, the number of the class of each pixel, or the number of classes where it is ignored.
        own: ``(N,)``, the resolution of each image.
        classes: Names of the classes.
        splits: The numbers of the images of each split.
        names: What each pair is called.
        source: Where they came from, in words.
        note: What a reader of results must know.
    """

    images: Sequence[NDArray[np.uint8]]
    masks: Sequence[NDArray[np.uint8]]
    own: Indices
    classes: tuple[str, ...]
    splits: Mapping[str, Indices]
    names: tuple[str, ...]
    source: str
    note: str = ""


def choose_levels(
    sides: Indices, size: int | None = None, lowest: int | None = None, most: int = TOP
) -> tuple[int, ...]:
    """Three resolutions, each 1.4 times the one below, for images with these shorter sides.

    Args:
        sides: ``(N,)``, zeros for images that cannot be used.
        size: The highest; if not given, half of the images are at least as large, ``most`` at most.
        lowest: The lowest; half of the highest if not given.
        most: Limit of the highest where it is not given.

    >>> choose_levels(np.array([64, 200, 500]))
    (48, 68, 96)
    """
    usable = sides[sides > 0]
    if size is None:
        size = min(most, int(np.quantile(usable, 0.5, method="lower"))) if len(usable) else most
    lowest = max(1, size // 2) if lowest is None else lowest
    if not 1 <= lowest <= size:
        raise DataError(f"expected a lowest resolution from 1 to the size {size}, got {lowest}")
    if lowest == size:
        return (size,)
    return tuple(Levels.geometric(lowest, size, LEVELS).resolutions)  # type: ignore[arg-type]


def read_mask(path: Path) -> NDArray[np.int64]:
    """The number of each pixel of a mask, ``(H, W)``: grey values, or places in a palette.

    Raises:
        FormatError: A mask of colours.
        CorruptFileError: As :func:`decode_image`.
    """
    with opened_image(path, str(path), modes=MASK_MODES) as image:
        values = np.asarray(image)
    if values.ndim != 2:
        raise FormatError(f"{path}: expected one number for each pixel, got {values.shape[2]} channels")
    return values.astype(np.int64)


def resize_mask(values: NDArray[np.int64], size: int, shape: Shape) -> NDArray[np.int64]:
    """A mask as a square, cut as its image is: of each small pixel the number that fills most of it."""
    from PIL import Image, ImageOps

    if values.shape == (size, size):
        return values
    numbers = np.unique(values)
    shares = []
    for number in numbers:
        part = Image.fromarray(((values == number) * 255).astype(np.uint8))
        if shape == "crop":
            part = ImageOps.fit(part, (size, size), method=Image.Resampling.BOX)
        else:
            part = part.resize((size, size), Image.Resampling.BOX)
        shares.append(np.asarray(part))
    chosen: NDArray[np.int64] = numbers[np.argmax(np.stack(shares), axis=0)]
    return chosen


def open_masks(
    survey: MaskSurvey,
    options: FolderOptions,
    ignore: int | None = None,
    seed: int = 0,
    report: ProgressCallback | None = None,
    most: int = TOP,
) -> tuple[Protocol, FoundPairs]:
    """The protocol of a folder of images and masks, and what is in it.

    Everything is decoded once, so that each damaged file is found before training begins.

    Args:
        survey: The folder.
        options: What may be said about it.
        ignore: Pixels of this number count for nothing.
        seed: Decides which images go where.
        report: Told how far it is.
        most: Highest resolution chosen where none is asked for.

    Raises:
        MissingDataError: Too few pairs or classes, or names that do not belong to them.
        CorruptFileError: Pairs that cannot be used, unless they are to be skipped.
        DataError: More than fits into the memory that is allowed.
    """
    resolutions = choose_levels(survey.sides, options.size, options.lowest, most)
    own = own_resolutions(survey.sides, resolutions)
    colour = options.colour or survey.colour
    small = {
        int(n): f"{survey.widths[n]} x {survey.heights[n]} pixels, smaller than {resolutions[0]}"
        for n in np.flatnonzero(own == 0)
    }
    bad = small | dict(survey.bad)
    channels = 1 if colour == "grey" else 3
    needed = int((own**2).sum()) * (channels + 1)
    if needed > options.memory_limit:
        raise DataError(
            f"{survey.root}: images and masks take {needed >> 20:,} MiB, more than the limit of "
            f"{options.memory_limit >> 20:,}: set data.size lower, or data.memory_limit higher"
        )

    def decode(n: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | str:
        if n in bad:
            return bad[n]
        pair, size = survey.pairs[n], int(own[n])
        try:
            image = decode_image(pair.image, colour=colour, size=size, shape=options.shape)
            return image, resize_mask(read_mask(pair.mask), size, options.shape)
        except DataError as error:
            return str(error).removeprefix(f"{pair.image}: ").removeprefix(f"{pair.mask}: ")

    found = list(for_each(len(survey.pairs), decode, "decoding images and masks", report))
    bad = {n: why for n, why in enumerate(found) if isinstance(why, str)}
    usable = [pair for pair in found if not isinstance(pair, str)]
    note = survey.told_bad(bad)
    if not options.skip_bad or not usable:
        survey.refuse_bad(bad)
    if note and report is not None:
        report(f"left out: {note}", None)
    numbers = sorted({int(n) for _, mask in usable for n in np.unique(mask)} - {ignore})
    classes = _names(survey.root, numbers)
    table = np.array([*numbers], dtype=np.int64)
    masks = [_as_classes(mask, table)[None] for _, mask in usable]
    kept = np.array([n for n in range(len(found)) if n not in bad], dtype=np.int64)
    splits, told = _split(survey, kept, seed)
    how = "centred squares" if options.shape == "crop" else "whole images"
    protocol = Protocol(
        name=survey.name,
        dataset=survey.name,
        sizes=(70, 10, 20),
        of=100,
        resolutions=resolutions,
        equivariance=resolutions,
        note=f"{told}; {how}, each at the highest of {', '.join(map(str, resolutions))} pixels that it has",
        shape=options.shape,
        task="segmentation",
        **(IMAGENET_GREY if channels == 1 else IMAGENET),
    )
    return protocol, FoundPairs(
        [image for image, _ in usable],
        masks,
        own[kept],
        classes,
        splits,
        tuple(survey.pairs[n].name for n in kept),
        f"folder {survey.root}",
        f"left out: {note}" if note else "",
    )


def _as_classes(mask: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Places of the numbers in a sorted table; that behind the last where a number is not in it."""
    place = np.searchsorted(numbers, mask).clip(max=len(numbers) - 1)
    return np.where(numbers[place] == mask, place, len(numbers)).astype(np.uint8)


def _names(root: Path, numbers: Sequence[int]) -> tuple[str, ...]:
    """What the classes are called: the lines of ``classes.txt``, or their numbers in the masks."""
    if not 2 <= len(numbers) <= MOST_CLASSES:
        raise MissingDataError(f"{root}: expected 2 to {MOST_CLASSES} classes in the masks, got {len(numbers)}")
    path = root / NAMES
    if not path.is_file():
        return tuple(map(str, numbers))
    names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    if len(names) != len(numbers) or len(set(names)) < len(names):
        shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        raise MissingDataError(
            f"{path}: expected a name of its own for each of {len(numbers)} classes ({shown}), got {len(names)} lines"
        )
    return names


def _split(survey: MaskSurvey, kept: Indices, seed: int) -> tuple[dict[str, Indices], str]:
    """The folder's own splits hold; what they lack is cut from the training images, or 70 / 10 / 20 % of all."""
    parts = np.array([survey.pairs[n].split for n in kept])
    everything = np.arange(len(kept))
    if not (parts != "").any():
        return _cut(survey, everything, SHARES, seed), "70 / 10 / 20 % of the pairs"
    train, val, test = (np.flatnonzero(parts == name) for name in ("train", "val", "test"))
    if not len(train) or not len(val) + len(test):
        lacking = "train" if not len(train) else "test"
        raise MissingDataError(f"{survey.root}: expected a folder {lacking!r} with usable pairs")
    if len(val) and len(test):
        return {"train": train, "val": val, "test": test}, "the folder's own train, val and test"
    inner = _cut(survey, train, {"val": SHARES["val"]}, seed)
    return {
        **inner,
        "test": test if len(test) else val,
    }, "tested on the folder's own split, validated on 10 % of 'train'"


def _cut(survey: MaskSurvey, numbers: Indices, shares: Mapping[str, float], seed: int) -> dict[str, Indices]:
    try:
        parts = split_classes(np.zeros(len(numbers), dtype=np.int64), shares, seed)
    except ValueError:
        raise MissingDataError(
            f"{survey.root}: expected {len(shares) + 1} usable pairs or more, got {len(numbers)}"
        ) from None
    return {name: numbers[inner] for name, inner in parts.items()}


def as_tensor(arrays: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
    """Arrays of one size as one tensor."""
    return torch.from_numpy(np.stack(arrays))
