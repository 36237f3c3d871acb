"""The pooling of the head for programs that leave PyTorch: a few products per level; see :mod:`..conv.plain`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.nested import PoolKind
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.products import down, pool_windows


def level_pool(x: Tensor, boxes: Sequence[Box], window: int, cells: int, kind: PoolKind) -> Tensor:
    """Pooled samples of every level, ``(B, levels, C * cells^2)``; see :func:`fourierscale.functional.level_pool`."""
    n = window * cells
    flat = x.flatten(2)
    pooled = []
    for box in boxes:
        rows, columns = (synthesis_matrix(n, k, x.dtype, x.device) for k in box)
        height, width = grids(box)
        pooled.append(pool_windows(columns @ down(rows, flat[:height, :width]), window, kind))
    every = torch.unflatten(torch.stack(pooled), -1, x.shape[2:])  # (levels, cells, cells, B, C)
    return every.permute(3, 0, 4, 1, 2).flatten(2)
