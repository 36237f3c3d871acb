"""A plain U-Net."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["UNet"]


class UNet(nn.Module):
    """Images ``(B, C, n_1, n_2)`` to maps ``(B, classes, n_1, n_2)``, of any size.

    Two 3x3 convolutions, each with batch norm and rectifier, a stage; maxima of 2x2 on the way down, bilinear
    upsampling and concatenation on the way up, one 1x1 convolution at the end.

    Args:
        in_channels: Channels of the images.
        classes: Channels of the maps.
        widths: Channels of each stage.

    >>> UNet(3, 2, (4, 8))(torch.rand(1, 3, 18, 21)).shape
    torch.Size([1, 2, 18, 21])
    """

    def __init__(self, in_channels: int, classes: int, widths: Sequence[int] = (32, 64, 128, 256)) -> None:
        super().__init__()
        widths = tuple(widths)
        self.down = nn.ModuleList(_stage(a, b) for a, b in zip((in_channels, *widths[:-1]), widths, strict=True))
        self.up = nn.ModuleList(_stage(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.out = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The maps."""
        kept: list[Tensor] = []
        for number, stage in enumerate(self.down):
            x = stage(nn.functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for stage, fine in zip(self.up, kept[-2::-1], strict=True):
            x = nn.functional.interpolate(x, size=fine.shape[-2:], mode="bilinear", align_corners=False)
            x = stage(torch.cat([x, fine], 1))
        maps: Tensor = self.out(x)
        return maps


def _stage(a: int, b: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (a, b):
        layers += [nn.Conv2d(width, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers)
