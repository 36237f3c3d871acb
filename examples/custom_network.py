"""Your own layers: attention, a residual net and a U-Net, all exact; and a U-Net that is not, to see the difference.

    python examples/custom_network.py

``nested_map`` turns any function of samples into a scale-equivariant layer, so a new layer is a few lines. The
picture is a real photograph from matplotlib's sample data. Expect errors near 1e-12 for the first three nets, at odd
and even sizes, and 0.01 to 0.2 for the last, whose decoder upsamples pooled features as everybody does.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from matplotlib.cbook import get_sample_data
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import Levels, downscale
from fourierscale.functional import Level, analyze, nested_map, synthesize
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant, ScaleMerge2d, ScaleResidual
from fourierscale.testing import equivariance_error

SIDE, WIDTH = 32, 8
LEVELS = Levels([8, 12, 16, 20, 24, 28, SIDE])
SHOWN = (8, 12, 15, 20, 27)  # 15 and 27 have the bands of 16 and 28: they are resolutions of the set too


class ScaleAttention(nn.Module):
    """Self-attention between all positions of a level: no local function, and exact all the same."""

    def __init__(self, channels: int, levels: Levels) -> None:
        super().__init__()
        self.levels = levels
        self.attention = nn.MultiheadAttention(channels, num_heads=2, batch_first=True)

    def forward(self, coeffs: Tensor) -> Tensor:
        """The input and what attention adds to it."""
        return coeffs + nested_map(coeffs, self.levels, self._attend)

    def _attend(self, level: Level, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT  # (B, h w, C)
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return mixed.mT.reshape(x.shape)


class UNet(nn.Module):
    """Down by two and up again; ``exact`` chooses how the two rates meet."""

    def __init__(self, channels: int, levels: Levels, exact: bool = True) -> None:
        super().__init__()
        self.exact = exact
        self.stem = nn.Sequential(LocalFourierConv2d(3, channels, 5, SIDE), ScaleActivation2d(channels, levels))
        self.down = nn.Sequential(
            LocalFourierConv2d(channels, channels, 5, SIDE), ScaleActivation2d(channels, levels, pool=2)
        )
        self.low = nn.Sequential(
            LocalFourierConv2d(channels, channels, 3, SIDE // 2), ScaleActivation2d(channels, levels.pooled(2))
        )
        self.mix_fine, self.mix_low = (LocalFourierConv2d(channels, channels, 1, side) for side in (SIDE, SIDE // 2))
        self.merge = ScaleMerge2d(channels, levels, rate=2 if exact else 1)

    def forward(self, coeffs: Tensor) -> Tensor:
        """Coefficients of three channels to coefficients of ``channels``, of the same band."""
        fine = self.stem(coeffs)
        coarse = self.mix_low(self.low(self.down(fine)))
        if (
            not self.exact
        ):  # frequency k of an upsampled branch has seen the image up to 2 k: more than a smaller one has
            coarse = analyze(synthesize(coarse, fine.shape[-2:]))
        return self.merge(self.mix_fine(fine), coarse)  # exact: level k reads the coarse branch up to k / 2


def residual_net(with_attention: bool = False) -> nn.Sequential:
    body = nn.Sequential(
        LocalFourierConv2d(WIDTH, WIDTH, 3, SIDE),
        ScaleActivation2d(WIDTH, LEVELS, activation="gelu"),
        LocalFourierConv2d(WIDTH, WIDTH, 3, SIDE),
    )
    layers = [LocalFourierConv2d(3, WIDTH, 5, SIDE), ScaleActivation2d(WIDTH, LEVELS), ScaleResidual(body)]
    return nn.Sequential(*layers, *([ScaleAttention(WIDTH, LEVELS)] if with_attention else []))


def photograph(side: int = SIDE) -> Tensor:
    """``(1, 3, side, side)``: the upper square of the portrait, ideally downscaled."""
    with get_sample_data("grace_hopper.jpg") as file:
        pixels = np.asarray(Image.open(file).convert("RGB"))
    x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255
    return downscale(x[..., : x.shape[-1], :], side)


def main() -> None:
    torch.manual_seed(0)
    x = photograph()
    nets = {
        "residual net": residual_net(),
        "residual net with attention": residual_net(with_attention=True),
        "U-Net": UNet(WIDTH, LEVELS),
        "U-Net that upsamples": UNet(WIDTH, LEVELS, exact=False),
    }
    table = Table(title=f"a photograph of {SIDE} px against smaller ones, relative squared error")
    table.add_column("net")
    for column in (*(f"{r} px" for r in SHOWN), "ms"):
        table.add_column(column, justify="right")
    with torch.inference_mode():
        for name, layers in nets.items():
            net = ScaleEquivariant(layers)  # images in, images out
            net(x)
            begun = time.perf_counter()
            net(x)
            took = 1000 * (time.perf_counter() - begun)
            table.add_row(name, *(f"{equivariance_error(net, x, r):.0e}" for r in SHOWN), f"{took:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
