"""Tiny sets with something to learn, and configs that train on them in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fourierscale.data import ScaledDataset, ScaledSplits
from fourierscale.data.idx import write_idx
from fourierscale.data.protocols import Protocol
from fourierscale.functional.enlarging import Enlarging
from fourierscale.models import Preprocessing
from fourierscale.training import Config

RESOLUTIONS = (8, 9, 10, 11, 12)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def spots(count: int, side: int, seed: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A noisy bright spot; its place is the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    line = np.arange(side) / side
    row, column = 0.25 + 0.5 * (labels // 2 % 2), 0.25 + 0.5 * (labels % 2)
    far = (line - row[:, None])[:, :, None] ** 2 + (line - column[:, None])[:, None, :] ** 2
    images = np.exp(-far / 0.02)[:, None] + 0.05 * rng.standard_normal((count, 1, side, side))
    return (255 * images.clip(0, 1)).astype(np.uint8), labels


def small_splits(
    seed: int = 0, augment: str | None = None, boundary: str = "circular", enlarge: Enlarging | None = None
) -> ScaledSplits:
    """Images of 8 to 12 pixels; ``enlarge`` brings them to the 28 of models for digits."""
    sizes, about = (90, 45, 60), {"mean": (0.1,), "std": (0.3,), "boundary": boundary}
    protocol = Protocol("small", "small", sizes, 195, RESOLUTIONS, (8, 10, 12), note="for tests", **about)

    def part(count: int, number: int, augment: str | None = None) -> ScaledDataset:
        images, labels = spots(count, 12, number)
        how = Preprocessing(enlarge=enlarge, enlarge_size=None if enlarge is None else 28, **about)
        return ScaledDataset(images, labels, RESOLUTIONS, augment=augment, seed=seed, preprocessing=how)

    parts = part(90, 1, augment), part(45, 2), part(60, 3)
    return ScaledSplits(*parts, protocol, "made up", "for tests", {}, ("one", "two", "three"))


def small_config(*settings: str) -> Config:
    return Config().replaced(
        [
            "model.name=scalenet-tiny",
            "model.overrides.widths=[4, 6]",
            "model.overrides.hidden=8",
            "model.overrides.head=temperature",
            "data.batch_size=8",
            "loss.hinge=pairs",
            "optim.lr=0.02",
            "train.epochs=2",
            "train.progress=false",
            "eval.sample=12",
            *settings,
        ]
    )


def write_digits(folder: Path, train: int = 600, test: int = 100) -> None:
    """Four idx files of the size of digits, with as many classes."""
    folder.mkdir(parents=True, exist_ok=True)
    for images_name, labels_name, count, seed in ((*NAMES[:2], train, 1), (*NAMES[2:], test, 2)):
        images, labels = spots(count, 28, seed, classes=10)
        write_idx(folder / images_name, images[:, 0])
        write_idx(folder / labels_name, labels.astype(np.uint8))
