"""Edges of the tiles of a common grid, in Triton: how they lie, from coefficients and back to them.

A tile is what one image and channel has on the common grid. Its edges are ``U``, a row of the coefficients per line,
and ``V``, a column per line, ``(2, tiles, side lines, side)`` in all. A line begins at line 1, line 0 is zero: a level
then begins with an even line and has an even number of them.

In the kernels a program has a row or a column of many tiles. ``WIDTH`` is a power of two that holds a line,
``SUMMANDS`` a multiple of ``DEPTH``, of which so many are in work at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.products import even_step
from fourierscale.kernels.triton_launch import precision, product

BLOCK = 32
"""Samples per axis that a warp has in work at a time; sides are multiples of it."""
LINES_AT_ONCE = 3 * 2**15
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
    """Length of the lines in memory, and how many there are."""
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


def side_of(grid: Box, box: Box) -> int:
    """The smallest side whose lines hold the samples of a grid and the coefficients of a band, behind line 0."""
    return BLOCK * math.ceil(max(*grid, *(1 + n for n in grids(box))) / BLOCK)


def make_frame(rows: list[int], boxes: tuple[Box, ...], grid: Box, side: int, device: torch.device) -> Frame:
    """The frame of levels with these bands, each with its row of the parameters."""
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


def edge_pieces(x: Tensor, side: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Tiles in pieces of about equal size, and ``count`` sets of edges for them."""
    tiles = x.shape[2] * x.shape[3]
    step = min(tiles, ALIGNED * triton.cdiv(even_step(tiles, LINES_AT_ONCE // side), ALIGNED))
    edges = torch.empty(count, 2, step, side, side, dtype=torch.float32, device=x.device)
    for start in range(0, tiles, step):
        yield range(start, min(start + step, tiles)), *edges


def write_edges(
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
    write_edges_kernel[(triton.cdiv(len(part), lines["TILES"]), sum(frame.extent))](
        x, edges, energies, frame.basis, frame.level_of, frame.table, frame.extent[0], x.shape[1], part.start,
        part.stop, edges.stride(0), energies.stride(0), factor, x.shape[2] * x.shape[3], NORM=norm,
        ENERGIES=deviations is not None, PRECISION=precision(x), **lines,
    )  # fmt: skip
    if deviations:
        inverses, eps = deviations
        deviation_kernel[(triton.cdiv(len(part), 16),)](
            energies, inverses, frame.table, len(frame.boxes), part.start, part.stop, energies.stride(0), eps,
            inverses.shape[1], TILES=16, SIDE=frame.side, WIDTH=lines["WIDTH"],
        )  # fmt: skip


def read_edges(
    edges: Tensor,
    y: Tensor,
    part: range,
    frame: Frame,
    factor: float,
    norm: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Write the coefficients of some tiles from both kinds of edges; with a norm also the gradient through it."""
    lines = frame.lines
    read_edges_kernel[(triton.cdiv(len(part), lines["TILES"]), sum(frame.extent))](
        edges, y, *(norm or (y, y)), frame.basis, frame.level_of, frame.table, frame.extent[0], y.shape[1],
        part.start, part.stop, edges.stride(0), *frame.grid, factor, len(frame.boxes), y.shape[2] * y.shape[3],
        NORM=norm is not None, PARTS=len(norm[1]) if norm else 0, PRECISION=precision(y), **lines,
    )  # fmt: skip


@triton.jit
def _line(level_of, table, down, SIDE: tl.constexpr):
    """Which row or column of the coefficients a program has: its kind, number, level, and how many entries count."""
    line = tl.program_id(1)
    kind = (line >= down).to(tl.int32)
    own = line - kind * down
    level = tl.load(level_of + kind * SIDE + own)
    # A rim's corner belongs to its rows: these reach as far as their level, columns as far as the level below.
    reach = tl.load(table + (level - kind) * 5 + 4 - kind, mask=level >= kind, other=1) - 1
    return kind, own, level, reach


@triton.jit
def write_edges_kernel(
    x_ptr, edges, energies, basis, level_of, table, down, width, start, stop, gap, energy_gap, factor, Q,
    NORM: tl.constexpr, ENERGIES: tl.constexpr, PRECISION: tl.constexpr, SIDE: tl.constexpr, WIDTH: tl.constexpr,
    SUMMANDS: tl.constexpr, DEPTH: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    kind, own, _, reach = _line(level_of, table, down, SIDE)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    n = tl.arange(0, WIDTH)
    u = tl.zeros((TILES, WIDTH), tl.float32)
    energy = tl.zeros((TILES,), tl.float32)
    for first in range(0, SUMMANDS, DEPTH):
        k = first + tl.arange(0, DEPTH)
        places = tl.where(kind == 1, k * width + own, own * width + k)
        inside = k < reach
        if NORM:
            inside = inside & (places > 0)
        x = tl.load(x_ptr + places[None, :] * Q + q[:, None], mask=inside[None, :] & (q < stop)[:, None], other=0.0)
        x = x.to(tl.float32) * factor
        b = basis + (1 - kind) * (SIDE * SIDE) + (1 + k)[:, None] * SIDE + n[None, :]
        u += product(x, tl.load(b, mask=(k < reach)[:, None] & (n < SIDE)[None, :], other=0.0), PRECISION)
        if ENERGIES:
            energy += tl.sum(x * x, 1)
    tile = q - start
    to = edges + kind * gap + tile[:, None] * (SIDE * SIDE) + own * SIDE + n[None, :]
    here = (q < stop)[:, None] & (n < SIDE)[None, :]
    tl.store(to + SIDE, u, mask=here & (reach > 0))
    if own == 0:
        tl.store(to, tl.zeros((TILES, WIDTH), tl.float32), mask=here)
    if ENERGIES:
        tl.store(energies + kind * energy_gap + tile * SIDE + own, energy, mask=q < stop)


@triton.jit
def deviation_kernel(
    energies, inverses, table, levels, start, stop, gap, eps, Q,
    SIDE: tl.constexpr, WIDTH: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Inverse deviations of every level from the energies of its rows and columns, by Parseval's theorem."""
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, WIDTH)[None, :]
    here = (q < stop)[:, None] & (k < SIDE)
    at = energies + (q - start)[:, None] * SIDE + k
    rows, columns = tl.load(at, mask=here, other=0.0), tl.load(at + gap, mask=here, other=0.0)
    level = 0
    while level < levels:
        r_end, c_end = tl.load(table + level * 5 + 3) - 1, tl.load(table + level * 5 + 4) - 1
        variance = tl.sum(tl.where(k < r_end, rows, 0.0) + tl.where(k < c_end, columns, 0.0), 1)
        tl.store(inverses + level * Q + q, tl.rsqrt(variance + eps), mask=q < stop)
        level += 1


@triton.jit
def read_edges_kernel(
    edges, y_ptr, x_ptr, d_variance, basis, level_of, table, down, width, start, stop, gap, samples_down,
    samples_across, factor, levels, Q,
    NORM: tl.constexpr, PARTS: tl.constexpr, PRECISION: tl.constexpr, SIDE: tl.constexpr, WIDTH: tl.constexpr,
    SUMMANDS: tl.constexpr, DEPTH: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    kind, own, level, reach = _line(level_of, table, down, SIDE)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, WIDTH)
    y = tl.zeros((WIDTH, TILES), tl.float32)
    samples = tl.where(kind == 1, samples_down, samples_across)
    for first in range(0, SUMMANDS, DEPTH):
        n = first + tl.arange(0, DEPTH)
        here = (q < stop)[None, :] & (n < samples)[:, None] & (reach > 0)
        g = edges + kind * gap + (q - start)[None, :] * (SIDE * SIDE) + (own + 1) * SIDE + n[:, None]
        b = basis + (1 - kind) * (SIDE * SIDE) + (1 + k)[:, None] * SIDE + n[None, :]
        b = tl.load(b, mask=(k < reach)[:, None], other=0.0)
        y += product(b, tl.load(g, mask=here, other=0.0), PRECISION)
    y = y * factor
    places = tl.where(kind == 1, k * width + own, own * width + k)
    at = places[:, None] * Q + q[None, :]
    inside = (k < reach)[:, None] & (q < stop)[None, :]
    if NORM:  # the gradient through the variance, of which each block has a part; the mean has none
        change = tl.zeros((TILES,), tl.float32)
        for part in tl.static_range(PARTS):
            change += tl.load(d_variance + (part * levels + level) * Q + q, mask=q < stop, other=0.0)
        y += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * change[None, :]
        y = tl.where(places[:, None] > 0, y, 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)
