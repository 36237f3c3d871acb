r"""The nested activation on a common grid as sweeps, in Triton: plain float32 arithmetic, no tensor cores.

On one grid for all levels, a level adds a few outer products to the samples of the level before,

.. math:: Z_i = Z_{i-1} + \sum_{r \in \text{rim}} b_r \otimes U_r + \sum_{c \in \text{rim}} V_c \otimes b_c,

with :math:`U_r` row :math:`r` of the coefficients transformed along the columns as far as its level reaches and
:math:`V_c` column :math:`c` transformed along the rows below its level. And only the rim of the result is wanted:
:math:`G_r = b_r^\top \varphi_i(Z_i)` and :math:`H_c = \varphi_i(Z_i) \, b_c`. So a step is

1. ``prepare``: coefficients to ``U`` and ``V``, and the variance of every level;
2. ``sweep``: a warp keeps the samples of one image and channel on chip through all levels, a column each thread, and
   gives ``G``, sums along columns; the same sweep over the transposed tile gives ``H``;
3. ``finish``: ``G`` and ``H`` to coefficients, the adjoint of ``prepare``.

The backward pass is ``prepare`` of the gradient, a sweep that makes the samples again, and ``finish``.
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
)
from fourierscale.kernels.nested import Options

SIDE = 32
PIECE = 4096
"""Tiles in work at a time: their edges fit into the cache of a large GPU."""
LAUNCH: dict[str, dict[str, int]] = {
    "prepare": {"TILES": 4, "num_warps": 4},
    "finish": {"TILES": 8, "num_warps": 4},
    "forward": {"num_warps": 1},
    "backward": {"num_warps": 1},
    "pool": {"num_warps": 1},
}


def nested_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to the same shape."""
    y = torch.empty_like(x)
    scale, shift = _per_level(x, plan, o, 3)
    basis, _, table = _constants(plan, x.device)
    for part, edges, outputs in _pieces(x, 2):
        prepare(x, edges, part, plan, o, scale, shift, weight, bias)
        sweep_forward_kernel[(len(part), 2)](
            edges,
            outputs,
            scale,
            shift,
            basis,
            table,
            len(plan),
            part.start,
            edges.stride(0),
            y[0, 0].numel(),
            CODE=CODES[o.activation],
            NORM=o.norm,
            **LAUNCH["forward"],
        )
        finish(outputs, y, part, plan, 1 / math.prod(plan[-1].grid))
    return y


def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    dx = torch.empty_like(x)
    scale, shift = _per_level(x, plan, o, 3)
    sums, _ = _per_level(x, plan, o, 2)
    basis, _, table = _constants(plan, x.device)
    levels, (batch, channels) = len(plan), x.shape[2:]
    inverse = scale[levels:]
    for part, edges, gradients, outputs in _pieces(x, 3):
        prepare(x, edges, part, plan, o, scale, shift, weight, bias)
        prepare(
            gradient, gradients, part, plan, o._replace(norm=False), scale, shift, factor=1 / math.prod(plan[-1].grid)
        )
        sweep_backward_kernel[(len(part), 2)](
            edges,
            gradients,
            outputs,
            scale,
            shift,
            sums,
            basis,
            table,
            levels,
            part.start,
            edges.stride(0),
            batch * channels,
            CODE=CODES[o.activation],
            NORM=o.norm,
            **LAUNCH["backward"],
        )
        finish(outputs, dx, part, plan, 1.0, x, scale, sums)
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    rows = parameter_rows(plan, len(weight), x.device)
    d_weight = rows @ (sums[:levels] * inverse).unflatten(-1, (batch, channels)).sum(1)
    d_bias = rows @ sums[levels:].unflatten(-1, (batch, channels)).sum(1)
    return dx, d_weight.to(weight.dtype), d_bias.to(bias.dtype)


def pool_forward(x: Tensor, boxes: tuple[Box, ...], window: int, cells: int) -> tuple[Tensor, Tensor]:
    """Largest samples of the windows of every level, and their places; see :mod:`fourierscale.kernels.pooling`."""
    n = window * cells
    plan = tuple(Level(i, box, box, (n, n)) for i, box in enumerate(boxes))
    basis, _, table = _constants(plan, x.device)
    levels, (batch, channels) = len(boxes), x.shape[2:]
    best = torch.empty(batch * channels, levels, cells, n, dtype=torch.float32, device=x.device)
    rows = torch.empty(best.shape, dtype=torch.int32, device=x.device)
    for part, edges in _pieces(x, 1):
        prepare(x, edges, part, plan, Options("identity", False, 0.0, 1, "max"), best, best)
        sweep_pool_kernel[(len(part),)](
            edges,
            best,
            rows,
            basis,
            table,
            levels,
            n,
            part.start,
            edges.stride(0),
            WINDOW=window,
            CELLS=cells,
            **LAUNCH["pool"],
        )
    value, column = best.unflatten(-1, (cells, window)).max(-1)  # (Q, levels, cells, cells)
    row = rows.unflatten(-1, (cells, window)).gather(-1, column[..., None])[..., 0]
    place = row * n + column + torch.arange(0, n, window, device=x.device)
    pooled = value.reshape(batch, channels, levels, -1).transpose(1, 2).reshape(batch, levels, -1)
    return pooled.to(x.dtype), place.reshape(batch * channels, -1)


