"""Look at a folder before training on it: sizes, colours, files that cannot be used; then choose levels and splits."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierscale.data.decode import Colour, Header, Shape, read_header
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from fourierscale.data.folder import ImageFolder
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.protocols import bare_name, find_protocol
from fourierscale.data.splits import Indices, split_classes
from fourierscale.functional.levels import Levels
from fourierscale.models.preprocessing import LARGEST_SIDE

__all__ = [
    "TOP_LEVEL",
    "FolderOptions",
    "FolderPlan",
    "Survey",
    "choose_resolutions",
    "own_resolutions",
    "survey_folder",
]

TOP_LEVEL = 96
"""The highest resolution that is chosen where none is asked for."""
LEVELS = 7
LOWEST = 8
GREY = {"1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "I;16N"}
NAMED = 5  # bad files that a message names
SHARES = {"val": 0.1, "test": 0.2}


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """What may be said about a folder of images; the rest follows from them.

    Attributes:
        size: The highest resolution.
        lowest: The lowest.
        shape: How images become square: ``"crop"``, the centred square, or ``"whole"``, all of the image, squeezed.
        colour: ``"rgb"`` or ``"grey"``; if not given, grey if all images are.
        skip_bad: Go on without images that cannot be used, and say which.
        memory_limit: A folder that decodes to more bytes than this is decoded again for every batch.
    """

    size: int | None = None
    lowest: int | None = None
    shape: Shape = "crop"
    colour: Colour | None = None
    skip_bad: bool = False
    memory_limit: int = 1 << 30

    def __post_init__(self) -> None:
        if self.size is not None and not 2 <= self.size <= LARGEST_SIDE:
            raise DataError(f"expected a size of 2 or more, at most {LARGEST_SIDE}, got {self.size}")
        if self.lowest is not None and not 1 <= self.lowest <= LARGEST_SIDE:
            raise DataError(f"expected a lowest resolution from 1 to {LARGEST_SIDE}, got {self.lowest}")


@dataclass(frozen=True, eq=False)
class Survey:
    """What the headers of a folder's images say.

    Attributes:
        name: What the user calls the folder.
        folder: The images.
        heights: ``(N,)``, upright; 0 where the file cannot be used.
        widths: Likewise.
        modes: How many images have each of Pillow's modes.
        bad: Why images cannot be used, by their index.
    """

    name: str
    folder: ImageFolder
    heights: Indices
    widths: Indices
    modes: Mapping[str, int]
    bad: Mapping[int, str]

    @property
    def sides(self) -> Indices:
        """``(N,)``, the shorter side of each image: the largest square resolution that it has."""
        return np.minimum(self.heights, self.widths)

    @property
    def colour(self) -> Colour:
        """``"grey"`` if every image is."""
        return "grey" if set(self.modes) <= GREY else "rgb"

    @property
    def elongated(self) -> int:
        """How many images are not square."""
        return int((self.heights != self.widths).sum())

    def plan(self, options: FolderOptions, seed: int = 0, most: int = TOP_LEVEL) -> FolderPlan:
        """Choose the levels; see :func:`choose_resolutions`."""
        resolutions = choose_resolutions(self.sides, options.size, options.lowest, most)
        own = own_resolutions(self.sides, resolutions)
        small = {
            int(index): f"{self.widths[index]} x {self.heights[index]} pixels, smaller than {resolutions[0]}"
            for index in np.flatnonzero(own == 0)
        }
        return FolderPlan(self, resolutions, own, small | dict(self.bad), seed)


@dataclass(frozen=True, eq=False)
class FolderPlan:
    """What becomes of a folder's images.

    Attributes:
        survey: The images.
        resolutions: The levels.
        own: ``(N,)``, the highest level that each image has, 0 where it has none.
        bad: Why images cannot be used, by their index.
        seed: Decides which images of a class go where.
    """

    survey: Survey
    resolutions: tuple[int, ...]
    own: Indices
    bad: Mapping[int, str]
    seed: int

    def without(self, bad: Mapping[int, str]) -> FolderPlan:
        """The same, with more images that cannot be used."""
        return replace(self, bad={**self.bad, **bad})

    @functools.cached_property
    def kept(self) -> Indices:
        """The images that can be used."""
        return np.array([index for index in range(len(self.survey.folder)) if index not in self.bad], dtype=np.int64)

    @property
    def splits(self) -> dict[str, Indices]:
        """Positions in ``kept`` of the images of each split."""
        return self._split[0]

    @property
    def told(self) -> str:
        """A few words on the splits."""
        return self._split[1]

    @functools.cached_property
    def _split(self) -> tuple[dict[str, Indices], str]:
        """The folder's own splits hold.

        What they lack is cut from the training images: validation images always, and where there are no test images,
        those of the val folder are the test images. Without splits every class is cut by itself, 70 / 10 / 20 %.
        """
        folder = self.survey.folder
        labels = folder.labels[self.kept]
        parts = np.array([folder.part_of(index) for index in self.kept])
        if not (parts != "").any():
            self._check_counts(labels, len(SHARES) + 1, "to train, validate and test")
            return split_classes(labels, SHARES, self.seed), "70 / 10 / 20 % of every class"
        train, val, test = (np.flatnonzero(parts == name) for name in ("train", "val", "test"))
        if not len(train) or not len(val) + len(test):
            lacking, beside = "train" if not len(train) else "test", sorted(set(folder.splits))
            raise MissingDataError(
                f"{folder.root}: expected a folder {lacking!r} beside {', '.join(map(repr, beside))}"
            )
        if len(val) and len(test):
            self._check_counts(labels[train], 1, "to train")
            return {"train": train, "val": val, "test": test}, "the folder's own train, val and test"
        which = "test" if len(test) else "val"
        self._check_counts(labels[train], 2, "to train and validate")
        inner = split_classes(labels[train], {"val": SHARES["val"]}, self.seed)
        splits = {"train": train[inner["train"]], "val": train[inner["val"]], "test": test if len(test) else val}
        return splits, f"tested on the folder {which!r}, validated on 10 % of 'train'"

    def _check_counts(self, labels: Indices, least: int, purpose: str) -> None:
        folder = self.survey.folder
        counts = np.bincount(labels, minlength=len(folder.classes))
        few = [f"{name!r} has {count}" for name, count in zip(folder.classes, counts, strict=True) if count < least]
        if few:
            more = f" and {len(few) - 4} more classes have too few" if len(few) > 4 else ""
            raise MissingDataError(
                f"{folder.root}: expected at least {least} usable images of every class, {purpose}, but "
                f"{', '.join(few[:4])}{more}: add images, or remove the class"
            )

    def name_bad(self) -> str:
        """One sentence that counts images that cannot be used and names some of them, with the reason of each."""
        folder = self.survey.folder
        named = [f"{folder.short(index)} ({self.bad[index]})" for index in sorted(self.bad)[:NAMED]]
        more = f" and {len(self.bad) - NAMED} more" if len(self.bad) > NAMED else ""
        return f"{len(self.bad)} of {len(folder):,} images cannot be used: {', '.join(named)}{more}"

    def refuse_bad(self) -> None:
        """Stop at images that cannot be used.

        Raises:
            CorruptFileError: There are some.
        """
        if self.bad:
            them = "it" if len(self.bad) == 1 else "them"
            raise CorruptFileError(
                f"{self.survey.folder.root}: {self.name_bad()}; mend or remove {them}, or leave {them} out with "
                "--skip-bad"
            )


def survey_folder(name: str | os.PathLike[str], report: ProgressCallback | None = None) -> Survey:
    """Read the header of every image of a folder, several at a time.

    Raises:
        UnknownNameError: There is no such folder, and the name is a single word: perhaps that of a protocol, misspelt.
        MissingDataError: It is not a folder of class folders.
    """
    given = bare_name(os.fspath(name))
    path = Path(given).expanduser()
    if not given:
        raise MissingDataError("expected the path of a folder of class folders, or the name of a protocol, got none")
    if not path.exists() and len(path.parts) == 1:
        find_protocol(str(path))
    folder = ImageFolder(path)

    def look(index: int) -> Header | str:
        try:
            return read_header(folder.paths[index], folder.max_pixels)
        except DataError as error:
            return folder.why(index, error)

    found = list(for_each(len(folder), look, "looking at the images", report))
    headers = [header if isinstance(header, Header) else Header(0, 0, "") for header in found]
    return Survey(
        given,
        folder,
        np.array([header.height for header in headers], dtype=np.int64),
        np.array([header.width for header in headers], dtype=np.int64),
        Counter(header.mode for header in headers if header.mode),
        {index: why for index, why in enumerate(found) if isinstance(why, str)},
    )


def choose_resolutions(
    sides: ArrayLike, size: int | None = None, lowest: int | None = None, most: int = TOP_LEVEL
) -> tuple[int, ...]:
    """Seven resolutions in constant ratio, for images with these shorter sides.

    Args:
        sides: ``(N,)``, zeros for images that cannot be used.
        size: The highest; if not given, a quarter of the images is at least as large, ``most`` at most.
        lowest: The lowest; if not given, a quarter of the highest, or the side of the smallest image if that is less,
            but no less than 8 (or half of the highest).
        most: Limit of the highest where it is not given.

    >>> choose_resolutions([30, 64, 200, 500])
    (24, 30, 38, 48, 60, 76, 96)
    >>> choose_resolutions([20, 28, 28, 28])
    (8, 10, 12, 15, 18, 23, 28)
    """
    usable = np.asarray(sides, dtype=np.int64)
    usable = usable[usable > 0]
    if size is None:
        size = min(most, int(np.quantile(usable, 0.75, method="lower"))) if len(usable) else most
    if lowest is None:
        lowest = max(min(LOWEST, size // 2), min(size // 4, int(usable.min()) if len(usable) else size))
    if not 1 <= lowest <= size:
        raise DataError(f"expected a lowest resolution from 1 to the size {size}, got {lowest}")
    if lowest == size:
        return (size,)
    return tuple(Levels.geometric(lowest, size, LEVELS).resolutions)  # type: ignore[arg-type]


def own_resolutions(sides: ArrayLike, resolutions: ArrayLike) -> NDArray[np.int64]:
    """For each image the highest resolution that it has, 0 where it is smaller than all.

    >>> own_resolutions([7, 8, 30, 500], [8, 16, 32]).tolist()
    [0, 8, 16, 32]
    """
    steps = np.concatenate([[0], np.sort(np.asarray(resolutions, dtype=np.int64))])
    own: NDArray[np.int64] = steps[np.searchsorted(steps, np.asarray(sides), side="right") - 1]
    return own
