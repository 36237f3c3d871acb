"""Three axes: a net on a volume whose slices are thicker than its pixels.

    python examples/volume_3d.py

A scanner's volume rarely has cubic voxels. The levels here name every axis, so each is downscaled by its own factor
of the chain. No real volume comes with the packages that this library needs: the volume is made of soft ellipsoids.
Expect an error near 1e-12 at every size of the chain; at a size outside it, where nothing was promised, it is far
from that.
"""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import Levels, downscale
from fourierscale.nn import LocalFourierConv3d, ScaleActivation3d, ScaleEquivariant, ScaleResidual
from fourierscale.testing import equivariance_error

SIZE = (15, 30, 30)  # slices, rows, columns
LEVELS = Levels.geometric((6, 12, 12), SIZE, 4)
OUTSIDE = (15, 15, 15)  # rows and columns alone are downscaled: not one of the chain


def volume(ellipsoids: int = 12) -> Tensor:
    """``(1, 1, 15, 30, 30)``: ellipsoids with soft edges at random places."""
    axes = [torch.linspace(-1, 1, n) for n in SIZE]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"))  # (3, 15, 30, 30)
    centres = torch.rand(ellipsoids, 3, 1, 1, 1) * 1.2 - 0.6
    radii = torch.rand(ellipsoids, 3, 1, 1, 1) * 0.3 + 0.15
    distance = ((grid - centres) / radii).square().sum(1)
    return torch.sigmoid(4 * (1 - distance)).sum(0)[None, None]


def scale_net() -> ScaleEquivariant:
    """A convolution, and a residual block of two more."""
    block = nn.Sequential(
        LocalFourierConv3d(6, 6, 3, reference_size=SIZE),
        ScaleActivation3d(6, LEVELS),
        LocalFourierConv3d(6, 6, 3, reference_size=SIZE),
    )
    stem = LocalFourierConv3d(1, 6, 3, reference_size=SIZE)
    layers = stem, ScaleActivation3d(6, LEVELS), ScaleResidual(block, axes=3), ScaleActivation3d(6, LEVELS)
    return ScaleEquivariant(nn.Sequential(*layers), axes=3)


def main() -> None:
    torch.manual_seed(0)
    x, net = volume(), scale_net()
    table = Table(title=f"a volume of {SIZE[0]} x {SIZE[1]} x {SIZE[2]} against smaller ones")
    for column in ("voxels", "a resolution of the set", "relative squared error", "ms"):
        table.add_column(column, justify="right")
    with torch.inference_mode():
        net(x)
        for size in (*LEVELS.resolutions, OUTSIDE):
            small = downscale(x, size)
            net(small)
            begun = time.perf_counter()
            net(small)
            took = 1000 * (time.perf_counter() - begun)
            known = "yes" if size in LEVELS.resolutions else "no"
            table.add_row(" x ".join(map(str, size)), known, f"{equivariance_error(net, x, size):.0e}", f"{took:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
