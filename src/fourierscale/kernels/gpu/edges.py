"""Edges of the tiles of :mod:`fourierscale.kernels.gpu.common_grid`: how they lie, from coefficients and back to them.

A tile is what one image and channel has on the common grid. Its edges are ``U``, a row of the coefficients per line,
and ``V``, a column per line, ``(2, tiles, side lines, side)`` in all; see :mod:`.sweeps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.gpu.lines import deviation_kernel, finish_kernel, prepare_kernel
from fourierscale.kernels.gpu.shared import precision
from fourierscale.kernels.products import even_step

BLOCK = 32
"""Samples per axis that a warp has in work at a time; sides are multiples of it."""
PIECE = 3 * 2**15
"""Most lines of each kind in work at a time: enough tiles for all of a GPU, and edges that about fit into its cache."""
ALIGNED = 64
"""Pieces begin at multiples of so many tiles, so that loads are wide and no program of lines has less to do."""
LINES = {
    32: {"TILES": 64, "num_warps": 2},
    64: {"TILES": 64, "num_warps": 4},
    128: {"TILES": 32, "num_warps": 4},
}
"""How lines are transformed, for each power of two that holds one: tiles together, warps."""


class Frame(NamedTuple):
    """Coefficients of some levels and the grid on which they are sampled."""

    boxes: tuple[Box, ...]
    """The band of each level."""
    grid: Box
    side: int
    """Of the lines in memory."""
    basis: Tensor
    """Along both axes, ``(2, lines, samples)``; line 0 is zero, line ``k`` is coefficient ``k - 1``."""
    level_of: Tensor
    """Level of each coefficient, ``(2, coefficients)``."""
    table: Tensor
    """For each level: its row of the parameters, and where the lines of its rim begin and end."""

    @property
    def extent(self) -> Box:
        """Number of coefficients per axis."""
        return grids(self.boxes[-1])

    @property
    def lines(self) -> dict[str, int]:
        """What the transforms of lines are compiled for, and their warps."""
        summands = BLOCK * triton.cdiv(max(*self.grid, *self.extent), BLOCK)
        width = triton.next_power_of_2(summands)
        return {"SIDE": self.side, "WIDTH": width, "SUMMANDS": summands, "DEPTH": BLOCK, **LINES[width]}


def make_frame(rows: list[int], boxes: tuple[Box, ...], grid: Box, side: int, device: torch.device) -> Frame:
    """Of levels with these bands, each with its row of the parameters."""
    basis = torch.zeros(2, side, side)
    level_of = torch.full((2, side), len(boxes), dtype=torch.int32)
    for axis in range(2):
        matrix = synthesis_matrix(grid[axis], boxes[-1][axis], torch.float32, torch.device("cpu")).mT
        basis[axis, 1 : 1 + matrix.shape[0], : matrix.shape[1]] = matrix
        for i, box in reversed(list(enumerate(boxes))):
            level_of[axis, : grids(box)[axis]] = i
    table: list[list[int]] = []
    begins = [0, 1 + grids(boxes[0])[1]]  # the rows of the first level are all of it
    for row, box in zip(rows, boxes, strict=True):
        ends = [1 + n for n in grids(box)]
        table.append([row, *begins, *ends])
        begins = ends
    numbers = torch.tensor(table, dtype=torch.int32)
    return Frame(boxes, grid, side, basis.to(device), level_of.to(device), numbers.to(device))


def pieces(x: Tensor, side: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Tiles in pieces of about equal size, and ``count`` sets of edges for them."""
    tiles = x.shape[2] * x.shape[3]
    step = min(tiles, ALIGNED * triton.cdiv(even_step(tiles, PIECE // side), ALIGNED))
    edges = torch.empty(count, 2, step, side, side, dtype=torch.float32, device=x.device)
    for start in range(0, tiles, step):
        yield range(start, min(start + step, tiles)), *edges


def prepare(
    x: Tensor,
    edges: Tensor,
    part: range,
    frame: Frame,
    norm: bool,
    deviations: tuple[Tensor, float] | None = None,
    factor: float = 1.0,
) -> None:
    """Write ``U`` and ``V`` of some tiles into ``edges``, without the mean if there is a norm.

    ``deviations`` are where the inverse deviation of every level, image and channel is written, and what is added to
    the variances.
    """
    lines = frame.lines
    energies = edges.new_empty(2, edges.shape[1], frame.side) if deviations else edges
    prepare_kernel[(triton.cdiv(len(part), lines["TILES"]), sum(frame.extent))](
        x,
        edges,
        energies,
        frame.basis,
        frame.level_of,
        frame.table,
        frame.extent[0],
        x.shape[1],
        part.start,
        part.stop,
        edges.stride(0),
        energies.stride(0),
        factor,
        x.shape[2] * x.shape[3],
        NORM=norm,
        ENERGIES=deviations is not None,
        PRECISION=precision(x),
        **lines,
    )
    if deviations:
        inverses, eps = deviations
        deviation_kernel[(triton.cdiv(len(part), 16),)](
            energies,
            inverses,
            frame.table,
            len(frame.boxes),
            part.start,
            part.stop,
            energies.stride(0),
            eps,
            inverses.shape[1],
            TILES=16,
            SIDE=frame.side,
            WIDTH=lines["WIDTH"],
        )


def finish(
    edges: Tensor,
    y: Tensor,
    part: range,
    frame: Frame,
    factor: float,
    norm: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Write the coefficients of some tiles from both kinds of edges; with a norm also the gradient through it."""
    lines = frame.lines
    finish_kernel[(triton.cdiv(len(part), lines["TILES"]), sum(frame.extent))](
        edges,
        y,
        *(norm or (y, y)),
        frame.basis,
        frame.level_of,
        frame.table,
        frame.extent[0],
        y.shape[1],
        part.start,
        part.stop,
        edges.stride(0),
        *frame.grid,
        factor,
        len(frame.boxes),
        y.shape[2] * y.shape[3],
        NORM=norm is not None,
        PARTS=len(norm[1]) if norm else 0,
        PRECISION=precision(y),
        **lines,
    )
