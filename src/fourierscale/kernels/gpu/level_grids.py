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

import functools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.gpu.shared import (
    CODES,
    activate,
    derivative,
    on_its_device,
    parameter_rows,
    precision,
    product,
)
from fourierscale.kernels.plans import Options

LAUNCH: dict[str, dict[str, int]] = {
    "forward": {"TILES": 4, "num_warps": 4},
    "backward": {"TILES": 4, "num_warps": 4},
}
"""Tiles per program and warps; measured by ``fourierscale bench``."""


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
    x_ptr,
    y_ptr,
    weight,
    bias,
    matrices,
    table,
    start,
    stop,
    first,
    across,
    eps,
    Q,
    C,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    CODE: tl.constexpr,
    PRECISION: tl.constexpr,
    P: tl.constexpr,
    T: tl.constexpr,
):
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
    x_ptr,
    y_ptr,
    weight,
    bias,
    small,
    large,
    table,
    middle,
    count,
    across,
    eps,
    Q,
    C,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    CODE: tl.constexpr,
    PRECISION: tl.constexpr,
    TILES: tl.constexpr,
):
    first = tl.program_id(0) * TILES
    _forward_levels(
        x_ptr,
        y_ptr,
        weight,
        bias,
        small,
        table,
        0,
        middle,
        first,
        across,
        eps,
        Q,
        C,
        NORM,
        AFFINE,
        CODE,
        PRECISION,
        16,
        TILES,
    )
    _forward_levels(
        x_ptr,
        y_ptr,
        weight,
        bias,
        large,
        table,
        middle,
        count,
        first,
        across,
        eps,
        Q,
        C,
        NORM,
        AFFINE,
        CODE,
        PRECISION,
        32,
        TILES,
    )


@triton.jit
def _backward_levels(
    dy_ptr,
    x_ptr,
    dx_ptr,
    d_scale,
    d_shift,
    weight,
    bias,
    matrices,
    table,
    start,
    stop,
    first,
    across,
    eps,
    Q,
    C,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    CODE: tl.constexpr,
    PRECISION: tl.constexpr,
    P: tl.constexpr,
    T: tl.constexpr,
):
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
    dy_ptr,
    x_ptr,
    dx_ptr,
    d_scale,
    d_shift,
    weight,
    bias,
    small,
    large,
    table,
    middle,
    count,
    down,
    across,
    eps,
    Q,
    C,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    CODE: tl.constexpr,
    PRECISION: tl.constexpr,
    TILES: tl.constexpr,
):
    first = tl.program_id(0) * TILES
    if middle < count:
        total = _backward_levels(
            dy_ptr,
            x_ptr,
            dx_ptr,
            d_scale,
            d_shift,
            weight,
            bias,
            large,
            table,
            middle,
            count,
            first,
            across,
            eps,
            Q,
            C,
            NORM,
            AFFINE,
            CODE,
            PRECISION,
            32,
            TILES,
        )
        _, _, offsets, mask = _place(first, down, across, across, Q, 32, TILES)
        tl.store(dx_ptr + offsets, total.to(dx_ptr.dtype.element_ty), mask=mask)
        tl.debug_barrier()
    if middle > 0:
        total = _backward_levels(
            dy_ptr,
            x_ptr,
            dx_ptr,
            d_scale,
            d_shift,
            weight,
            bias,
            small,
            table,
            0,
            middle,
            first,
            across,
            eps,
            Q,
            C,
            NORM,
            AFFINE,
            CODE,
            PRECISION,
            16,
            TILES,
        )
        _, _, offsets, mask = _place(first, down, across, across, Q, 16, TILES)
        if middle < count:
            total += tl.load(dx_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + offsets, total.to(dx_ptr.dtype.element_ty), mask=mask)


@on_its_device
def nested_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to the same shape."""
    y = torch.empty_like(x)
    small, large, table, middle = _constants(plan, x.device)
    count = x[0, 0].numel()
    launch = LAUNCH["forward"]
    _forward[(triton.cdiv(count, launch["TILES"]),)](
        x,
        y,
        *_affine(x, weight, bias),
        small,
        large,
        table,
        middle,
        len(plan),
        x.shape[1],
        o.eps,
        count,
        x.shape[-1],
        NORM=o.norm,
        AFFINE=weight is not None,
        CODE=CODES[o.activation],
        PRECISION=precision(x),
        **launch,
    )
    return y


@on_its_device
def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    dx = torch.empty_like(x)
    small, large, table, middle = _constants(plan, x.device)
    batch, channels = x.shape[2:]
    count = batch * channels
    sums = torch.empty(2, len(plan), count, dtype=torch.float32, device=x.device)
    launch = LAUNCH["backward"]
    _backward[(triton.cdiv(count, launch["TILES"]),)](
        gradient,
        x,
        dx,
        sums[0],
        sums[1],
        *_affine(x, weight, bias),
        small,
        large,
        table,
        middle,
        len(plan),
        x.shape[0],
        x.shape[1],
        o.eps,
        count,
        channels,
        NORM=o.norm,
        AFFINE=weight is not None,
        CODE=CODES[o.activation],
        PRECISION=precision(x),
        **launch,
    )
    if weight is None or bias is None:
        return dx, x.new_empty(0), x.new_empty(0)
    per_level = sums.unflatten(-1, (batch, channels)).sum(2)  # (2, levels, C)
    rows = parameter_rows(plan, len(weight), x.device)
    return dx, (rows @ per_level[0]).to(weight.dtype), (rows @ per_level[1]).to(bias.dtype)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    return (x, x) if weight is None or bias is None else (weight, bias)


@forgotten_with_constants
@functools.lru_cache(1024)
def _constants(plan: tuple[Level, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, int]:
    """Matrices of the levels with tiles of 16 and of 32, the table of levels, and how many are small."""
    middle = sum(max(*level.grid, *grids(level.reads)) <= 16 for level in plan)
    table: list[list[int]] = []
    inside: Box = (0, 0)
    for level in plan:
        table.append([level.index, *grids(level.reads), *inside, level.grid[0] * level.grid[1]])
        inside = grids(level.writes)
    small = _stack([level.grid for level in plan[:middle]], [level.reads for level in plan[:middle]], 16)
    large = _stack([level.grid for level in plan[middle:]], [level.reads for level in plan[middle:]], 32)
    numbers = torch.tensor(table, dtype=torch.int32)
    return small.to(device), large.to(device), numbers.to(device), middle


def _stack(sizes: Sequence[Box], boxes: Sequence[Box], side: int) -> Tensor:
    """Bases of levels and axes, padded with zeros, ``(levels, 2, side, side)``."""
    padded = torch.zeros(max(1, len(sizes)), 2, side, side)
    for level, (size, box) in enumerate(zip(sizes, boxes, strict=True)):
        for axis in range(2):
            matrix = synthesis_matrix(size[axis], box[axis], torch.float32, torch.device("cpu"))
            padded[level, axis, : matrix.shape[0], : matrix.shape[1]] = matrix
    return padded
