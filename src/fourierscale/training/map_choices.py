"""Sensible settings for a folder of images and masks, each with its reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from fourierscale.data.mask_folder import MaskSurvey
from fourierscale.data.mask_opening import TOP, choose_levels
from fourierscale.data.survey import own_resolutions
from fourierscale.training.choices import Choice
from fourierscale.training.config import Config

__all__ = ["choose_for_masks"]

SEEN = 30_000  # training images that a run shall see, counted as often as they are


def choose_for_masks(config: Config, found: MaskSurvey, given: Collection[str] = ()) -> tuple[Config, list[Choice]]:
    """Fill in what follows from the images and masks, and say all of it.

    Args:
        config: The preset ``segmentation``, or a config like it.
        found: The folder.
        given: Fields that the user has set; they stay as they are.
    """
    data = config.data
    levels = choose_levels(found.sides, data.size, data.lowest)
    own = own_resolutions(found.sides, levels)
    usable = int((own > 0).sum())
    batch = int(2 ** np.clip(np.floor(np.log2(max(usable / 20, 1))), 1, 5))
    epochs = int(np.clip(round(SEEN / max(usable, 1)), 8, 100))
    chosen = {
        "data.size": levels[-1],
        "data.lowest": levels[0],
        "data.colour": data.colour or found.colour,
        "data.batch_size": batch,
        "train.epochs": epochs,
    }
    config = config.replaced(f"{name}={value}" for name, value in chosen.items() if name not in given)
    sides = found.sides[found.sides > 0]
    size_why = f"shorter sides are {sides.min()} to {sides.max()} pixels"
    if "data.size" not in given and sides.max() > TOP:
        size_why += f"; {TOP} at most if not set"
    kind = "the net inside one nested map" if config.model.overrides.get("exact", True) else "bare: nothing is exact"
    rows = [
        Choice("pairs", f"{len(found.pairs):,}", f"images and masks in {found.root}"),
        Choice("data.size", str(levels[-1]), size_why),
        Choice("data.lowest", str(levels[0]), f"levels {' '.join(map(str, levels))}"),
        Choice("data.shape", config.data.shape, "all of an image, squeezed" if data.shape == "whole" else "its centre"),
        Choice("data.colour", config.data.colour or "", "that of the images"),
        Choice("data.ignore", str(data.ignore), "pixels of this number in the masks count for nothing"),
        Choice("data.batch_size", str(config.data.batch_size), "a batch holds one resolution"),
        Choice("data.augment", data.augment, "images and masks together"),
        Choice("model.name", config.model.name, kind),
        Choice("train.epochs", str(config.train.epochs), f"about {SEEN:,} images seen in all, 8 to 100 epochs"),
    ]
    return config, [replace(row, why=f"as you set it; {row.why}") if row.name in given else row for row in rows]
