r"""The nested activation on a common grid as sweeps, in Triton.

On one grid for all levels, a level adds a few outer products to the samples of the level before,

.. math:: Z_i = Z_{i-1} + \sum_{r \in \text{rim}} b_r \otimes U_r + \sum_{c \in \text{rim}} V_c \otimes b_c,

with :math:`U_r` row :math:`r` of the coefficients transformed along the columns as far as its level reaches and
:math:`V_c` column :math:`c` transformed along the rows below its level. And only the rim of the result is wanted:
:math:`G_r = b_r^\top \varphi_i(Z_i)` and :math:`H_c = \varphi_i(Z_i) \, b_c`. So a step is

1. ``prepare``: coefficients to ``U`` and ``V``, the edges of the tiles, and to the variances of all levels;
2. ``sweep``: a warp keeps a block of the samples of one image and channel on chip through all levels and adds to its
   parts of ``G`` and ``H``;
3. ``finish``: ``G`` and ``H`` to coefficients, the adjoint of ``prepare``.

With a pooling, ``G`` and ``H`` are those of the pooled samples.

The backward pass is ``prepare`` of both the coefficients and the gradient, a sweep that makes the samples of all levels
and then goes from fine to coarse, taking each level's part away again, and ``finish``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.gpu.blocks import block_backward_kernel, block_forward_kernel
from fourierscale.kernels.gpu.lines import deviation_kernel, finish_kernel, prepare_kernel
from fourierscale.kernels.gpu.shared import CODES, parameter_rows, precision
from fourierscale.kernels.gpu.sweeps import sweep_pool_kernel, unpool_kernel
from fourierscale.kernels.mixing import even_step
from fourierscale.kernels.nested import Options

BLOCK = 32
"""Samples per axis that a warp has in work at a time."""
LARGEST = 128
"""The largest side."""
PIECE = 6 * 2**20
"""Most numbers that the edges of the tiles in work at a time hold of each kind: they fit into the cache of a GPU."""
LEAST = 1024
"""Tiles in work at a time at least, so that all of a GPU has work."""
LINES: dict[str, dict[int, dict[str, int]]] = {
    "prepare": {
        32: {"TILES": 64, "DEPTH": 32, "num_warps": 2},
        64: {"TILES": 64, "DEPTH": 32, "num_warps": 4},
        128: {"TILES": 32, "DEPTH": 32, "num_warps": 4},
    },
    "finish": {
        32: {"TILES": 64, "DEPTH": 32, "num_warps": 2},
        64: {"TILES": 64, "DEPTH": 32, "num_warps": 4},
        128: {"TILES": 32, "DEPTH": 32, "num_warps": 4},
    },
}
"""How lines are transformed, for each power of two that holds one: tiles together, summands at a time, warps."""
SWEEP: dict[str, dict[str, int]] = {"forward": {"num_warps": 1}, "backward": {"num_warps": 1}}
"""How the sweeps are launched: what one warp holds decides where samples lie, see :mod:`.blocks`."""


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
    def shape(self) -> dict[str, int]:
        """What the transforms of lines are compiled for."""
        longest = max(*self.grid, *self.extent)
        summands = BLOCK * triton.cdiv(longest, BLOCK)
        return {"SIDE": self.side, "WIDTH": triton.next_power_of_2(summands), "SUMMANDS": summands}


def side_for(plan: tuple[Level, ...]) -> int | None:
    """The smallest side whose lines hold these levels and their grid; ``None`` if they are too large."""
    needed = max(*plan[-1].grid, *(1 + n for n in grids(plan[-1].reads)))
    return BLOCK * triton.cdiv(needed, BLOCK) if needed <= LARGEST else None


def nested_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to ``(n'_1, n'_2, B, C)``."""
    read, write = _frames(plan, o.pool, x.device)
    y = x.new_empty(*write.extent, *x.shape[2:])
    inverses = _per_level(x, plan, o.norm)
    for part, edges, output in _pieces(x, read.side, 2):
        prepare(x, edges, part, read, (inverses, o.eps) if o.norm else None)
        block_forward_kernel[_blocks(part, read)](
            edges,
            output,
            x if weight is None else weight,
            x if bias is None else bias,
            inverses,
            read.basis,
            read.table,
            write.basis,
            write.table,
            len(plan),
            part.start,
            edges.stride(0),
            *read.grid,
            x.shape[2] * x.shape[3],
            x.shape[3],
            **_options(x, o, weight, read),
            **SWEEP["forward"],
        )
        finish(output, y, part, write, 1 / math.prod(write.grid))
    return y


