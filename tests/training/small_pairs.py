"""Tiny images with masks, and fields with answers, that a small net can learn in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fourierscale.data import random_vorticity
from fourierscale.training import Config, load_config


def disc(side: int, rng: np.random.Generator, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """A bright disc on noise and its mask; with more classes its left half is another one."""
    line = np.arange(side) / side
    row, column, radius = rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7), rng.uniform(0.15, 0.3)
    inside = (line[:, None] - row) ** 2 + (line[None, :] - column) ** 2 < radius**2
    image = 60 + 120 * inside + 10 * rng.standard_normal((side, side))
    mask = inside.astype(np.uint8)
    if classes > 2:
        mask[inside & (line[None, :] < column)] = 2
    return np.repeat(image.clip(0, 255).astype(np.uint8)[..., None], 3, 2), mask


def write_masks(root: Path, count: int = 24, sides: tuple[int, ...] = (16, 20, 24), classes: int = 2) -> Path:
    """A folder of ``images`` and ``masks`` of several sizes."""
    rng = np.random.default_rng(0)
    for name in ("images", "masks"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        image, mask = disc(sides[number % len(sides)], rng, classes)
        Image.fromarray(image).save(root / "images" / f"{number:02}.jpg", quality=95)
        Image.fromarray(mask).save(root / "masks" / f"{number:02}.png")
    return root


def write_fields(root: Path, counts: tuple[int, int] = (24, 6), grids: tuple[int, int] = (16, 32)) -> Path:
    """``train.npz`` and ``test.npz``: smooth fields and their smoothed squares, the test fields on a finer grid."""
    root.mkdir(parents=True, exist_ok=True)
    for name, count, grid, seed in zip(("train", "test"), counts, grids, (0, 1), strict=True):
        x = 4 * random_vorticity(count, grid, torch.Generator().manual_seed(seed)).float()
        y = x + 0.5 * x.roll(grid // 4, -1)
        np.savez(root / f"{name}.npz", x=x.numpy(), y=y.numpy())
    return root


def mask_config(path: Path | str, *settings: str) -> Config:
    """A U-Net of two small stages."""
    return load_config(
        "segmentation",
        [
            f'data.protocol="{path}"',
            "model.overrides.widths=[6, 8]",
            "data.size=16",
            "data.batch_size=8",
            "train.epochs=2",
            "train.precision=32",
            "train.progress=false",
            "optim.lr=0.02",
            *settings,
        ],
    )


def field_config(path: Path | str, *settings: str) -> Config:
    """A Fourier neural operator of two narrow layers."""
    return load_config(
        "field",
        [
            f'data.protocol="{path}"',
            "model.overrides.width=6",
            "model.overrides.modes=4",
            "model.overrides.depth=2",
            "data.batch_size=6",
            "train.epochs=2",
            "train.validate_every=1",
            "train.progress=false",
            "optim.lr=0.02",
            *settings,
        ],
    )
