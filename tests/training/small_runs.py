"""Tiny sets with something to learn, and configs that train on them in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fourierscale.data import ScaledDataset, ScaledSplits
from fourierscale.data.idx import write_idx
from fourierscale.data.protocols import Protocol
from fourierscale.training import Config

RESOLUTIONS = (8, 9, 10, 11, 12)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def stripes(count: int, side: int, seed: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Noisy waves whose frequency is their class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    line = 2 * np.pi * np.arange(side) / side
    phase = rng.uniform(0, 2 * np.pi, count)
    wave = 0.5 + 0.3 * np.cos((labels + 1)[:, None] * line + phase[:, None])
    images = wave[:, None, :, None] + 0.05 * rng.standard_normal((count, 1, side, side))
    return (255 * images.clip(0, 1)).astype(np.uint8), labels


def small_splits(seed: int = 0, augment: str | None = None) -> ScaledSplits:
    protocol = Protocol(
        "small", "small", (90, 45, 60), 195, RESOLUTIONS, (8, 10, 12), mean=(0.5,), std=(0.3,), note="for tests"
    )

    def part(count: int, number: int, augment: str | None = None) -> ScaledDataset:
        images, labels = stripes(count, 12, number)
        return ScaledDataset(images, labels, RESOLUTIONS, mean=(0.5,), std=(0.3,), augment=augment, seed=seed)

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
        images, labels = stripes(count, 28, seed, classes=10)
        write_idx(folder / images_name, images[:, 0])
        write_idx(folder / labels_name, labels.astype(np.uint8))