def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    read, write = _frames(plan, o.pool, x.device)
    # a pooling may leave out the highest frequencies of its input
    dx = torch.empty_like(x) if read.extent == tuple(x.shape[:2]) else torch.zeros_like(x)
    inverses = _per_level(x, plan, o.norm)
    # of each block of samples: gradients of scale, shift and variance
    blocks = math.prod(triton.cdiv(n, BLOCK) for n in read.grid)
    sums = inverses.new_empty(3, blocks, *inverses.shape)
    for part, edges, gradients, output in _pieces(x, read.side, 3):
        prepare(x, edges, part, read, (inverses, o.eps) if o.norm else None)
        prepare(gradient, gradients, part, write, None, 1 / math.prod(write.grid))
        block_backward_kernel[_blocks(part, read)](
            edges,
            gradients,
            output,
            x if weight is None else weight,
            x if bias is None else bias,
            inverses,
            *sums,
            read.basis,
            read.table,
            write.basis,
            write.table,
            len(plan),
            part.start,
            edges.stride(0),
            *read.grid,
            x.shape[2] * x.shape[3],
            x.shape[3],
            **_options(x, o, weight, read),
            **SWEEP["backward"],
        )
        finish(output, dx, part, read, 1.0, (x, sums[2]) if o.norm else None)
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    scale, shift = torch.unflatten(sums[:2], -1, x.shape[2:]).sum((1, 3))  # (levels, C)
    rows = parameter_rows(plan, len(weight), x.device)
    return dx, (rows @ scale).to(weight.dtype), (rows @ shift).to(bias.dtype)


def _options(x: Tensor, o: Options, weight: Tensor | None, read: Frame) -> dict[str, Any]:
    return {
        "CODE": CODES[o.activation],
        "NORM": o.norm,
        "AFFINE": weight is not None,
        "SIDE": read.side,
        "POOL": o.pool,
        "LARGEST": o.pool_kind == "max",
        # bfloat16 would stand elsewhere in the operands, and samples would have to move
        "PRECISION": precision(x).replace("bf16", "tf32"),
    }


def _blocks(part: range, read: Frame) -> tuple[int, int, int]:
    """Programs of a sweep: strips of samples, of rows and of columns, of each tile."""
    return triton.cdiv(max(read.grid), BLOCK), 2, len(part)


def _per_level(x: Tensor, plan: tuple[Level, ...], norm: bool) -> Tensor:
    """A number for each level, image and channel, if there is a norm."""
    return torch.empty(len(plan) if norm else 0, x.shape[2] * x.shape[3], dtype=torch.float32, device=x.device)


def pool_forward(x: Tensor, boxes: tuple[Box, ...], window: int, cells: int) -> tuple[Tensor, Tensor]:
    """Largest samples of the windows of every level, and their places; see :mod:`fourierscale.kernels.pooling`."""
    frame = _pool_frame(boxes, window * cells, x.device)
    levels, (batch, channels) = len(boxes), x.shape[2:]
    pooled = x.new_empty(batch, levels, channels * cells**2)
    places = torch.empty(batch * channels, levels * cells**2, dtype=torch.int64, device=x.device)
    for part, edges in _pieces(x, frame.side, 1):
        prepare(x, edges, part, frame, None)
        sweep_pool_kernel[(len(part),)](
            edges,
            pooled,
            places,
            frame.basis,
            frame.table,
            levels,
            part.start,
            edges.stride(0),
            channels,
            WINDOW=window,
            CELLS=cells,
            SIDE=frame.side,
            num_warps=_warps(frame.side),
        )
    return pooled, places