def prepare(
    x: Tensor,
    edges: Tensor,
    part: range,
    plan: tuple[Level, ...],
    o: Options,
    scale: Tensor,
    shift: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    factor: float = 1.0,
) -> None:
    """Write ``U`` and ``V`` of some tiles into ``edges``, and their scale, inverse deviation and mean at each level."""
    basis, level_of, table = _constants(plan, x.device)
    launch = LAUNCH["prepare"]
    prepare_kernel[(triton.cdiv(len(part), launch["TILES"]),)](
        x,
        edges,
        scale,
        shift,
        x if weight is None else weight,
        x if bias is None else bias,
        basis,
        level_of,
        table,
        len(plan),
        x.shape[0],
        x.shape[1],
        part.start,
        part.stop,
        edges.stride(0),
        o.eps,
        factor,
        x.shape[2] * x.shape[3],
        x.shape[3],
        NORM=o.norm,
        AFFINE=weight is not None,
        LEVELS=triton.next_power_of_2(len(plan)),
        PRECISION=precision(x),
        **launch,
    )


def finish(
    edges: Tensor,
    y: Tensor,
    part: range,
    plan: tuple[Level, ...],
    factor: float,
    x: Tensor | None = None,
    scale: Tensor | None = None,
    sums: Tensor | None = None,
) -> None:
    """Write the coefficients of some tiles from both kinds of edges; with sums also the gradient through the norm."""
    basis, level_of, _ = _constants(plan, y.device)
    d_variance = y
    norm = scale is not None and sums is not None and scale.numel() > 0
    if scale is not None and sums is not None and norm:
        own = slice(part.start, part.stop)
        levels = len(plan)
        d_variance = torch.empty_like(sums[:levels])
        change = sums[:levels, own] * scale[:levels, own] * scale[levels:, own].square()
        d_variance[:, own] = -change.flip(0).cumsum(0).flip(0)
    launch = LAUNCH["finish"]
    finish_kernel[(triton.cdiv(len(part), launch["TILES"]),)](
        edges,
        y,
        y if x is None else x,
        d_variance,
        basis,
        level_of,
        y.shape[0],
        y.shape[1],
        part.start,
        part.stop,
        edges.stride(0),
        factor,
        y.shape[2] * y.shape[3],
        NORM=norm,
        PRECISION=precision(y),
        **launch,
    )


def _per_level(x: Tensor, plan: tuple[Level, ...], o: Options, count: int) -> tuple[Tensor, Tensor]:
    """Memory for numbers of each level, image and channel: ``(2 levels, Q)``, and ``(levels, Q)`` for the third."""
    numbers = torch.empty(
        count * len(plan) if o.norm else 0, x.shape[2] * x.shape[3], dtype=torch.float32, device=x.device
    )
    return numbers[: 2 * len(plan)], numbers[2 * len(plan) :]


def _pieces(x: Tensor, count: int) -> Iterator[tuple[Any, ...]]:
    """Tiles in pieces whose edges, ``count`` sets of them, stay in the cache of the device."""
    tiles = x.shape[2] * x.shape[3]
    edges = torch.empty(count, 2, min(PIECE, tiles), SIDE, SIDE, dtype=torch.float32, device=x.device)
    for start in range(0, tiles, PIECE):
        yield range(start, min(start + PIECE, tiles)), *edges


@forgotten_with_constants
@functools.lru_cache(1024)
def _constants(plan: tuple[Level, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The basis along both axes ``(2, coefficients, samples)``, the level of each coefficient, the table of levels."""
    basis = torch.zeros(2, SIDE, SIDE)
    level_of = torch.full((2, SIDE), len(plan), dtype=torch.int32)
    for axis in range(2):
        top = plan[-1]
        matrix = synthesis_matrix(top.grid[axis], top.reads[axis], torch.float32, torch.device("cpu")).mT
        basis[axis, : matrix.shape[0], : matrix.shape[1]] = matrix
        for i, level in reversed(list(enumerate(plan))):
            level_of[axis, : grids(level.reads)[axis]] = i
    table: list[list[int]] = []
    inside: Box = (0, 0)
    for level in plan:
        table.append([level.index, *inside, *grids(level.writes)])
        inside = grids(level.writes)
    return basis.to(device), level_of.to(device), torch.tensor(table, dtype=torch.int32).to(device)
