"""A plain U-Net: maps of the image's size, for masks, depths and fields."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fourierscale.nn.checks import positive

__all__ = ["UNet"]


class UNet(nn.Module):
    """Two 3x3 convolutions with batch norm and ReLU a stage, down by max pooling, up by bilinear interpolation.

    It takes images of any size of which the coarsest stage still sees a sample.

    Args:
        in_channels: Channels of the image.
        out_channels: Channels of the map, for example one for each class.
        widths: Channels of each stage, fine to coarse.

    >>> UNet(3, 2, widths=(4, 8))(torch.rand(1, 3, 33, 48)).shape
    torch.Size([1, 2, 33, 48])
    """

    def __init__(self, in_channels: int, out_channels: int, widths: Sequence[int] = (32, 64, 128, 256)) -> None:
        super().__init__()
        positive(in_channels, "in_channels")
        self.down = nn.ModuleList(_stage(a, b) for a, b in zip((in_channels, *widths), widths, strict=False))
        self.up = nn.ModuleList(_stage(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.out = nn.Conv2d(widths[0], positive(out_channels, "out_channels"), 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to maps ``(B, out_channels, H, W)``."""
        passed: list[Tensor] = []
        for number, stage in enumerate(self.down):
            x = stage(F.max_pool2d(x, 2) if number else x)
            passed.append(x)
        for stage, y in zip(self.up, passed[-2::-1], strict=True):
            x = F.interpolate(x, size=y.shape[-2:], mode="bilinear", align_corners=False)
            x = stage(torch.cat([x, y], 1))
        maps: Tensor = self.out(x)
        return maps


def _stage(in_channels: int, out_channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (in_channels, out_channels):
        conv = nn.Conv2d(channels, out_channels, 3, padding=1, bias=False)
        layers += [conv, nn.BatchNorm2d(out_channels), nn.ReLU()]
    return nn.Sequential(*layers)
