"""MONAI's U-Net, made exact with one line: in two dimensions, and in three with voxels that are no cubes.

    pip install monai
    python examples/monai_unets.py

A volume of a scanner has a spacing, in millimetres, for each axis. Its levels are the grids at coarser spacings:
``extent / spacing`` samples on each axis. Here slices are 2 mm apart and pixels 1 mm wide. The levels first bring the
pixels from 2 mm down to 1 mm; the slices stay. Whatever is coarser than the lowest level is not promised.

The nets have random weights: exactness does not depend on them. Expect 1e-12 or less at every level, in float32, and
maps whose signs (which are the mask) agree in every voxel; the net alone is far from that.
"""

from __future__ import annotations

import time
import warnings

import torch
from monai.networks.nets import BasicUNet
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import Levels, downscale, equivariant
from fourierscale.testing import equivariance_error

WIDTHS = (8, 8, 12, 16, 16, 8)
EXTENT = (64.0, 64.0, 64.0)  # millimetres: slices, rows, columns
SPACINGS = [(2.0, 2.0, 2.0), (2.0, 4 / 3, 4 / 3), (2.0, 1.0, 1.0)]


def grid_at(spacing: tuple[float, ...]) -> tuple[int, ...]:
    """Samples per axis of a volume at a spacing.

    >>> grid_at((2.0, 1.0, 1.0))
    (32, 64, 64)
    """
    return tuple(round(extent / step) for extent, step in zip(EXTENT, spacing, strict=True))


def share_of_equal_signs(net: nn.Module, x: Tensor, size: tuple[int, ...]) -> float:
    """How much of the small image's map has the sign of the large image's map, downscaled."""
    return float((net(downscale(x, size)).sign() == downscale(net(x), size).sign()).double().mean())


def main() -> None:
    torch.manual_seed(0)
    flat, deep = BasicUNet(2, 1, 2, features=WIDTHS), BasicUNet(3, 1, 2, features=WIDTHS)
    sides, grids = [(48, 48), (68, 68), (96, 96)], [grid_at(spacing) for spacing in SPACINGS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # should levels share a grid on the model's multiples of 16
        cases = [
            ("image", flat.eval(), equivariant(flat, [side for side, _ in sides]).eval(), sides),
            ("volume", deep.eval(), equivariant(deep, Levels(grids)).eval(), grids),
        ]
    table = Table(title="MONAI's BasicUNet: relative squared error against the downscaled map", min_width=80)
    for column in ("", "net", "downscaled to", "error", "equal signs", "ms"):
        table.add_column(column, justify="right")
    with torch.inference_mode():
        for what, bare, exact, chain in cases:
            x = torch.randn(1, 1, *chain[-1])
            for name, net in (("alone", bare), ("exact", exact)):
                begun = time.perf_counter()
                net(x)
                took = 1000 * (time.perf_counter() - begun)
                for size in chain[:-1]:
                    error, share = equivariance_error(net, x, size), share_of_equal_signs(net, x, size)
                    shown = " x ".join(map(str, size))
                    table.add_row(what, name, shown, f"{error:.0e}", f"{100 * share:.2f} %", f"{took:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
