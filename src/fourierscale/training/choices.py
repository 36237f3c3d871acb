"""Sensible settings for a folder of images: each follows from the images, is said with its reason, and can be set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from fourierscale.data.survey import TOP_LEVEL, FolderPlan, Survey
from fourierscale.training.config import Config
from fourierscale.training.errors import ConfigError

__all__ = ["Choice", "choose"]

ON_CPU = 64  # highest resolution chosen where no GPU computes
LEAST = 5  # side of an image that a kernel still fits on
SEEN = 30_000  # training images that a run shall see, counted as often as they are
COLOURS = {"1": "black and white", "L": "grey", "I;16": "grey of 16 bits", "P": "palette", "RGB": "RGB"}


@dataclass(frozen=True)
class Choice:
    """One line of the table that a run begins with.

    Attributes:
        name: The field of the config, or what else is told.
        value: The chosen value.
        why: The reason.
    """

    name: str
    value: str
    why: str


def choose(
    config: Config, found: Survey, given: Collection[str] = (), gpu: bool = False
) -> tuple[Config, list[Choice]]:
    """Fill in what follows from the images, and say all of it.

    Args:
        config: The preset ``folder``, or a config like it.
        found: The images.
        given: Fields that the user has set, such as ``"data.size"``; they stay as they are.
        gpu: Whether a GPU computes.
    """
    data = config.data
    most = TOP_LEVEL if gpu else ON_CPU
    plan = found.plan(data, data.seed, most)
    resolutions, sizes = plan.resolutions, [len(plan.splits[name]) for name in ("train", "val", "test")]
    batch = int(2 ** np.clip(np.floor(np.log2(max(sizes[0] / 16, 1))), 3, 6))
    epochs = int(np.clip(round(SEEN / sizes[0]), 15, 100))
    size = resolutions[-1]
    if size < LEAST:
        raise ConfigError(
            f"{found.folder.root}: its images have {size} pixels a side, a net needs at least {LEAST}: give larger ones"
        )
    pool = [2, 2, 1] if size >= 48 else [2, 1, 1] if size >= 24 else [1, 1, 1]
    chosen: dict[str, object] = {
        "data.size": size,
        "data.lowest": resolutions[0],
        "data.colour": data.colour or found.colour,
        "data.batch_size": batch,
        "train.epochs": epochs,
    }
    if config.model.name == "scalenet-folder":
        chosen["model.overrides.pool"] = pool
        if gpu:  # one grid for all levels is what fused kernels take above 32 pixels
            chosen["model.overrides.grid"] = "common"
    config = config.replaced(f"{name}={value}" for name, value in chosen.items() if name not in given)
    return config, _table(config, plan, sizes, most, given)


def _table(config: Config, plan: FolderPlan, sizes: list[int], most: int, given: Collection[str]) -> list[Choice]:
    data, found, folder, resolutions = config.data, plan.survey, plan.survey.folder, plan.resolutions
    counts = np.bincount(folder.labels, minlength=len(folder.classes))
    small, large = int(counts.argmin()), int(counts.argmax())
    uneven = counts[large] >= 3 * counts[small]
    classes = f"{counts[small]} ({folder.classes[small]}) to {counts[large]} ({folder.classes[large]}) images each"
    if counts[small] == counts[large]:
        classes = f"{counts[small]} images each"
    sides = found.sides[found.sides > 0]
    why_size = f"shorter sides are {sides.min()} to {sides.max()} pixels"
    if "data.size" not in given and sides.max() > most:
        why_size += f"; {most} at most" + (" without a GPU" if most == ON_CPU else "")
    square = "all images are square"
    if found.elongated:
        square = f"{found.elongated:,} of {len(folder):,} images are not square"
    optim, sizes_of_batch = config.optim, "several resolutions" if data.mixed else "one resolution"
    rows = [
        Choice("images", f"{len(folder):,}", f"in {folder.root}"),
        Choice("classes", f"{len(folder.classes)}", classes + ("; uneven: see balanced accuracy" if uneven else "")),
        Choice("train, val, test", ", ".join(f"{size:,}" for size in sizes), plan.told),
        Choice("data.size", f"{resolutions[-1]}", why_size),
        Choice("data.lowest", f"{resolutions[0]}", f"resolutions {' '.join(map(str, resolutions))}"),
        Choice("data.shape", data.shape, square),
        Choice("data.colour", data.colour or "", _colours(found)),
        Choice("data.batch_size", f"{data.batch_size}", f"a batch holds {sizes_of_batch}"),
        Choice("data.augment", data.augment, "try flip-warp where left and right mean the same"),
        Choice("model.name", config.model.name, f"{_options(config)}, for {resolutions[-1]} pixels"),
        Choice("optim.lr", f"{optim.lr:g}", f"{optim.name}, {optim.schedule} schedule"),
        Choice("train.epochs", f"{config.train.epochs}", f"{config.train.epochs * sizes[0]:,} images seen in all"),
    ]
    at = Counter(plan.own[plan.kept].tolist())
    at_levels = ", ".join(f"{at[m]:,} at {m}" for m in resolutions if at[m])
    rows.insert(5, Choice("images at resolutions", f"{len(at)} of {len(resolutions)}", f"{at_levels} pixels"))
    return [replace(row, why=f"as you set it; {row.why}") if row.name in given else row for row in rows]


def _colours(found: Survey) -> str:
    modes = sorted(found.modes.items(), key=lambda item: -item[1])
    told = ", ".join(f"{count:,} {COLOURS.get(mode, mode)}" for mode, count in modes)
    return f"{told}, all converted" if len(modes) > 1 else told


def _options(config: Config) -> str:
    options = config.to_dict()["model"]["overrides"]
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "as it is"
