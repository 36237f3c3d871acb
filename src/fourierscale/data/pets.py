"""The Oxford-IIIT pets: photographs of cats and dogs with masks of what is pet, on the published split."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from fourierscale.data.cache import cache_folder
from fourierscale.data.decode import decode_image
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from fourierscale.data.mask_folder import pair_files
from fourierscale.data.mask_opening import FoundPairs, read_mask, resize_mask
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.protocols import Protocol
from fourierscale.data.splits import split_classes

__all__ = ["open_pets"]

BACKGROUND = 2  # in the masks; 1 is pet and 3 the border of a pet, which counts as pet
SIDE = 96
VALIDATED = 0.05  # of trainval


def open_pets(
    protocol: Protocol,
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    report: ProgressCallback | None = None,
) -> FoundPairs:
    """The centred squares of 96 pixels of all pets; the published test images, and trainval less 5 % for validation.

    Args:
        protocol: What it is called.
        data_dir: A folder with ``images``, ``masks``, ``trainval.csv`` and ``test.csv``, or with a folder ``pets`` that
            has them; the cache if not given. Nothing is downloaded.
        seed: Decides which images of trainval are validated on.
        report: Told how far it is.

    Raises:
        MissingDataError: They are not there.
        CorruptFileError: A file is damaged.
    """
    root = _find(data_dir)
    pairs = {pair.name: pair for pair in pair_files(root)[0]}
    names, breeds, published = [], [], []
    for part in ("trainval", "test"):
        with (root / f"{part}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                names.append(row["name"])
                breeds.append(int(row["breed_id"]))
                published.append(part)
    lacking = [name for name in names if name not in pairs]
    if lacking:
        raise MissingDataError(f"{root}: {len(lacking)} pets have no image or mask: {', '.join(lacking[:5])}")

    def decode(number: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], ...] | str:
        pair = pairs[names[number]]
        try:
            image = decode_image(pair.image, size=SIDE)
            mask = resize_mask(read_mask(pair.mask), SIDE, "crop")
        except DataError as error:
            return str(error)
        return image, (mask != BACKGROUND).astype(np.uint8)[None]

    found = list(for_each(len(names), decode, "decoding the pets", report))
    bad = [pair for pair in found if isinstance(pair, str)]
    if bad:
        raise CorruptFileError(bad[0])
    both = [pair for pair in found if not isinstance(pair, str)]
    trainval = np.flatnonzero(np.array(published) == "trainval")
    inner = split_classes(np.array(breeds)[trainval], {"val": VALIDATED}, seed)
    splits = {name: trainval[part] for name, part in inner.items()}
    splits["test"] = np.flatnonzero(np.array(published) == "test")
    return FoundPairs(
        [image for image, _ in both],
        [mask for _, mask in both],
        np.full(len(names), protocol.resolutions[-1]),
        protocol.classes,
        splits,
        tuple(names),
        f"folder {root}",
    )


def _find(data_dir: str | os.PathLike[str] | None) -> Path:
    given = cache_folder() if data_dir is None else Path(data_dir).expanduser()
    for root in (given / "pets", given):
        if all((root / name).exists() for name in ("images", "masks", "trainval.csv", "test.csv")):
            return root
    raise MissingDataError(
        f"{given}: expected a folder pets with images, masks, trainval.csv and test.csv; give the folder that holds it "
        "as --data-dir"
    )
