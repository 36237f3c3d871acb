r"""The nested activation on a common grid as sweeps, in Triton.

On one grid for all levels, a level adds a few outer products to the samples of the level before,

.. math:: Z_i = Z_{i-1} + \sum_{r \in \text{rim}} b_r \otimes U_r + \sum_{c \in \text{rim}} V_c \otimes b_c,

with :math:`U_r` row :math:`r` of the coefficients transformed along the columns as far as its level reaches and
:math:`V_c` column :math:`c` transformed along the rows below its level. And only the rim of the result is wanted:
:math:`G_r = b_r^\top \varphi_i(Z_i)` and :math:`H_c = \varphi_i(Z_i) \, b_c`. So a step is

1. ``prepare``: coefficients to ``U`` and ``V``, the edges of the tiles;
2. ``sweep``: a warp keeps samples of one image and channel on chip through all levels, from ``U`` and ``V`` to ``G``
   and ``H``;
3. ``finish``: ``G`` and ``H`` to coefficients, the adjoint of ``prepare``.

With a pooling, ``G`` and ``H`` are those of the pooled samples.

The backward pass is ``prepare`` of both the coefficients and the gradient, a sweep that makes the samples of all levels
and then goes from fine to coarse, taking each level's part away again, and ``finish``.

There are two kinds of sweeps, because neither is good at the other's sizes. Where a tile is one block of 32 x 32
samples, :mod:`.sweeps`: one warp has all of it, in plain float32 arithmetic, takes the variances from the edges and
overwrites these. Where it is larger, :mod:`.blocks`: a warp has a strip of it, on tensor cores. On an H200 a training
step of the network for MNIST (28 pixels, rims of two lines, of which tensor cores would take eight) needs 4.8 ms in
TF32 with the first kind and 5.8 ms with the second; one of the network for STL-10 (96 pixels) 125 and 57 ms.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
import triton
from torch import Tensor

from fourierscale.functional.bands import grids
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level
from fourierscale.kernels.gpu.blocks import block_backward_kernel, block_forward_kernel
from fourierscale.kernels.gpu.edges import BLOCK, Frame, finish, make_frame, pieces, prepare
from fourierscale.kernels.gpu.shared import CODES, on_its_device, parameter_rows, precision
from fourierscale.kernels.gpu.sweeps import sweep_backward_kernel, sweep_forward_kernel
from fourierscale.kernels.plans import Options

LARGEST = 128
"""The largest side."""


def side_for(plan: tuple[Level, ...]) -> int | None:
    """The smallest side whose lines hold these levels and their grid; ``None`` if they are too large."""
    needed = max(*plan[-1].grid, *(1 + n for n in grids(plan[-1].reads)))
    return BLOCK * triton.cdiv(needed, BLOCK) if needed <= LARGEST else None


@on_its_device
def nested_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to ``(n'_1, n'_2, B, C)``."""
    read, write = _frames(plan, o.pool, x.device)
    y = x.new_empty(*write.extent, *x.shape[2:])
    alone = read.side == BLOCK
    inverses = _per_level(x, plan, o.norm and not alone)
    for part, *sets in pieces(x, read.side, 1 if alone else 2):
        edges, output = sets[0], sets[-1]
        common = *_arguments(x, weight, bias, read, write), part.start, edges.stride(0), *read.grid
        prepare(x, edges, part, read, o.norm, (inverses, o.eps) if o.norm and not alone else None)
        if alone:
            sweep_forward_kernel[(len(part),)](edges, *common, o.eps, x.shape[3], **_options(o, weight))
        else:
            block_forward_kernel[_blocks(part, read)](
                edges, output, inverses, *common, *_sizes(x), **_options(o, weight), **_products(x, read)
            )
        finish(output, y, part, write, 1 / math.prod(write.grid))
    return y


