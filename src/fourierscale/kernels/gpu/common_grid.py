r"""The nested activation on a common grid as sweeps, in Triton: their arithmetic is plain float32.

On one grid for all levels, a level adds a few outer products to the samples of the level before,

.. math:: Z_i = Z_{i-1} + \sum_{r \in \text{rim}} b_r \otimes U_r + \sum_{c \in \text{rim}} V_c \otimes b_c,

with :math:`U_r` row :math:`r` of the coefficients transformed along the columns as far as its level reaches and
:math:`V_c` column :math:`c` transformed along the rows below its level. And only the rim of the result is wanted:
:math:`G_r = b_r^\top \varphi_i(Z_i)` and :math:`H_c = \varphi_i(Z_i) \, b_c`. So a step is

1. ``prepare``: coefficients to ``U`` and ``V``, the edges of the tiles;
2. ``sweep``: a warp keeps the samples of one image and channel on chip through all levels, takes the variance of a
   level from its edges by Parseval's theorem, and overwrites ``U`` and ``V`` with ``G`` and ``H``;
3. ``finish``: ``G`` and ``H`` to coefficients, the adjoint of ``prepare``.

The backward pass is ``prepare`` of both the coefficients and the gradient, a sweep that makes the samples of all levels
and then goes from fine to coarse, taking each level's part away again, and ``finish``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
import triton
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.gpu.shared import CODES, parameter_rows, precision
from fourierscale.kernels.gpu.sweeps import (
    finish_kernel,
    prepare_kernel,
    sweep_backward_kernel,
    sweep_forward_kernel,
    sweep_pool_kernel,
    unpool_kernel,
)
from fourierscale.kernels.nested import Options

SIDE = 32
PIECE = 4096
"""Tiles in work at a time: their edges fit into the cache of a large GPU."""
LAUNCH: dict[str, dict[str, int]] = {
    "prepare": {"TILES": 64, "num_warps": 2},
    "finish": {"TILES": 64, "num_warps": 2},
}


def nested_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to the same shape."""
    y = torch.empty_like(x)
    basis, _, table = _constants(plan, x.device)
    samples = math.prod(plan[-1].grid)
    for part, edges in _pieces(x, 1):
        prepare(x, edges, part, plan, o.norm)
        sweep_forward_kernel[(len(part),)](
            edges,
            x if weight is None else weight,
            x if bias is None else bias,
            basis,
            table,
            len(plan),
            part.start,
            edges.stride(0),
            *plan[-1].grid,
            o.eps,
            x.shape[3],
            CODE=CODES[o.activation],
            NORM=o.norm,
            AFFINE=weight is not None,
            num_warps=1,
        )
        finish(edges, y, part, plan, 1 / samples)
    return y


def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    dx = torch.empty_like(x)
    basis, _, table = _constants(plan, x.device)
    levels, (batch, channels) = len(plan), x.shape[2:]
    samples = math.prod(plan[-1].grid)
    # of each level, image and channel: inverse deviation, gradients of scale, shift and variance
    numbers = torch.empty(4, levels if o.norm else 0, batch * channels, dtype=torch.float32, device=x.device)
    for part, edges, gradients in _pieces(x, 2):
        prepare(x, edges, part, plan, o.norm)
        prepare(gradient, gradients, part, plan, False, 1 / samples)
        sweep_backward_kernel[(len(part),)](
            edges,
            gradients,
            x if weight is None else weight,
            x if bias is None else bias,
            *numbers,
            basis,
            table,
            levels,
            part.start,
            edges.stride(0),
            *plan[-1].grid,
            o.eps,
            batch * channels,
            channels,
            CODE=CODES[o.activation],
            NORM=o.norm,
            AFFINE=weight is not None,
            num_warps=1,
        )
        finish(gradients, dx, part, plan, 1.0, (x, numbers[3]) if o.norm else None)
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    sums = torch.unflatten(numbers[1:3], -1, (batch, channels)).sum(2)  # (2, levels, C)
    rows = parameter_rows(plan, len(weight), x.device)
    return dx, (rows @ sums[0]).to(weight.dtype), (rows @ sums[1]).to(bias.dtype)


def pool_forward(x: Tensor, boxes: tuple[Box, ...], window: int, cells: int) -> tuple[Tensor, Tensor]:
    """Largest samples of the windows of every level, and their places; see :mod:`fourierscale.kernels.pooling`."""
    plan = _pool_plan(boxes, window * cells)
    basis, _, table = _constants(plan, x.device)
    levels, (batch, channels) = len(boxes), x.shape[2:]
    pooled = x.new_empty(batch, levels, channels * cells**2)
    places = torch.empty(batch * channels, levels * cells**2, dtype=torch.int64, device=x.device)
    for part, edges in _pieces(x, 1):
        prepare(x, edges, part, plan, False)
        sweep_pool_kernel[(len(part),)](
            edges,
            pooled,
            places,
            basis,
            table,
            levels,
            part.start,
            edges.stride(0),
            channels,
            WINDOW=window,
            CELLS=cells,
            num_warps=1,
        )
    return pooled, places