def pool_backward(
    gradient: Tensor, places: Tensor, boxes: tuple[Box, ...], window: int, cells: int, channels: int
) -> Tensor:
    """Gradient of the coefficients, ``(n_1, n_2, B, C)``."""
    n = window * cells
    frame = _pool_frame(boxes, n, gradient.device)
    tiles = torch.empty(len(places), frame.side, frame.side, dtype=torch.float32, device=gradient.device)
    unpool_kernel[(len(places),)](
        gradient,
        places,
        tiles,
        _samples(boxes, n, gradient.device),
        frame.table,
        len(boxes),
        n,
        channels,
        CELLS=cells,
        SIDE=frame.side,
        num_warps=_warps(frame.side),
    )
    down, across = frame.extent
    dx = tiles[:, 1 : 1 + down, 1 : 1 + across].permute(1, 2, 0).to(gradient.dtype).contiguous()
    return torch.unflatten(dx, -1, (-1, channels))


def prepare(
    x: Tensor, edges: Tensor, part: range, frame: Frame, norm: tuple[Tensor, float] | None, factor: float = 1.0
) -> None:
    """Write ``U`` and ``V`` of some tiles into ``edges``; with a norm without the mean, and the inverse deviations."""
    shape = frame.shape
    launch = LINES["prepare"][shape["WIDTH"]]
    energies = edges.new_empty(2 if norm else 0, edges.shape[1], frame.side)
    prepare_kernel[(triton.cdiv(len(part), launch["TILES"]), sum(frame.extent))](
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
        NORM=norm is not None,
        PRECISION=precision(x),
        **shape,
        **launch,
    )
    if norm is not None:
        inverses, eps = norm
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
            WIDTH=shape["WIDTH"],
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
    shape = frame.shape
    launch = LINES["finish"][shape["WIDTH"]]
    x, d_variance = norm or (y, edges)
    finish_kernel[(triton.cdiv(len(part), launch["TILES"]), sum(frame.extent))](
        edges,
        y,
        x,
        d_variance,
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
        len(d_variance),
        len(frame.boxes),
        y.shape[2] * y.shape[3],
        NORM=norm is not None,
        PRECISION=precision(y),
        **shape,
        **launch,
    )


def _warps(side: int) -> int:
    """Of a sweep through the head's windows: 32 samples a thread."""
    return side * side // 1024


def _pieces(x: Tensor, side: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Tiles in pieces of about equal size whose edges, ``count`` sets of them, stay in the cache of the device."""
    tiles = x.shape[2] * x.shape[3]
    step = even_step(tiles, max(PIECE // (count * side**2), LEAST))
    edges = torch.empty(count, 2, step, side, side, dtype=torch.float32, device=x.device)
    for start in range(0, tiles, step):
        yield range(start, min(start + step, tiles)), *edges


@forgotten_with_constants
@functools.lru_cache(1024)
def _frames(plan: tuple[Level, ...], pool: int, device: torch.device) -> tuple[Frame, Frame]:
    """What is read and what is written."""
    side = side_for(plan)
    assert side is not None
    rows = [level.index for level in plan]
    read = _frame(rows, tuple(level.reads for level in plan), plan[-1].grid, side, device)
    if pool == 1:
        return read, read
    grid = tuple(n // pool for n in plan[-1].grid)
    return read, _frame(rows, tuple(level.writes for level in plan), grid, side, device)


def _frame(rows: list[int], boxes: tuple[Box, ...], grid: Box, side: int, device: torch.device) -> Frame:
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


@forgotten_with_constants
@functools.lru_cache(64)
def _pool_frame(boxes: tuple[Box, ...], n: int, device: torch.device) -> Frame:
    side = side_for(tuple(Level(i, box, box, (n, n)) for i, box in enumerate(boxes)))
    assert side is not None
    return _frame(list(range(len(boxes))), boxes, (n, n), triton.next_power_of_2(side), device)


@forgotten_with_constants
@functools.lru_cache(64)
def _samples(boxes: tuple[Box, ...], n: int, device: torch.device) -> Tensor:
    """The basis at each sample, ``(2, samples, lines)``."""
    return _pool_frame(boxes, n, device).basis.mT.contiguous()