@on_its_device
def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    read, write = _frames(plan, o.pool, x.device)
    # a pooling may leave out the highest frequencies of its input
    dx = torch.empty_like(x) if read.extent == tuple(x.shape[:2]) else torch.zeros_like(x)
    alone = read.side == BLOCK
    inverses = _per_level(x, plan, o.norm)
    # of each block of samples: gradients of scale, shift and variance
    blocks = math.prod(triton.cdiv(n, BLOCK) for n in read.grid)
    sums = inverses.new_empty(3, blocks, *inverses.shape)
    for part, *sets in pieces(x, read.side, 2 if alone else 3):
        edges, gradients, output = sets[0], sets[1], sets[-1]
        common = *_arguments(x, weight, bias, read, write), part.start, edges.stride(0), *read.grid
        prepare(x, edges, part, read, o.norm, (inverses, o.eps) if o.norm and not alone else None)
        prepare(gradient, gradients, part, write, False, factor=1 / math.prod(write.grid))
        if alone:
            sweep_backward_kernel[(len(part),)](
                edges, gradients, inverses, *sums, *common, o.eps, *_sizes(x), **_options(o, weight)
            )
        else:
            block_backward_kernel[_blocks(part, read)](
                edges,
                gradients,
                output,
                inverses,
                *sums,
                *common,
                *_sizes(x),
                **_options(o, weight),
                **_products(x, read),
            )
        finish(output, dx, part, read, 1.0, (x, sums[2]) if o.norm else None)
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    scale, shift = torch.unflatten(sums[:2], -1, x.shape[2:]).sum((1, 3))  # (levels, C)
    rows = parameter_rows(plan, len(weight), x.device)
    return dx, (rows @ scale).to(weight.dtype), (rows @ shift).to(bias.dtype)


def _arguments(x: Tensor, weight: Tensor | None, bias: Tensor | None, read: Frame, write: Frame) -> tuple[Any, ...]:
    """What every sweep is given: parameters, bases and tables, the number of levels."""
    parameters = x if weight is None else weight, x if bias is None else bias
    return *parameters, read.basis, read.table, write.basis, write.table, len(read.boxes)


def _sizes(x: Tensor) -> tuple[int, int]:
    """Images and channels together, and channels."""
    return x.shape[2] * x.shape[3], x.shape[3]


def _options(o: Options, weight: Tensor | None) -> dict[str, Any]:
    return {
        "CODE": CODES[o.activation],
        "NORM": o.norm,
        "AFFINE": weight is not None,
        "POOL": o.pool,
        "LARGEST": o.pool_kind == "max",
        "num_warps": 1,
    }


def _products(x: Tensor, read: Frame) -> dict[str, Any]:
    # bfloat16 would stand elsewhere in the operands, and samples would have to move
    return {"SIDE": read.side, "PRECISION": precision(x).replace("bf16", "tf32")}


def _blocks(part: range, read: Frame) -> tuple[int, int, int]:
    """Programs of a sweep in blocks: strips of samples, of rows and of columns, of each tile."""
    return triton.cdiv(max(read.grid), BLOCK), 2, len(part)


def _per_level(x: Tensor, plan: tuple[Level, ...], norm: bool) -> Tensor:
    """A number for each level, image and channel, if there is a norm."""
    return torch.empty(len(plan) if norm else 0, x.shape[2] * x.shape[3], dtype=torch.float32, device=x.device)


@forgotten_with_constants
@functools.lru_cache(1024)
def _frames(plan: tuple[Level, ...], pool: int, device: torch.device) -> tuple[Frame, Frame]:
    """What is read and what is written."""
    side = side_for(plan)
    assert side is not None
    rows = [level.index for level in plan]
    read = make_frame(rows, tuple(level.reads for level in plan), plan[-1].grid, side, device)
    if pool == 1:
        return read, read
    grid = tuple(n // pool for n in plan[-1].grid)
    return read, make_frame(rows, tuple(level.writes for level in plan), grid, side, device)