def pool_backward(
    gradient: Tensor, places: Tensor, boxes: tuple[Box, ...], window: int, cells: int, channels: int
) -> Tensor:
    """Gradient of the coefficients, ``(n_1, n_2, B, C)``."""
    n = window * cells
    plan = _pool_plan(boxes, n)
    _, _, table = _constants(plan, gradient.device)
    tiles = torch.empty(len(places), SIDE, SIDE, dtype=torch.float32, device=gradient.device)
    unpool_kernel[(len(places),)](
        gradient,
        places,
        tiles,
        _samples(plan, gradient.device),
        table,
        len(plan),
        n,
        channels,
        CELLS=cells,
        num_warps=1,
    )
    down, across = grids(boxes[-1])
    dx = (
        tiles[:, 1 : 1 + down, 1 : 1 + across]
        .permute(1, 2, 0)
        .to(gradient.dtype, memory_format=torch.contiguous_format)
    )
    return torch.unflatten(dx, -1, (-1, channels))


def prepare(x: Tensor, edges: Tensor, part: range, plan: tuple[Level, ...], norm: bool, factor: float = 1.0) -> None:
    """Write ``U`` and ``V`` of some tiles into ``edges``, without the mean if there is a norm."""
    basis, level_of, _ = _constants(plan, x.device)
    launch = LAUNCH["prepare"]
    prepare_kernel[(triton.cdiv(len(part), launch["TILES"]), x.shape[0] + x.shape[1])](
        x,
        edges,
        basis,
        level_of,
        x.shape[0],
        x.shape[1],
        part.start,
        part.stop,
        edges.stride(0),
        factor,
        x.shape[2] * x.shape[3],
        NORM=norm,
        PRECISION=precision(x),
        **launch,
    )


def finish(
    edges: Tensor,
    y: Tensor,
    part: range,
    plan: tuple[Level, ...],
    factor: float,
    norm: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Write the coefficients of some tiles from both kinds of edges; with a norm also the gradient through it."""
    basis, level_of, _ = _constants(plan, y.device)
    launch = LAUNCH["finish"]
    finish_kernel[(triton.cdiv(len(part), launch["TILES"]), y.shape[0] + y.shape[1])](
        edges,
        y,
        *(norm or (y, y)),
        basis,
        level_of,
        y.shape[0],
        y.shape[1],
        part.start,
        part.stop,
        edges.stride(0),
        factor,
        y.shape[2] * y.shape[3],
        NORM=norm is not None,
        PRECISION=precision(y),
        **launch,
    )


def _pieces(x: Tensor, count: int) -> Iterator[tuple[Any, ...]]:
    """Tiles in pieces whose edges, ``count`` sets of them, stay in the cache of the device."""
    tiles = x.shape[2] * x.shape[3]
    edges = torch.empty(count, 2, min(PIECE, tiles), SIDE, SIDE, dtype=torch.float32, device=x.device)
    for start in range(0, tiles, PIECE):
        yield range(start, min(start + PIECE, tiles)), *edges


@forgotten_with_constants
@functools.lru_cache(1024)
def _constants(plan: tuple[Level, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The basis along both axes ``(2, lines, samples)``, the level of each coefficient, the table of levels.

    The table has, for each level, its row of the parameters, and where the lines of its rim begin and end.
    """
    basis = torch.zeros(2, SIDE, SIDE)
    level_of = torch.full((2, SIDE), len(plan), dtype=torch.int32)
    for axis in range(2):
        top = plan[-1]
        matrix = synthesis_matrix(top.grid[axis], top.reads[axis], torch.float32, torch.device("cpu")).mT
        basis[axis, 1 : 1 + matrix.shape[0], : matrix.shape[1]] = matrix
        for i, level in reversed(list(enumerate(plan))):
            level_of[axis, : grids(level.reads)[axis]] = i
    table: list[list[int]] = []
    begins = [0, 1 + grids(plan[0].writes)[1]]  # the rows of the first level are all of it
    for level in plan:
        ends = [1 + n for n in grids(level.writes)]
        table.append([level.index, *begins, *ends])
        begins = ends
    return basis.to(device), level_of.to(device), torch.tensor(table, dtype=torch.int32).to(device)


def _pool_plan(boxes: tuple[Box, ...], n: int) -> tuple[Level, ...]:
    return tuple(Level(i, box, box, (n, n)) for i, box in enumerate(boxes))


@forgotten_with_constants
@functools.lru_cache(64)
def _samples(plan: tuple[Level, ...], device: torch.device) -> Tensor:
    """The basis at each sample, ``(2, samples, lines)``."""
    return _constants(plan, device)[0].mT.contiguous()
