"""The paper's network: Fourier layers and scale-equivariant activations, from images to coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from fourierscale.functional.bands import Boundary
from fourierscale.functional.levels import Resolutions
from fourierscale.models.layers import ExactNet, LayerConfig, per_part
from fourierscale.nn import LocalFourierConv2d, ScaleResidual


class ScaleNet(ExactNet):
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
        if isinstance(widths, (int, str)) or not widths:
            raise ValueError(f"widths must be a list with the channels of each block, got {widths!r}")
        super().__init__(in_channels, resolutions, boundary)
        count = len(widths)
        kernels, pools = (
            per_part(value, count, name, "block") for value, name in ((kernel_size, "kernel_size"), (pool, "pool"))
        )
        place, channels = self.entrance(reference_size), in_channels
        bias = layers.norm == "none"  # a norm replaces or subtracts the mean: a bias in front of it would be dead
        blocks: list[nn.Module] = []
        if residual:
            entry = LocalFourierConv2d(channels, stem, 1, place.reference, bias)
            blocks.append(nn.Sequential(entry, layers.activate(stem, place)))
            channels = stem
        for width, taps, window in zip(widths, kernels, pools, strict=True):
            if residual:
                body = nn.Sequential(
                    layers.conv(channels, width, taps, place, bias),
                    layers.activate(width, place),
                    layers.conv(width, width, taps, place, bias),
                )
                shortcut = LocalFourierConv2d(channels, width, 1, place.reference, bias=False)
                layer: nn.Module = ScaleResidual(body, shortcut)
            else:
                layer = layers.conv(channels, width, taps, place, bias, layers.pointwise)
            blocks.append(nn.Sequential(layer, layers.activate(width, place, window)))
            place, channels = place.pooled(window), width
        self.blocks = nn.Sequential(*blocks)
        self.out_channels = channels
        self.out_levels = place.levels
        self.rate = math.prod(pools)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to coefficients of the features."""
        features: Tensor = self.blocks(self.enter(x))
        return features
