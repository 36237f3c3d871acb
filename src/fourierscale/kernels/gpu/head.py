"""The head on a common grid in Triton: largest samples of the windows of every level, and their places.

A tile, one image and channel, has a side of 32, 64 or 128 samples in ``side^2 / 1024`` warps, in the patches of
:mod:`.sweeps`. The arithmetic is plain float32, so that the places of the largest samples are found as exactly as they
can be. See :mod:`fourierscale.kernels.pooling` for the definition.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.bands import Box
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level
from fourierscale.kernels.gpu.common_grid import side_for
from fourierscale.kernels.gpu.edges import BLOCK, Frame, make_frame, pieces, prepare
from fourierscale.kernels.gpu.shared import on_its_device
from fourierscale.kernels.gpu.sweeps import patch, rim, update, zeros


@on_its_device
def pool_forward(x: Tensor, boxes: tuple[Box, ...], window: int, cells: int) -> tuple[Tensor, Tensor]:
    """Largest samples of the windows of every level, and their places; see :mod:`fourierscale.kernels.pooling`."""
    frame = _frame(boxes, window * cells, x.device)
    levels, (batch, channels) = len(boxes), x.shape[2:]
    pooled = x.new_empty(batch, levels, channels * cells**2)
    places = torch.empty(batch * channels, levels * cells**2, dtype=torch.int64, device=x.device)
    for part, edges in pieces(x, frame.side, 1):
        prepare(x, edges, part, frame, False)
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


@on_its_device
def pool_backward(
    gradient: Tensor, places: Tensor, boxes: tuple[Box, ...], window: int, cells: int, channels: int
) -> Tensor:
    """Gradient of the coefficients, ``(n_1, n_2, B, C)``."""
    n = window * cells
    frame = _frame(boxes, n, gradient.device)
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


def _warps(side: int) -> int:
    """Of a sweep: 32 samples a thread."""
    return side * side // BLOCK**2


@forgotten_with_constants
@functools.lru_cache(64)
def _frame(boxes: tuple[Box, ...], n: int, device: torch.device) -> Frame:
    side = side_for(tuple(Level(i, box, box, (n, n)) for i, box in enumerate(boxes)))
    assert side is not None
    return make_frame(list(range(len(boxes))), boxes, (n, n), triton.next_power_of_2(side), device)


@forgotten_with_constants
@functools.lru_cache(64)
def _samples(boxes: tuple[Box, ...], n: int, device: torch.device) -> Tensor:
    """The basis at each sample, ``(2, samples, lines)``."""
    return _frame(boxes, n, device).basis.mT.contiguous()


@triton.jit
def sweep_pool_kernel(
    edges,
    best,
    places,
    basis,
    table,
    levels,
    start,
    gap,
    C,
    WINDOW: tl.constexpr,
    CELLS: tl.constexpr,
    SIDE: tl.constexpr,
):
    q = tl.program_id(0)
    tile = start + q
    i, j = patch(SIDE, 1)
    rows, columns = edges + q * SIDE * SIDE, edges + gap + q * SIDE * SIDE
    z = zeros(SIDE, 1)
    place = i * (WINDOW * CELLS) + j
    cell_of = (i // WINDOW) * CELLS + j // WINDOW
    cell_of = tl.where((i < WINDOW * CELLS) & (j < WINDOW * CELLS), cell_of, -1)
    level = 0
    while level < levels:
        z = update(z, rows, columns, basis, table, level, 1, SIDE, 1)
        for cell in tl.static_range(CELLS * CELLS):
            inside = tl.where(cell_of == cell, z, float("-inf"))
            value = tl.max(tl.max(tl.max(tl.max(inside, 3), 1), 0), 0)
            at = tl.where(inside == value, place, WINDOW * CELLS * WINDOW * CELLS - 1)
            at = tl.min(tl.min(tl.min(tl.min(at, 3), 1), 0), 0)
            # the samples' place among (B, levels, C, cells), the places' among (B, C, levels, cells)
            to = ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell
            tl.store(best + to, value)
            tl.store(places + (tile * levels + level) * (CELLS * CELLS) + cell, at.to(tl.int64))
        level += 1


@triton.jit
def unpool_kernel(gradient, places, tiles, basis, table, levels, n, C, CELLS: tl.constexpr, SIDE: tl.constexpr):
    tile = tl.program_id(0)
    i, j = patch(SIDE, 1)
    z = zeros(SIDE, 1)
    level = 0
    while level < levels:
        _, r_end, _, c_end = rim(table, level)
        for cell in tl.static_range(CELLS * CELLS):
            g = tl.load(gradient + ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell)
            place = tl.load(places + (tile * levels + level) * (CELLS * CELLS) + cell).to(tl.int32)
            b = tl.load(basis + place // n * SIDE + i)
            a = tl.load(basis + SIDE * SIDE + place % n * SIDE + j)
            z += (tl.where(i < r_end, b, 0.0) * g.to(tl.float32)) * tl.where(j < c_end, a, 0.0)
        level += 1
    tl.store(tiles + tile * SIDE * SIDE + i * SIDE + j, z)
