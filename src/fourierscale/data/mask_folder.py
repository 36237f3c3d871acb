"""A folder of images and of masks that say what every pixel is: which belong together, and which cannot be used."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fourierscale.data.decode import Colour, Header, read_header
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from fourierscale.data.folder import SPLITS, image_files
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.splits import Indices
from fourierscale.data.survey import GREY, NAMED

__all__ = ["MASK_MODES", "MaskSurvey", "Pair", "pair_files", "survey_masks"]

IMAGES, MASKS = "images", "masks"
MASK_MODES = {"1", "L", "P", "I;16", "I;16L", "I;16B", "I;16N"}
LAYOUT = "{root}/images/NAME.jpg with {root}/masks/NAME.png"


@dataclass(frozen=True)
class Pair:
    """An image and its mask.

    Attributes:
        name: Where both are below their folders, without the ending.
        image: The image's file.
        mask: The mask's file.
        split: ``"train"``, ``"val"`` or ``"test"``; ``""`` where the folder has none.
    """

    name: str
    image: Path
    mask: Path
    split: str


@dataclass(frozen=True, eq=False)
class MaskSurvey:
    """What the files of a folder of images and masks say before they are decoded.

    Attributes:
        name: What the user calls the folder.
        root: The folder.
        pairs: Images with their masks, sorted.
        heights: ``(N,)``, upright; 0 where a pair cannot be used.
        widths: Likewise.
        modes: How many images have each of Pillow's modes.
        bad: Why pairs cannot be used, by their number.
        alone: Why files are in no pair, by their path below the folder.
    """

    name: str
    root: Path
    pairs: tuple[Pair, ...]
    heights: Indices
    widths: Indices
    modes: Mapping[str, int]
    bad: Mapping[int, str]
    alone: Mapping[str, str]

    @property
    def sides(self) -> Indices:
        """``(N,)``, the shorter side of each image."""
        return np.minimum(self.heights, self.widths)

    @property
    def colour(self) -> Colour:
        """``"grey"`` if every image is."""
        return "grey" if set(self.modes) <= GREY else "rgb"

    def told_bad(self, further: Mapping[int, str] | None = None) -> str:
        """One sentence that counts what cannot be used and names some of it; empty if nothing is bad.

        Args:
            further: More pairs that cannot be used, with the reason of each.
        """
        reasons = {self.pairs[n].name: why for n, why in {**self.bad, **(further or {})}.items()} | dict(self.alone)
        if not reasons:
            return ""
        named = ", ".join(f"{name} ({reasons[name]})" for name in sorted(reasons)[:NAMED])
        more = f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
        return f"{len(reasons)} of {len(self.pairs) + len(self.alone):,} pairs cannot be used: {named}{more}"

    def refuse_bad(self, further: Mapping[int, str] | None = None) -> None:
        """Stop at pairs that cannot be used.

        Raises:
            CorruptFileError: There are some.
        """
        told = self.told_bad(further)
        if told:
            raise CorruptFileError(f"{self.root}: {told}; mend or remove them, or leave them out with --skip-bad")


def pair_files(root: Path) -> tuple[list[Pair], dict[str, str]]:
    """The pairs of a folder, and why the other files are in none.

    ``root/images`` and ``root/masks`` hold files of the same names but for their endings, in folders of the same names
    if there are folders. ``root/train``, ``root/val`` and ``root/test`` may each hold such two folders.

    Raises:
        MissingDataError: There are no such folders, or no pairs.
    """
    if not root.is_dir():
        what = "it is a file" if root.exists() else "there is no such folder"
        raise MissingDataError(f"{root}: expected a folder with {IMAGES}/ and {MASKS}/, {what}")
    pairs: list[Pair] = []
    alone: dict[str, str] = {}
    for split, folder in _parts(root):
        images, masks = _by_name(folder / IMAGES), _by_name(folder / MASKS)
        for name in sorted({*images, *masks}):
            files = [found.get(name, []) for found in (images, masks)]
            if all(len(found) == 1 for found in files):
                below = folder.relative_to(root) / name
                pairs.append(Pair(below.as_posix(), files[0][0], files[1][0], split))
                continue
            for place, (own, other) in enumerate((files, files[::-1])):
                what = (MASKS, IMAGES)[place][:-1]
                why = f"no {what} of this name" if not other else "several files of this name"
                alone |= {path.relative_to(root).as_posix(): why for path in own}
    if not pairs:
        raise MissingDataError(f"{root}: expected images and masks of the same names, {LAYOUT.format(root=root)}")
    return pairs, alone


def _parts(root: Path) -> Iterator[tuple[str, Path]]:
    if (root / IMAGES).is_dir() and (root / MASKS).is_dir():
        yield "", root
        return
    found = [path for path in sorted(root.iterdir()) if path.name.lower() in SPLITS and (path / IMAGES).is_dir()]
    if not found:
        raise MissingDataError(
            f"{root}: expected the folders {IMAGES} and {MASKS} in it (or in train, val and test in it): "
            f"{LAYOUT.format(root=root)}"
        )
    for folder in found:
        if not (folder / MASKS).is_dir():
            raise MissingDataError(f"{folder}: expected a folder {MASKS} beside {IMAGES}")
        yield SPLITS[folder.name.lower()], folder


def _by_name(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in image_files(folder):
        found.setdefault(path.relative_to(folder).with_suffix("").as_posix(), []).append(path)
    return found


def survey_masks(name: str | os.PathLike[str], report: ProgressCallback | None = None) -> MaskSurvey:
    """Read the header of every image and mask of a folder, several at a time.

    Raises:
        MissingDataError: It is not a folder of images and masks.
    """
    root = Path(name).expanduser()
    pairs, alone = pair_files(root)

    def look(number: int) -> Header | str:
        pair = pairs[number]
        image, mask = (_header(path, lambda path: read_header(path)) for path in (pair.image, pair.mask))
        if isinstance(image, str):
            return f"image: {image}"
        if isinstance(mask, str):
            return f"mask: {mask}"
        if (image.height, image.width) != (mask.height, mask.width):
            return f"image of {image.width} x {image.height}, mask of {mask.width} x {mask.height} pixels"
        if mask.mode not in MASK_MODES:
            return f"mask of colours ({mask.mode}), expected one number for each pixel"
        return image

    found = list(for_each(len(pairs), look, "looking at images and masks", report))
    headers = [header if isinstance(header, Header) else Header(0, 0, "") for header in found]
    return MaskSurvey(
        os.fspath(name),
        root,
        tuple(pairs),
        np.array([header.height for header in headers], dtype=np.int64),
        np.array([header.width for header in headers], dtype=np.int64),
        Counter(header.mode for header in headers if header.mode),
        {number: why for number, why in enumerate(found) if isinstance(why, str)},
        alone,
    )


def _header(path: Path, read: Callable[[Path], Header]) -> Header | str:
    """A header, or why there is none."""
    try:
        return read(path)
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return (error.strerror or str(error)).lower()
