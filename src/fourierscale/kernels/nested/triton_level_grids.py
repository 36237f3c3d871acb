"""The nested activation with a grid for each level, as one fused kernel.

A program holds a tile of a few images and channels. For each level, coarse to fine, it reads the level's corner of the
coefficients (from the cache, after the first time), normalises, samples, activates, analyses and writes the rim, all on
chip. Two-dimensional transforms are products with one small constant matrix on either side: a tile ``(n, t, m)`` is
``(n, t m)`` for a product from the left and ``(n t, m)`` for one from the right, with no transposition between. Small
levels run with tiles of 16, larger ones with tiles of 32. The backward pass computes the samples again.

Every level runs the same arithmetic whatever the size of the image, so the kernels are as exactly equivariant as the
specification, in any precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import kept
from fourierscale.functional.nested import Level
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.nested.activations import ACTIVATIONS, triton_code
from fourierscale.kernels.nested.task import Task
from fourierscale.kernels.triton_launch import activate, derivative, on_its_device, parameter_rows, precision, product

TILES = 4
"""Images and channels, times each other, in a program of four warps."""


@triton.jit
def _sandwich(left, x, right, PRECISION: tl.constexpr, P: tl.constexpr, T: tl.constexpr):
    """``left @ x @ right`` for every tile of ``x (P, T * P)``, as ``(P * T, P)``."""
    half = product(left, x, PRECISION)
    return product(tl.reshape(half, (P * T, P)), right, PRECISION)


@triton.jit
def _place(first, rows, columns, across, Q, P: tl.constexpr, T: tl.constexpr):
    """Indices, offsets and mask of a corner ``(P, T, P)`` of the coefficients."""
    i = tl.arange(0, P)[:, None, None]
    t = tl.arange(0, T)[None, :, None]
    j = tl.arange(0, P)[None, None, :]
    offsets = (i * across + j) * Q + first + t
    mask = (i < rows) & (j < columns) & (first + t < Q)
    return i, j, offsets, mask


@triton.jit
def _normalise(
    x, i, j, weight, bias, index, first, eps, Q, C, NORM: tl.constexpr, AFFINE: tl.constexpr, T: tl.constexpr
):
    """The coefficients as they are sampled, and scale and inverse deviation of each tile."""
    zero = (i == 0) & (j == 0)
    q = first + tl.arange(0, T)
    inverse = tl.full((T,), 1.0, tl.float32)
    scale = inverse
    if NORM:
        waves = tl.where(zero, 0.0, x)
        inverse = tl.rsqrt(tl.sum(tl.sum(waves * waves, 2), 0) + eps)
        scale = inverse
        mean = tl.zeros((T,), tl.float32)
        if AFFINE:
            scale = inverse * tl.load(weight + index * C + q % C, mask=q < Q, other=0.0).to(tl.float32)
            mean = tl.load(bias + index * C + q % C, mask=q < Q, other=0.0).to(tl.float32)
        x = tl.where(zero, mean[None, :, None], x * scale[None, :, None])
    return x, scale, inverse


@triton.jit
def _matrices(matrices, level, P: tl.constexpr):
    """The basis of a level along both axes, ``(samples, coefficients)``."""
    at = matrices + level * 2 * P * P + tl.arange(0, P)[:, None] * P + tl.arange(0, P)[None, :]
    return tl.load(at), tl.load(at + P * P)


@triton.jit
def _forward_levels(
    x_ptr, y_ptr, weight, bias, matrices, table, start, stop, first, across, eps, Q, C,
    NORM: tl.constexpr, AFFINE: tl.constexpr, CODE: tl.constexpr, PRECISION: tl.constexpr, P: tl.constexpr,
    T: tl.constexpr,
):  # fmt: skip
    level = start
    while level < stop:
        index = tl.load(table + level * 6)
        rows = tl.load(table + level * 6 + 1)
        columns = tl.load(table + level * 6 + 2)
        samples = tl.load(table + level * 6 + 5)
        i, j, offsets, mask = _place(first, rows, columns, across, Q, P, T)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        c, _, _ = _normalise(x, i, j, weight, bias, index, first, eps, Q, C, NORM, AFFINE, T)
        b1, b2 = _matrices(matrices, level - start, P)
        z = _sandwich(b1, tl.reshape(c, (P, T * P)), tl.trans(b2), PRECISION, P, T)
        p = activate(z, CODE)
        y = product(p, b2, PRECISION)
        y = product(tl.trans(b1), tl.reshape(y, (P, T * P)), PRECISION)
        y = tl.reshape(y, (P, T, P)) / samples.to(tl.float32)
        rim = mask & ((i >= tl.load(table + level * 6 + 3)) | (j >= tl.load(table + level * 6 + 4)))
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=rim)
        level += 1


@triton.jit
def _forward(
    x_ptr, y_ptr, weight, bias, small, large, table, middle, count, across, eps, Q, C,
    NORM: tl.constexpr, AFFINE: tl.constexpr, CODE: tl.constexpr, PRECISION: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * TILES
    _forward_levels(
        x_ptr, y_ptr, weight, bias, small, table, 0, middle, first, across, eps, Q, C, NORM, AFFINE, CODE, PRECISION,
        16, TILES,
    )  # fmt: skip
    _forward_levels(
        x_ptr, y_ptr, weight, bias, large, table, middle, count, first, across, eps, Q, C, NORM, AFFINE, CODE,
        PRECISION, 32, TILES,
    )  # fmt: skip


@triton.jit
def _backward_levels(
    dy_ptr, x_ptr, d_scale, d_shift, weight, bias, matrices, table, start, stop, first, across, eps, Q, C,
    NORM: tl.constexpr, AFFINE: tl.constexpr, CODE: tl.constexpr, PRECISION: tl.constexpr, P: tl.constexpr,
    T: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((P, T, P), tl.float32)
    level = start
    while level < stop:
        index = tl.load(table + level * 6)
        rows = tl.load(table + level * 6 + 1)
        columns = tl.load(table + level * 6 + 2)
        samples = tl.load(table + level * 6 + 5)
        i, j, offsets, mask = _place(first, rows, columns, across, Q, P, T)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        c, scale, inverse = _normalise(x, i, j, weight, bias, index, first, eps, Q, C, NORM, AFFINE, T)
        b1, b2 = _matrices(matrices, level - start, P)
        z = _sandwich(b1, tl.reshape(c, (P, T * P)), tl.trans(b2), PRECISION, P, T)
        rim = mask & ((i >= tl.load(table + level * 6 + 3)) | (j >= tl.load(table + level * 6 + 4)))
        dy = tl.load(dy_ptr + offsets, mask=rim, other=0.0).to(tl.float32) / samples.to(tl.float32)
        dp = _sandwich(b1, tl.reshape(dy, (P, T * P)), tl.trans(b2), PRECISION, P, T)
        dz = derivative(z, dp, CODE)
        dc = product(dz, b2, PRECISION)
        dc = tl.reshape(product(tl.trans(b1), tl.reshape(dc, (P, T * P)), PRECISION), (P, T, P))
        if NORM:
            zero = (i == 0) & (j == 0)
            q = first + tl.arange(0, T)
            d_mean = tl.sum(tl.sum(tl.where(zero, dc, 0.0), 2), 0)
            dc = tl.where(zero, 0.0, dc)
            waves = tl.where(zero, 0.0, x)
            ds = tl.sum(tl.sum(dc * waves, 2), 0)
            dc = dc * scale[None, :, None] - waves * (ds * scale * inverse * inverse)[None, :, None]
            tl.store(d_scale + level * Q + q, ds * inverse, mask=q < Q)
            tl.store(d_shift + level * Q + q, d_mean, mask=q < Q)
        total += tl.where(mask, dc, 0.0)
        level += 1
    return total


@triton.jit
def _backward(
    dy_ptr, x_ptr, dx_ptr, d_scale, d_shift, weight, bias, small, large, table, middle, count, down, across, eps, Q,
    C,
    NORM: tl.constexpr, AFFINE: tl.constexpr, CODE: tl.constexpr, PRECISION: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * TILES
    if middle < count:
        total = _backward_levels(
            dy_ptr, x_ptr, d_scale, d_shift, weight, bias, large, table, middle, count, first, across, eps, Q, C,
            NORM, AFFINE, CODE, PRECISION, 32, TILES,
        )  # fmt: skip
        _, _, offsets, mask = _place(first, down, across, across, Q, 32, TILES)
        tl.store(dx_ptr + offsets, total.to(dx_ptr.dtype.element_ty), mask=mask)
        tl.debug_barrier()
    if middle > 0:
        total = _backward_levels(
            dy_ptr, x_ptr, d_scale, d_shift, weight, bias, small, table, 0, middle, first, across, eps, Q, C, NORM,
            AFFINE, CODE, PRECISION, 16, TILES,
        )  # fmt: skip
        _, _, offsets, mask = _place(first, down, across, across, Q, 16, TILES)
        if middle < count:
            total += tl.load(dx_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + offsets, total.to(dx_ptr.dtype.element_ty), mask=mask)


@on_its_device
def nested_forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to the same shape."""
    y = torch.empty_like(x)
    count, options = x[0, 0].numel(), _options(x, weight, task)
    _forward[(triton.cdiv(count, TILES),)](
        x, y, *_parameters(x, weight, bias, task), x.shape[1], task.eps or 0.0, count, x.shape[-1], **options
    )
    return y


