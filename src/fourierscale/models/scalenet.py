"""The paper's network: Fourier layers and scale-equivariant activations, from images to coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fourierscale.functional.bands import Boundary, period
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import Grid, PoolKind
from fourierscale.nn import FourierConv2d, LocalFourierConv2d, ScaleActivation2d, ScaleResidual, ToCoefficients
from fourierscale.nn.checks import check_images, positive
from fourierscale.nn.nested import Norm


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """What the layers of a :class:`ScaleNet` are made of.

    Attributes:
        activation: Name of the activation.
        norm: ``"instance"`` or ``"none"``.
        grid: ``"level"`` or ``"common"``, where each level is sampled.
        oversample: Samples per axis relative to that grid.
        pool_kind: ``"max"`` or ``"average"``.
        pointwise: Whether each Fourier layer has a 1x1 path beside its kernel, as in the paper.
        local: Whether kernels are local; if not, every frequency has a weight (the ablation "w/o local filter").
        nested: Whether activations are scale-equivariant; if not, they act on the input's own grid alone (the
            ablation "w/o scale-equivariant ReLU").
    """

    activation: str = "relu"
    norm: Norm = "instance"
    grid: Grid = "level"
    oversample: float = 1.0
    pool_kind: PoolKind = "max"
    pointwise: bool = True
    local: bool = True
    nested: bool = True


class ScaleNet(nn.Module):
    """Scale-equivariant features of an image of any resolution.

    Each block is a Fourier layer and a scale-equivariant activation, the paper's MNIST network. With ``residual``
    each block is two Fourier layers with an activation between them and a 1x1 shortcut around them, behind a 1x1
    layer to ``stem`` channels, the paper's STL-10 network.

    Args:
        in_channels: Channels of the image.
        widths: Channels of each block.
        resolutions: Resolutions of the image at which the net is equivariant.
        kernel_size: Taps per axis, one int or one per block.
        pool: Pooling at the end of each block, one int or one per block; 1 means none.
        reference_size: Grid on which one tap is one sample; default: the highest resolution. Behind a pooling it
            shrinks with the features.
        residual: Whether blocks are residual.
        stem: Channels of the 1x1 layer in front of residual blocks.
        boundary: What lies beyond the image's edge: ``"circular"``, ``"mirror"`` (exact too, at about five times the
            cost) or ``"canvas"``; see :func:`fourierscale.functional.extend`. Equivariance is that to downscaling with
            the same boundary.
        layers: What the layers are made of.

    >>> import torch
    >>> net = ScaleNet(1, [4, 8], range(8, 17), pool=[1, 2], layers=LayerConfig(grid="common"))
    >>> net(torch.rand(2, 1, 16, 16)).shape
    torch.Size([2, 8, 7, 7])
    """

    def __init__(
        self,
        in_channels: int,
        widths: Sequence[int],
        resolutions: Resolutions,
        *,
        kernel_size: int | Sequence[int] = 5,
        pool: int | Sequence[int] = 1,
        reference_size: int | None = None,
        residual: bool = False,
        stem: int = 32,
        boundary: Boundary = "circular",
        layers: LayerConfig = LayerConfig(),  # noqa: B008
    ) -> None:
        super().__init__()
        if isinstance(widths, (int, str)) or not widths:
            raise ValueError(f"widths must be a list with the channels of each block, got {widths!r}")
        self.in_channels = positive(in_channels, "in_channels")
        self.door = ToCoefficients(2, boundary)
        self.levels = levels_of_images(resolutions)
        kernels, pools = _per_block(kernel_size, widths, "kernel_size"), _per_block(pool, widths, "pool")
        own = max(self.levels.highest) if reference_size is None else positive(reference_size, "reference_size")
        reference = period(own, boundary)

        bias = layers.norm == "none"  # an instance norm replaces the mean, so a bias in front of it would be dead

        def conv(inputs: int, outputs: int, taps: int, pointwise: bool = layers.pointwise) -> nn.Module:
            if layers.local:
                return LocalFourierConv2d(inputs, outputs, taps, reference, bias, pointwise)
            return FourierConv2d(inputs, outputs, _broadcast(levels.highest), bias, pointwise)

        def activate(channels: int, window: int = 1) -> nn.Module:
            return ScaleActivation2d(
                channels,
                # Below its lowest level an input is a level of its own: the plain activation.
                levels if layers.nested else [_broadcast(levels.highest)],
                layers.activation,
                layers.norm,
                layers.grid if layers.nested else "level",
                layers.oversample,
                window,
                layers.pool_kind,
            )

        levels, channels = self.levels.periods(boundary), in_channels  # layers see periods, whatever they hold
        blocks: list[nn.Module] = []
        if residual:
            blocks.append(nn.Sequential(LocalFourierConv2d(channels, stem, 1, reference, bias), activate(stem)))
            channels = stem
        for width, taps, window in zip(widths, kernels, pools, strict=True):
            layer = conv(channels, width, taps)
            if residual:
                body = nn.Sequential(
                    conv(channels, width, taps, False), activate(width), conv(width, width, taps, False)
                )
                layer = ScaleResidual(body, LocalFourierConv2d(channels, width, 1, reference, bias=False))
            blocks.append(nn.Sequential(layer, activate(width, window)))
            levels, channels, reference = levels.pooled(window), width, -(-reference // window)
        self.blocks = nn.Sequential(*blocks)
        self.out_channels = channels
        self.out_levels = levels
        self.rate = math.prod(pools)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to coefficients of the features."""
        check_images(x, self.in_channels, 2, next(self.parameters()).dtype)
        features: Tensor = self.blocks(self.door(x))
        return features

    @property
    def boundary(self) -> Boundary:
        """What lies beyond the image's edge."""
        return self.door.boundary


def levels_of_images(resolutions: Resolutions) -> Levels:
    """The levels, unless they are those of signals or volumes, of which no image net can be made."""
    given = resolutions if isinstance(resolutions, (list, tuple)) else ()
    levels = Levels(resolutions)
    for box in (*given, *(() if levels.is_open else levels.resolutions)):
        if not isinstance(box, int) and len(box) != 2:
            raise ValueError(
                f"expected resolutions as ints or (height, width), got {box}: nets for signals and volumes are made "
                "of LocalFourierConv1d and ScaleActivation1d, or LocalFourierConv3d and ScaleActivation3d"
            )
    return levels


def _per_block(value: int | Sequence[int], widths: Sequence[int], name: str) -> list[int]:
    values = [value] * len(widths) if isinstance(value, int) else list(value)
    if len(values) != len(widths):
        raise ValueError(f"{name} must be one int or one per block ({len(widths)}), got {value!r}")
    return [positive(v, name) for v in values]


def _broadcast(highest: tuple[int, ...]) -> tuple[int, ...]:
    return highest * 2 if len(highest) == 1 else highest
