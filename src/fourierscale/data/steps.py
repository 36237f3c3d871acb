"""Simple augmentations as functions of a batch, on whatever device it is.

A step maps ``(x, generator)`` to images of the same shape. Every random number is drawn from a generator on the CPU and
then moved, so that a seed means the same on every device. ``stage`` says when a step acts: ``"image"`` at the original
size, before downscaling, as the published code does it; ``"scaled"`` on the image at its own resolution, where nothing
above its band can leak in.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from fourierscale.data.moving import moved
from fourierscale.functional import downscale

__all__ = ["CircularShift", "Colours", "Cutout", "HorizontalFlip", "RandomCrop", "RandomScaling", "Stage", "Step"]

Stage: TypeAlias = Literal["image", "scaled"]


class Step(ABC):
    """One augmentation: a frozen dataclass of numbers that is called with a batch and a generator."""

    name: ClassVar[str]
    stage: ClassVar[Stage]
    limits: ClassVar[dict[str, tuple[float, float]]] = {}  # of settings that are not between 0 and 1

    def __post_init__(self) -> None:
        for setting, value in vars(self).items():
            low, high = self.limits.get(setting, (0, 1))
            if not isinstance(value, str) and not low <= value <= high:
                raise ValueError(f"{self.name}: expected {setting} between {low:g} and {high:g}, got {value:g}")

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment square images ``(B, C, n, n)`` with values in [0, 1]; ``generator`` lives on the CPU."""
        if x.ndim != 4 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"{self.name}: expected square images (B, C, n, n), got shape {tuple(x.shape)}")
        return self._augment(x, generator)

    @property
    def takes_masks(self) -> bool:
        """Whether :meth:`paired` can be called."""
        return type(self).paired is not Step.paired

    def paired(self, x: Tensor, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Augment images, and the shares of classes ``(B, K, n, n)`` at the same places, where the step moves any.

        Raises:
            ValueError: The step moves what is in an image, and cannot move a mask with it.
        """
        raise ValueError(f"{self.name} cannot move a mask with its image: choose flips, shifts and warps")

    @abstractmethod
    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor: ...


class MovingStep(Step):
    """A step that does the same to every channel, so that a mask takes part as further channels of its image."""

    def paired(self, x: Tensor, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Augment images and masks at once."""
        both = self(torch.cat([x, shares], 1), generator)
        return both[:, : x.shape[1]], both[:, x.shape[1] :]


class StillStep(Step):
    """A step that moves nothing: a mask stays as it is."""

    def paired(self, x: Tensor, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Augment the images alone."""
        return self(x, generator), shares


@dataclass(frozen=True)
class CircularShift(MovingStep):
    """Roll an image by less than ``max_fraction`` of its side, up or down and left or right, with probability ``p``."""

    name: ClassVar[str] = "circular-shift"
    stage: ClassVar[Stage] = "image"
    max_fraction: float = 0.25
    p: float = 0.7

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        n, limit = x.shape[-1], max(math.ceil(self.max_fraction * x.shape[-1]) - 1, 0)
        shift = torch.randint(-limit, limit + 1, (2, len(x)), generator=generator)
        shift *= torch.rand(len(x), generator=generator) < self.p
        return _take(x, (torch.arange(n) - shift[..., None]) % n)


@dataclass(frozen=True)
class RandomCrop(Step):
    """Pad with zeros by ``padding`` of the side (12 of 96 pixels) and cut an image of the old size at random."""

    name: ClassVar[str] = "random-crop"
    stage: ClassVar[Stage] = "image"
    padding: float = 0.125

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        n, border = x.shape[-1], round(self.padding * x.shape[-1])
        start = torch.randint(2 * border + 1, (2, len(x)), generator=generator)
        return _take(F.pad(x, (border,) * 4), torch.arange(n) + start[..., None])


@dataclass(frozen=True)
class HorizontalFlip(MovingStep):
    """Exchange left and right with probability ``p``."""

    name: ClassVar[str] = "horizontal-flip"
    stage: ClassVar[Stage] = "image"
    p: float = 0.5

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        flip = moved(torch.rand(len(x), generator=generator) < self.p, x.device)
        return torch.where(flip[:, None, None, None], x.flip(-1), x)


@dataclass(frozen=True)
class Cutout(StillStep):
    """Black out ``holes`` squares, ``size`` of the side wide (32 of 96 pixels), with centres anywhere in the image."""

    name: ClassVar[str] = "cutout"
    stage: ClassVar[Stage] = "image"
    limits: ClassVar[dict[str, tuple[float, float]]] = {"holes": (0, 100)}
    holes: int = 1
    size: float = 1 / 3

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        n, width = x.shape[-1], round(self.size * x.shape[-1])
        first = torch.randint(n, (2, len(x), self.holes, 1), generator=generator) - width // 2
        inside = (torch.arange(n) >= first) & (torch.arange(n) < first + width)  # (2, B, holes, n)
        rows, columns = moved(inside, x.device)
        hole = (rows[..., :, None] & columns[..., None, :]).any(dim=1)  # (B, n, n)
        return x.masked_fill(hole[:, None], 0.0)


@dataclass(frozen=True)
class Colours(StillStep):
    """Change contrast, brightness, saturation and tint of each image at random; values may leave [0, 1].

    Args:
        contrast: Largest logarithm of the factor about the mean grey.
        brightness: Largest value that is added to all channels.
        saturation: Largest logarithm of the factor about the grey of each pixel.
        tint: Largest value that is added to each channel.
    """

    name: ClassVar[str] = "colours"
    stage: ClassVar[Stage] = "scaled"
    contrast: float = 0.2
    brightness: float = 0.05
    saturation: float = 0.2
    tint: float = 0.015

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        drawn = moved(2 * torch.rand(len(x), 3 + x.shape[1], 1, 1, generator=generator) - 1, x.device).to(x.dtype)
        contrast, saturation = (self.contrast * drawn[:, :1]).exp(), (self.saturation * drawn[:, 1:2]).exp()
        grey = x.mean(1, keepdim=True)
        middle = grey.mean((2, 3), keepdim=True)
        x = middle + contrast * ((grey - middle) + saturation * (x - grey))
        return x + self.brightness * drawn[:, 2:3] + self.tint * drawn[:, 3:]


@dataclass(frozen=True)
class RandomScaling(Step):
    """Zoom by a factor between ``low`` and ``high`` about the centre with probability ``p``; outside is black.

    Antialiased bicubic interpolation, then the image's own band again. For models that have to learn scales from
    data: 0.3 to 1 with probability 0.7 for the missing-scale baselines, 0.5 to 2 with probability 1 in SESN and DISCO.
    """

    name: ClassVar[str] = "random-scaling"
    stage: ClassVar[Stage] = "scaled"
    limits: ClassVar[dict[str, tuple[float, float]]] = {"low": (0.05, 20), "high": (0.05, 20)}
    low: float = 0.3
    high: float = 1.0
    p: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ValueError(f"{self.name}: expected low to be no more than high, got {self.low:g} and {self.high:g}")

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        factor = self.low + (self.high - self.low) * torch.rand(len(x), generator=generator)
        apply = torch.rand(len(x), generator=generator) < self.p
        matrix = zoom_matrix(torch.where(apply, factor, 1.0), x)[:, None]  # (B, 1, n, n)
        return downscale(matrix @ x @ matrix.mT, x.shape[-1])


def zoom_matrix(factor: Tensor, x: Tensor) -> Tensor:
    """Rows that resample an axis of ``x`` at ``centre + (i - centre) / factor``, ``(B, n, n)``; zeros lie outside.

    The centre is half the period, ``n / 2``: the same point of the image at every resolution.
    """
    n = x.shape[-1]
    smallest = min(float(factor.min()), 1.0)
    border = math.ceil(n / 2 * (1 / smallest - 1) + 2 / smallest) + 1  # wide enough for every row to sum to 1
    position = torch.arange(-border, n + border, dtype=x.dtype, device=x.device)
    factor = moved(factor, x.device).to(x.dtype)
    source = n / 2 + (position[border : border + n] - n / 2) / factor[:, None]  # (B, n)
    u = (position - source[..., None]).abs() * factor.clamp(max=1.0)[:, None, None]
    weight = torch.where(u < 1, (1.5 * u - 2.5) * u * u + 1, ((-0.5 * u + 2.5) * u - 4) * u + 2)
    weight = torch.where(u < 2, weight, 0.0)  # Keys' cubic, a = -0.5
    return (weight / weight.sum(dim=-1, keepdim=True))[..., border : border + n]


def _take(x: Tensor, index: Tensor) -> Tensor:
    """Rows and columns of each image, chosen by ``index`` ``(2, B, n)``."""
    rows, columns = moved(index, x.device)
    b, c, _, width = x.shape
    n = rows.shape[-1]
    x = x.gather(2, rows[:, None, :, None].expand(b, c, n, width))
    return x.gather(3, columns[:, None, None, :].expand(b, c, n, n))
