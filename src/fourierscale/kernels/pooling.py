r"""The pooling of the head, all levels at once: the fast twin of :func:`fourierscale.functional.level_pool`.

Every level is sampled on the same grid, ``cells`` windows of ``window`` samples per axis, and each window gives one
number. For the maximum, the place of each window's largest sample is kept, so that the backward pass needs no
samples: the gradient of a coefficient is a sum over the windows,

.. math:: \frac{\partial}{\partial C[i, j]} = \sum_{w} g_w \, b_i(s_w) \, b_j(t_w)

one small product per channel for all levels and windows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fourierscale.functional.bands import Boundary, Box, grids
from fourierscale.functional.constants import constant
from fourierscale.functional.nested import PoolKind
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.products import chain, contiguous, pieces, run, share_count, shares, workspace


def pool_forward(
    x: Tensor,
    boxes: Sequence[Box],
    window: int,
    cells: int,
    kind: PoolKind,
    boundary: Boundary = "circular",
    with_places: bool = True,
) -> tuple[Tensor, Tensor]:
    """Pooled samples ``(B, levels, C * cells^2)``, and the place of each maximum ``(B * C, levels * cells^2)``.

    A place is ``row * n + column`` on the grid of ``n = window * cells`` samples per axis; without places there are
    none, ``(B * C, 0)``.
    """
    n = window * cells
    batch, channels = x.shape[2:]
    flat = x.flatten(2)
    pooled = flat.new_empty(flat.shape[-1], len(boxes), cells, cells)
    shape = pooled.shape if with_places and kind == "max" else (flat.shape[-1], 0)
    places = torch.empty(shape, dtype=torch.int64, device=x.device)
    corner = torch.arange(0, n, window, device=x.device)
    for part in pieces(flat, n * n):
        spaces = workspace(flat, part, max(n, flat.shape[0]) * max(n, flat.shape[1]), 2)
        coeffs = shares(flat, part, share_count(part.stop - part.start, n * n, x.device))
        for i, box in enumerate(boxes):
            rows, columns = grids(box)
            matrices = [synthesis_matrix(n, k, boundary, x.dtype, x.device) for k in box]
            c = contiguous(spaces[1], (len(coeffs), rows, columns, coeffs.shape[-1])).copy_(coeffs[:, :rows, :columns])
            products, grid = chain(list(enumerate(matrices)), c.shape)
            z = contiguous(run(products, c, *spaces), grid)  # (S, n, n, q)
            z = z.view(-1, cells, window, cells, window, z.shape[-1])
            if kind == "average":
                pooled[part, i] = _joined(z.mean((2, 4)))
                continue
            if not with_places:
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
    output = pooled.reshape(batch, channels, len(boxes), -1).transpose(1, 2).reshape(batch, len(boxes), -1)
    return output, places.flatten(1)


def _joined(x: Tensor) -> Tensor:
    """The shares of a piece ``(S, cells, cells, q)`` as ``(Q, cells, cells)``."""
    return x.movedim(-1, 1).flatten(0, 1)


def pool_backward(
    gradient: Tensor,
    places: Tensor,
    boxes: Sequence[Box],
    window: int,
    cells: int,
    kind: PoolKind,
    boundary: Boundary,
    channels: int,
) -> Tensor:
    """Gradient of the coefficients, ``(n_1, n_2, B, C)``, from ``(B, levels, C * cells^2)``."""
    n, levels = window * cells, len(boxes)
    batch = gradient.shape[0]
    g = gradient.reshape(batch, levels, channels, cells**2).transpose(1, 2).reshape(-1, levels * cells**2)
    like = boundary, gradient.dtype, gradient.device
    if kind == "max":
        waves = [_waves(n, [box[axis] for box in boxes], *like) for axis in range(2)]
        level = torch.arange(levels * cells**2, device=gradient.device) // cells**2
        first = waves[0][level, places // n] * g[..., None]  # (Q, levels * cells^2, n_1)
        second = waves[1][level, places % n]
    else:
        means = [
            _window_means(n, [box[axis] for box in boxes], cells, *like) for axis in range(2)
        ]  # (levels, cells, m)
        first = means[0].repeat_interleave(cells, 1).flatten(0, 1) * g[..., None]
        second = means[1].repeat(1, cells, 1).flatten(0, 1).expand(len(g), -1, -1)
    dx = first.mT @ second  # (Q, n_1, n_2)
    return torch.unflatten(dx.permute(1, 2, 0).contiguous(), -1, (batch, channels))


def _waves(n: int, bands: list[int], boundary: Boundary, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The basis at each sample, zero beyond each level's band, ``(levels, n, m)``."""
    return level_waves(n, boundary, *bands, dtype, device)


def _window_means(
    n: int, bands: list[int], cells: int, boundary: Boundary, dtype: torch.dtype, device: torch.device
) -> Tensor:
    return torch.unflatten(_waves(n, bands, boundary, dtype, device), 1, (cells, -1)).mean(2)


@constant
def level_waves(n: int, boundary: Boundary, *bands: int) -> Tensor:
    """Basis functions at ``n`` samples, for each level those within its band, ``(levels, n, m)``."""
    full = synthesis_matrix(n, bands[-1], boundary, torch.float64, torch.device("cpu"))
    frequency = (torch.arange(full.shape[1]) + 1) // 2
    return torch.stack([full * (frequency <= k) for k in bands])