@on_its_device
def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    dx, count, channels = torch.empty_like(x), x[0, 0].numel(), x.shape[-1]
    sums = torch.empty(2, len(task.levels), count, dtype=torch.float32, device=x.device)
    given, options = _parameters(x, weight, bias, task), _options(x, weight, task)
    _backward[(triton.cdiv(count, TILES),)](
        gradient, x, dx, *sums, *given, *x.shape[:2], task.eps or 0.0, count, channels, **options
    )
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    per_level = sums.unflatten(-1, x.shape[2:]).sum(2)  # (2, levels, C)
    rows = parameter_rows(tuple(level.index for level in task.levels), len(weight), x.device)
    return dx, (rows @ per_level[0]).to(weight.dtype), (rows @ per_level[1]).to(bias.dtype)


def _parameters(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task) -> tuple[Any, ...]:
    """What both kernels are given: parameters, matrices, the table, and how many levels are small, and are there."""
    affine = (x, x) if weight is None or bias is None else (weight, bias)
    return *affine, *_constants(task, x.device), len(task.levels)


def _options(x: Tensor, weight: Tensor | None, task: Task) -> dict[str, Any]:
    code = ACTIVATIONS[task.activation].triton
    assert code is not None
    return {
        "NORM": task.norm,
        "AFFINE": weight is not None,
        "CODE": triton_code(code),
        "PRECISION": precision(x),
        "TILES": TILES,
        "num_warps": 4,
    }


@kept
def _constants(task: Task, device: torch.device) -> tuple[Tensor, Tensor, Tensor, int]:
    """Matrices of the levels with tiles of 16 and of 32, the table of levels, and how many are small."""
    plan = task.levels
    middle = sum(max(*level.grid, *grids(level.reads)) <= 16 for level in plan)
    table: list[list[int]] = []
    inside: Box = (0, 0)
    for level in plan:
        table.append([level.index, *grids(level.reads), *inside, level.grid[0] * level.grid[1]])
        inside = grids(level.writes)
    numbers = torch.tensor(table, dtype=torch.int32)
    return _stack(plan[:middle], 16).to(device), _stack(plan[middle:], 32).to(device), numbers.to(device), middle


def _stack(plan: Sequence[Level], side: int) -> Tensor:
    """Bases of levels and axes, padded with zeros, ``(levels, 2, side, side)``."""
    padded = torch.zeros(max(1, len(plan)), 2, side, side)
    for i, level in enumerate(plan):
        for axis in range(2):
            matrix = synthesis_matrix(level.grid[axis], level.reads[axis], torch.float32, torch.device("cpu"))
            padded[i, axis, : matrix.shape[0], : matrix.shape[1]] = matrix
    return padded
