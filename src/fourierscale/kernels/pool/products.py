r"""The pooling of the head, all levels at once: the fast twin of :func:`fourierscale.functional.level_pool`.

Every level is sampled on the same grid, ``cells`` windows of ``window`` samples per axis, and each window gives one
number. As the grid is the same, the samples of a level are those of the level before it plus what its rim adds: a few
products of little depth. For the maximum, the place of each window's largest sample is kept, so that the backward pass
needs no samples: the gradient of a coefficient is a sum over the windows,

.. math:: \frac{\partial}{\partial C[i, j]} = \sum_{w} g_w \, b_i(s_w) \, b_j(t_w)

one small product per channel for all levels and windows together.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.functional.bands import Boundary, Box, frequencies
from fourierscale.functional.constants import constant, kept
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.layout import rim
from fourierscale.kernels.pool.task import PoolTask
from fourierscale.kernels.products import Block, chain, contiguous, pieces, share_count, shares, workspace


def pool_forward(x: Tensor, task: PoolTask) -> tuple[Tensor, Tensor]:
    """Pooled samples ``(B, levels, C * cells^2)``, and the place of each maximum ``(B * C, levels * cells^2)``.

    A place is ``row * n + column`` on the grid of ``n = window * cells`` samples per axis; without places there are
    none, ``(B * C, 0)``.
    """
    n, window, cells, levels = task.samples, task.window, task.cells, len(task.boxes)
    batch, channels = x.shape[2:]
    flat = x.flatten(2)
    pooled = flat.new_empty(flat.shape[-1], levels, cells, cells)
    shape = pooled.shape if task.places else (flat.shape[-1], 0)
    places = torch.empty(shape, dtype=torch.int64, device=x.device)
    corner = torch.arange(0, n, window, device=x.device)
    for part in pieces(flat, n * n):
        samples, space = workspace(flat, part, max(n, flat.shape[0]) * max(n, flat.shape[1]), 2)
        count = share_count(part.stop - part.start, n * n, x.device)
        coeffs = shares(flat, part, count)
        z = contiguous(samples, (count, cells, window, cells, window, coeffs.shape[-1]))
        rims = _rims(task.boxes, n, task.boundary, x.dtype, x.device, count, coeffs.shape[-1])
        for i, blocks in enumerate(rims):
            for block in blocks:
                block.write(coeffs[block.place], space, samples)
            if task.kind == "average":
                pooled[part, i] = _joined(z.mean((2, 4)))
                continue
            if not task.places:
                pooled[part, i] = _joined(z.amax(4).amax(2))
                continue
            # The largest of each row of each window, then the row of the largest of those, then its column: torch
            # finds largest values much faster than their places.
            best, row = z.amax(4).max(2)  # (S, cells, cells, q)
            chosen = z.gather(2, row[:, :, None, :, None].expand(-1, -1, 1, -1, window, -1))[:, :, 0]
            column = chosen.max(3).indices  # several times faster than argmax
            place = (row + corner[:, None, None]) * n + column + corner[:, None]
            pooled[part, i] = _joined(best)
            places[part, i] = _joined(place)
    output = pooled.reshape(batch, channels, levels, -1).transpose(1, 2).reshape(batch, levels, -1)
    return output, places.flatten(1)


@kept
def _rims(
    boxes: tuple[Box, ...],
    n: int,
    boundary: Boundary,
    dtype: torch.dtype,
    device: torch.device,
    count: int,
    columns: int,
) -> tuple[tuple[Block, ...], ...]:
    """What each level adds to the samples of the level before it; all of it where it does not hold that level."""
    levels = []
    inside: Box | None = None
    for box in boxes:
        if inside is not None and any(a > b for a, b in zip(inside, box, strict=True)):
            inside = None
        blocks: list[Block] = []
        for span in rim(box, inside):
            shape = (count, *(last - first for first, last in span), columns)
            factors = [
                (axis, synthesis_matrix(n, box[axis], boundary, dtype, device)[:, slice(*span[axis])])
                for axis in sorted(range(2), key=lambda axis: -shape[axis + 1])
            ]
            place = (slice(None), *(slice(*ends) for ends in span))
            blocks.append(Block(place, shape, chain(factors, shape)[0], inside is not None or bool(blocks)))
        levels.append(tuple(blocks))
        inside = box
    return tuple(levels)


def _joined(x: Tensor) -> Tensor:
    """The shares of a piece ``(S, cells, cells, q)`` as ``(Q, cells, cells)``."""
    return x.movedim(-1, 1).flatten(0, 1)


def pool_backward(gradient: Tensor, places: Tensor, channels: int, task: PoolTask) -> Tensor:
    """Gradient of the coefficients, ``(n_1, n_2, B, C)``, from ``(B, levels, C * cells^2)``."""
    n, cells, levels = task.samples, task.cells, len(task.boxes)
    batch = gradient.shape[0]
    g = gradient.reshape(batch, levels, channels, cells**2).transpose(1, 2).reshape(-1, levels * cells**2)
    every = [
        level_waves(n, task.boundary, *(box[axis] for box in task.boxes), gradient.dtype, gradient.device)
        for axis in range(2)
    ]  # (levels, n, m)
    if task.kind == "max":
        level = torch.arange(levels * cells**2, device=gradient.device) // cells**2
        first = every[0][level, places // n] * g[..., None]  # (Q, levels * cells^2, n_1)
        second = every[1][level, places % n]
    else:
        means = [torch.unflatten(waves, 1, (cells, -1)).mean(2) for waves in every]  # (levels, cells, m)
        first = means[0].repeat_interleave(cells, 1).flatten(0, 1) * g[..., None]
        second = means[1].repeat(1, cells, 1).flatten(0, 1).expand(len(g), -1, -1)
    dx = first.mT @ second  # (Q, n_1, n_2)
    return torch.unflatten(dx.permute(1, 2, 0).contiguous(), -1, (batch, channels))


@constant
def level_waves(n: int, boundary: Boundary, *bands: int) -> Tensor:
    """Basis functions at ``n`` samples, for each level those within its band, ``(levels, n, m)``."""
    like = torch.float64, torch.device("cpu")
    full = synthesis_matrix(n, bands[-1], boundary, *like)
    return torch.stack([full * (frequencies(full.shape[1], *like) <= k) for k in bands])
