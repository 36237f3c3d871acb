"""The head on a common grid in Triton: largest samples of the windows of every level, and their places.

A tile, one image and channel, has a side of 32, 64 or 128 samples in ``side^2 / 1024`` warps, in the patches of
:mod:`fourierscale.kernels.triton_patches`. The arithmetic is plain float32, so that the places of the largest samples
are found as exactly as they can be.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.bands import Box
from fourierscale.functional.constants import kept
from fourierscale.kernels.pool.task import PoolTask
from fourierscale.kernels.triton_edges import BLOCK, Frame, edge_pieces, make_frame, side_of, write_edges
from fourierscale.kernels.triton_launch import on_its_device
from fourierscale.kernels.triton_patches import patch, rim, update, zeros


@on_its_device
def pool_forward(x: Tensor, task: PoolTask) -> tuple[Tensor, Tensor]:
    """Largest samples of the windows of every level, and their places if they are wanted; see :mod:`.products`."""
    frame = _frame(task.boxes, task.samples, x.device)
    levels, cells, (batch, channels) = len(task.boxes), task.cells, x.shape[2:]
    pooled = x.new_empty(batch, levels, channels * cells**2)
    places = torch.empty(batch * channels, levels * cells**2, dtype=torch.int64, device=x.device)
    for part, edges in edge_pieces(x, frame.side, 1):
        write_edges(x, edges, part, frame, False)
        sweep_pool_kernel[(len(part),)](
            edges, pooled, places, frame.basis, frame.table, levels, part.start, edges.stride(0), channels,
            WINDOW=task.window, CELLS=cells, SIDE=frame.side, num_warps=_warps(frame.side),
        )  # fmt: skip
    return pooled, places if task.places else places[:, :0].clone()


@on_its_device
def pool_backward(gradient: Tensor, places: Tensor, channels: int, task: PoolTask) -> Tensor:
    """Gradient of the coefficients, ``(n_1, n_2, B, C)``."""
    frame = _frame(task.boxes, task.samples, gradient.device)
    tiles = torch.empty(len(places), frame.side, frame.side, dtype=torch.float32, device=gradient.device)
    unpool_kernel[(len(places),)](
        gradient, places, tiles, _samples(task.boxes, task.samples, gradient.device), frame.table, len(task.boxes),
        task.samples, channels, CELLS=task.cells, SIDE=frame.side, num_warps=_warps(frame.side),
    )  # fmt: skip
    down, across = frame.extent
    dx = tiles[:, 1 : 1 + down, 1 : 1 + across].permute(1, 2, 0).to(gradient.dtype).contiguous()
    return torch.unflatten(dx, -1, (-1, channels))


def _warps(side: int) -> int:
    """Of a sweep: 32 samples a thread."""
    return side * side // BLOCK**2


@kept
def _frame(boxes: tuple[Box, ...], n: int, device: torch.device) -> Frame:
    side = triton.next_power_of_2(side_of((n, n), boxes[-1]))
    return make_frame(list(range(len(boxes))), boxes, (n, n), side, device)


@kept
def _samples(boxes: tuple[Box, ...], n: int, device: torch.device) -> Tensor:
    """The basis at each sample, ``(2, samples, lines)``."""
    return _frame(boxes, n, device).basis.mT.contiguous()


@triton.jit
def sweep_pool_kernel(
    edges, best, places, basis, table, levels, start, gap, C,
    WINDOW: tl.constexpr, CELLS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
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
