r"""The nested activation on a common grid as sweeps, in Triton.

On one grid for all levels, a level adds a few outer products to the samples of the level before,

.. math:: Z_i = Z_{i-1} + \sum_{r \in \text{rim}} b_r \otimes U_r + \sum_{c \in \text{rim}} V_c \otimes b_c,

with :math:`U_r` row :math:`r` of the coefficients transformed along the columns as far as its level reaches and
:math:`V_c` column :math:`c` transformed along the rows below its level. And only the rim of the result is wanted:
:math:`G_r = b_r^\top \varphi_i(Z_i)` and :math:`H_c = \varphi_i(Z_i) \, b_c`. So a step is

1. ``write_edges``: coefficients to ``U`` and ``V``, the edges of the tiles;
2. ``sweep``: a warp keeps samples of one image and channel on chip through all levels, from ``U`` and ``V`` to ``G``
   and ``H``;
3. ``read_edges``: ``G`` and ``H`` to coefficients, the adjoint of ``write_edges``.

With a pooling, ``G`` and ``H`` are those of the pooled samples.

The backward pass is ``write_edges`` of both the coefficients and the gradient, a sweep that makes the samples of all
levels and then goes from fine to coarse, taking each level's part away again, and ``read_edges``.

There are two kinds of sweeps, because neither is good at the other's sizes. Where a tile is one block of 32 x 32
samples, :mod:`.triton_sweeps`: one warp has all of it, in plain float32 arithmetic, takes the variances from the edges
and overwrites these. Where it is larger, :mod:`.triton_blocks`: a warp has a strip of it, on tensor cores. On an H200
a training step of the network for MNIST (28 pixels, rims of two lines, of which tensor cores would take eight) needs
4.8 ms in TF32 with the first kind and 5.8 ms with the second; one of the network for STL-10 (96 pixels) 125 and 57 ms.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
from torch import Tensor

from fourierscale.functional.constants import kept
from fourierscale.kernels.nested.activations import ACTIVATIONS, triton_code
from fourierscale.kernels.nested.task import Task
from fourierscale.kernels.nested.triton_blocks import block_backward_kernel, block_forward_kernel
from fourierscale.kernels.nested.triton_sweeps import sweep_backward_kernel, sweep_forward_kernel
from fourierscale.kernels.triton_edges import BLOCK, Frame, edge_pieces, make_frame, read_edges, side_of, write_edges
from fourierscale.kernels.triton_launch import on_its_device, parameter_rows, precision


@on_its_device
def nested_forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to ``(n'_1, n'_2, B, C)``."""
    read, write = _frames(task, x.device)
    y = x.new_empty(*write.extent, *x.shape[2:])
    alone = read.side == BLOCK
    inverses = _per_level(x, task, task.norm and not alone)
    for part, *sets in edge_pieces(x, read.side, 1 if alone else 2):
        edges, output = sets[0], sets[-1]
        common = *_arguments(x, weight, bias, read, write), part.start, edges.stride(0), *read.grid
        write_edges(
            x, edges, part, read, task.norm, (inverses, task.eps) if task.eps is not None and not alone else None
        )
        if alone:
            sweep_forward_kernel[(len(part),)](edges, *common, task.eps or 0.0, x.shape[3], **_options(task, weight))
        else:
            block_forward_kernel[_blocks(part, read)](
                edges, output, inverses, *common, *_sizes(x), **_options(task, weight), **_products(x, read)
            )
        read_edges(output, y, part, write, 1 / math.prod(write.grid))
    return y


@on_its_device
def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    read, write = _frames(task, x.device)
    # a pooling may leave out the highest frequencies of its input
    dx = torch.empty_like(x) if read.extent == tuple(x.shape[:2]) else torch.zeros_like(x)
    alone = read.side == BLOCK
    inverses = _per_level(x, task, task.norm)
    # of each block of samples: gradients of scale, shift and variance
    blocks = math.prod(triton.cdiv(n, BLOCK) for n in read.grid)
    sums = inverses.new_empty(3, blocks, *inverses.shape)
    for part, *sets in edge_pieces(x, read.side, 2 if alone else 3):
        edges, gradients, output = sets[0], sets[1], sets[-1]
        common = *_arguments(x, weight, bias, read, write), part.start, edges.stride(0), *read.grid
        write_edges(
            x, edges, part, read, task.norm, (inverses, task.eps) if task.eps is not None and not alone else None
        )
        write_edges(gradient, gradients, part, write, False, factor=1 / math.prod(write.grid))
        if alone:
            sweep_backward_kernel[(len(part),)](
                edges, gradients, inverses, *sums, *common, task.eps or 0.0, *_sizes(x), **_options(task, weight)
            )
        else:
            block_backward_kernel[_blocks(part, read)](
                edges, gradients, output, inverses, *sums, *common, *_sizes(x), **_options(task, weight),
                **_products(x, read),
            )  # fmt: skip
        read_edges(output, dx, part, read, 1.0, (x, sums[2]) if task.norm else None)
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    scale, shift = torch.unflatten(sums[:2], -1, x.shape[2:]).sum((1, 3))  # (levels, C)
    rows = parameter_rows(tuple(level.index for level in task.levels), len(weight), x.device)
    return dx, (rows @ scale).to(weight.dtype), (rows @ shift).to(bias.dtype)


def _arguments(x: Tensor, weight: Tensor | None, bias: Tensor | None, read: Frame, write: Frame) -> tuple[Any, ...]:
    """What every sweep is given: parameters, bases and tables, the number of levels."""
    parameters = x if weight is None else weight, x if bias is None else bias
    return *parameters, read.basis, read.table, write.basis, write.table, len(read.boxes)


def _sizes(x: Tensor) -> tuple[int, int]:
    """Images and channels together, and channels."""
    return x.shape[2] * x.shape[3], x.shape[3]


def _options(task: Task, weight: Tensor | None) -> dict[str, Any]:
    code = ACTIVATIONS[task.activation].triton
    assert code is not None
    return {
        "CODE": triton_code(code),
        "NORM": task.norm,
        "AFFINE": weight is not None,
        "POOL": task.pool.window,
        "LARGEST": task.pool.kind == "max",
        "num_warps": 1,
    }


def _products(x: Tensor, read: Frame) -> dict[str, Any]:
    # bfloat16 would stand elsewhere in the operands, and samples would have to move
    return {"SIDE": read.side, "PRECISION": precision(x).replace("bf16", "tf32")}


def _blocks(part: range, read: Frame) -> tuple[int, int, int]:
    """Programs of a sweep in blocks: strips of samples, of rows and of columns, of each tile."""
    return triton.cdiv(max(read.grid), BLOCK), 2, len(part)


def _per_level(x: Tensor, task: Task, norm: bool) -> Tensor:
    """A number for each level, image and channel, if there is a norm."""
    return torch.empty(len(task.levels) if norm else 0, x.shape[2] * x.shape[3], dtype=torch.float32, device=x.device)


@kept
def _frames(task: Task, device: torch.device) -> tuple[Frame, Frame]:
    """What is read and what is written."""
    plan, window = task.levels, task.pool.window
    rows, grid = [level.index for level in plan], plan[-1].grid
    side = side_of(grid, plan[-1].reads)
    read = make_frame(rows, tuple(level.reads for level in plan), grid, side, device)
    if window == 1:
        return read, read
    return read, make_frame(rows, tuple(level.writes for level in plan), tuple(n // window for n in grid), side, device)
