"""Affine and elastic warps of band-limited images that end in the image's own band."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from fourierscale.data.moving import moved
from fourierscale.data.steps import Stage, Step
from fourierscale.functional import downscale, upscale

__all__ = ["EarlyWarp", "Padding", "Warp"]

Padding: TypeAlias = Literal["zeros", "border", "reflection", "circular"]
FIELD = 6  # nodes of the elastic displacement per side
TAPS = 2  # bicubic interpolation reads two samples on either side


@dataclass(frozen=True)
class Warp(Step):
    """Rotate, scale each axis, shear, shift and bend each image at random.

    The image is ideally upscaled to a finer grid, sampled there by bicubic interpolation at the displaced points, and
    ideally downscaled to its own grid. Lengths are fractions of the side, so the same warp is drawn at
    every resolution: two images that agree once downscaled agree after it.

    Args:
        rotation: Largest angle in degrees.
        log_scale: Largest logarithm of the scale, drawn for each axis.
        shear: Largest shear.
        shift: Largest shift along each axis.
        elastic: Largest standard deviation of the elastic displacement, a 6 x 6 Gaussian field interpolated
            bicubically; the amplitude is drawn uniformly up to this.
        padding: What lies outside the image.
        zoom: Largest logarithm of a scale that both axes share.
        oversample: How many times finer the grid is on which the image is sampled; 1 is quick and blurs a little.
    """

    name: ClassVar[str] = "warp"
    stage: ClassVar[Stage] = "scaled"
    rotation: float = 12.0
    log_scale: float = 0.12
    shear: float = 0.15
    shift: float = 2 / 28
    elastic: float = 1.2 / 28
    padding: Padding = "zeros"
    zoom: float = 0.0
    oversample: int = 2

    def __post_init__(self) -> None:
        for field in ("rotation", "log_scale", "shear", "shift", "elastic", "zoom"):
            if not 0 <= getattr(self, field) < math.inf:
                raise ValueError(f"warp: expected {field} to be 0 or more, got {getattr(self, field):g}")
        if self.padding not in get_args(Padding):
            raise ValueError(
                f"warp: expected padding to be one of {', '.join(get_args(Padding))}, got {self.padding!r}"
            )

    def _augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        side = max(2, self.oversample * x.shape[-1])
        fine = x if side == x.shape[-1] else upscale(x, side)
        return downscale(_sample(fine, self._points(fine, generator), self.padding), x.shape[-1])

    def paired(self, x: Tensor, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Warp images, and shares at the same points, by bilinear interpolation: they stay shares.

        Images are not brought to their band again, which costs most of the time: what a warp aliases is little.
        """
        points = self._points(x, generator)
        fine = upscale(x, self.oversample * x.shape[-1]) if self.oversample > 1 else x
        warped = _sample(fine, self.oversample * points, self.padding)
        return warped, _sample(shares, points, self.padding, "bilinear")

    def _points(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Where each pixel takes its value from, in samples: ``(B, n, n, 2)``, column then row."""
        batch, n = len(x), x.shape[-1]

        def uniform(limit: float, *shape: int) -> Tensor:
            drawn = limit * (2 * torch.rand(batch, *shape, generator=generator) - 1)
            return moved(drawn, x.device).to(x.dtype)

        angle, shear = uniform(math.radians(self.rotation)), uniform(self.shear)
        stretch, shift = uniform(self.log_scale, 2).exp(), uniform(self.shift, 2)
        amplitude = self.elastic * torch.rand(batch, 1, 1, 1, generator=generator)
        field = moved(amplitude * torch.randn(batch, 2, FIELD, FIELD, generator=generator), x.device).to(x.dtype)
        if self.zoom > 0:
            stretch = stretch * uniform(self.zoom, 1).exp()

        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([cos, cos * shear - sin, sin, sin * shear + cos], dim=-1).view(batch, 2, 2)
        matrix = matrix * stretch[:, None, :]  # rotation @ shear @ stretch
        line = torch.arange(n, dtype=x.dtype, device=x.device) - n / 2  # about half the period, at every resolution
        rows, columns = torch.meshgrid(line, line, indexing="ij")
        grid = torch.stack([columns, rows], dim=-1)  # (n, n, 2)
        turned = grid @ matrix[:, None].mT  # (B, n, n, 2)
        points = turned + n / 2 + n * shift[:, None, None, :]
        if self.elastic == 0:
            return points
        nodes = (grid * (2 / n)).expand(batch, -1, -1, -1)  # the field spans the image at every resolution
        bend = F.grid_sample(field, nodes, mode="bicubic", padding_mode="border", align_corners=True).movedim(1, -1)
        return points + n * bend


@dataclass(frozen=True)
class EarlyWarp(Warp):
    """The same, of the image at its original size, before it is downscaled.

    For downscaling that is not ideal: the image then aliases, and a warp behind it would bend the aliases, which no
    image shows that was downscaled.
    """

    name: ClassVar[str] = "early-warp"
    stage: ClassVar[Stage] = "image"


def _sample(x: Tensor, points: Tensor, padding: Padding, how: Literal["bicubic", "bilinear"] = "bicubic") -> Tensor:
    """Interpolation of ``(B, C, n, n)`` at ``points`` ``(B, n, n, 2)``, in samples."""
    n = x.shape[-1]
    mode: str = padding
    if padding == "circular":
        x = F.pad(x, (TAPS,) * 4, mode="circular")
        points, n, mode = points % n + TAPS, n + 2 * TAPS, "border"
    return F.grid_sample(x, points * (2 / (n - 1)) - 1, mode=how, padding_mode=mode, align_corners=True)
