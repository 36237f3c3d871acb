"""Look at a folder before training on it: sizes, colours, files that cannot be used; and choose resolutions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierscale.data.decode import Colour, Header, read_header
from fourierscale.data.errors import CorruptFileError, DataError
from fourierscale.data.folder import ImageFolder
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.functional.levels import Levels

__all__ = ["LARGEST", "Survey", "choose_resolutions", "own_resolutions", "refuse", "survey"]

LARGEST = 96
LEVELS = 7
SMALLEST = 8
GREY = {"1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "I;16N"}
NAMED = 5  # bad files that a message names


@dataclass(frozen=True, eq=False)
class Survey:
    """What the headers of a folder's images say.

    Attributes:
        folder: The images.
        heights: ``(N,)``, upright; 0 where the file cannot be used.
        widths: Likewise.
        modes: How many images have each of Pillow's modes.
        bad: Why images cannot be used, by their index.
    """

    folder: ImageFolder
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]
    modes: Mapping[str, int]
    bad: Mapping[int, str]

    @property
    def sides(self) -> NDArray[np.int64]:
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


def survey(folder: ImageFolder, report: ProgressCallback | None = None) -> Survey:
    """Read the header of every image, several at a time."""

    def look(index: int) -> Header | str:
        try:
            return read_header(folder.paths[index], folder.max_pixels)
        except DataError as error:
            return reason(error, folder, index)

    found = for_each(len(folder), look, "looking at the images", report)
    headers = [header if isinstance(header, Header) else Header(0, 0, "") for header in found]
    return Survey(
        folder,
        np.array([header.height for header in headers], dtype=np.int64),
        np.array([header.width for header in headers], dtype=np.int64),
        Counter(header.mode for header in headers if header.mode),
        {index: why for index, why in enumerate(found) if isinstance(why, str)},
    )


def choose_resolutions(
    sides: ArrayLike, size: int | None = None, lowest: int | None = None, most: int = LARGEST
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
        lowest = max(min(SMALLEST, size // 2), min(size // 4, int(usable.min()) if len(usable) else size))
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


def reason(error: DataError, folder: ImageFolder, index: int) -> str:
    """Why one image cannot be used, without its path."""
    text = str(error).removeprefix(f"{folder.paths[index]}: ")
    return text.removeprefix("cannot be read as an image (").removesuffix(")") if "cannot be" in text else text


def refuse(folder: ImageFolder, bad: Mapping[int, str]) -> str:
    """One sentence that counts images that cannot be used and names some of them, with the reason of each."""
    named = [f"{folder.short(index)} ({bad[index]})" for index in sorted(bad)[:NAMED]]
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    return f"{len(bad)} of {len(folder):,} images cannot be used: {', '.join(named)}{more}"


def stop(folder: ImageFolder, bad: Mapping[int, str]) -> CorruptFileError:
    """The error of a folder with images that cannot be used."""
    them = "it" if len(bad) == 1 else "them"
    return CorruptFileError(
        f"{folder.root}: {refuse(folder, bad)}; mend or remove {them}, or leave {them} out with --skip-bad"
    )
