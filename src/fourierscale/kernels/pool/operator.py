"""The pooling of the head as the head calls it, and the operator of torch behind it.

Shapes are logical outside, ``(B, C, n_1, n_2)``, and frequency first inside the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from fourierscale import functional as F
from fourierscale.functional.bands import Boundary, Box, grids, period
from fourierscale.functional.nested import HeadPool, PoolKind
from fourierscale.kernels.choice import COMMON_GRID, fits_tiles, implementation
from fourierscale.kernels.layout import NoAutocast, frequency_first, is_chain
from fourierscale.kernels.pool import plain, products
from fourierscale.kernels.pool.task import decode
from fourierscale.kernels.products import by_products


def level_pool(
    coeffs: Tensor,
    boxes: Sequence[Box],
    window: int,
    cells: int,
    kind: HeadPool = "max",
    boundary: Boundary = "circular",
) -> Tensor:
    """Pooled samples of every level, for the head; see :func:`fourierscale.functional.level_pool`."""
    if kind == "both":
        each = (level_pool(coeffs, boxes, window, cells, one, boundary) for one in get_args(PoolKind))
        return torch.cat([*each], -1)
    n = window * cells
    side = max(n, *(1 + k for k in coeffs.shape[-2:]))
    fused = kind == "max" and boundary == "circular" and is_chain(boxes) and fits_tiles(coeffs, side, COMMON_GRID)
    engine = implementation(coeffs, fused=fused, plain=boundary == "circular")
    if engine == "torch" or not by_products(period(n, boundary), coeffs):
        return F.level_pool(coeffs, boxes, window, cells, kind, boundary)
    with NoAutocast(coeffs) as dtype:
        x = frequency_first(coeffs.to(dtype), 2)
        if engine == "plain":
            return plain.level_pool(x, boxes, window, cells, kind)
        places = kind == "max" and torch.is_grad_enabled() and x.requires_grad  # for the backward pass alone
        task = f"({engine!r}, {tuple(boxes)!r}, {window!r}, {cells!r}, {kind!r}, {boundary!r}, {places!r})"
        pooled: Tensor = pool(x, task)[0]
    return pooled


@torch.library.custom_op("fourierscale::level_pool", mutates_args=())
def pool(x: Tensor, task: str) -> tuple[Tensor, Tensor]:
    """Pooled samples of every level, ``(B, levels, C * cells^2)``, and the places of the maxima if they are wanted."""
    return _engine(task).pool_forward(x, decode(task))  # type: ignore[no-any-return]


@pool.register_fake
def _(x: Tensor, task: str) -> tuple[Tensor, Tensor]:
    batch, channels = x.shape[2:]
    wanted = decode(task)
    levels, cells = len(wanted.boxes), wanted.cells**2
    places = x.new_empty((batch * channels, levels * cells if wanted.places else 0), dtype=torch.int64)
    return x.new_empty(batch, levels, channels * cells), places


@torch.library.custom_op("fourierscale::level_pool_backward", mutates_args=())
def pool_backward(gradient: Tensor, places: Tensor, channels: int, task: str) -> Tensor:
    """Gradient of the coefficients."""
    return _engine(task).pool_backward(gradient, places, channels, decode(task))  # type: ignore[no-any-return]


@pool_backward.register_fake
def _(gradient: Tensor, places: Tensor, channels: int, task: str) -> Tensor:
    return gradient.new_empty(*grids(decode(task).boxes[-1]), gradient.shape[0], channels)


def _engine(task: str) -> Any:
    """The module that has ``pool_forward`` and ``pool_backward``."""
    if decode(task).engine != "triton":
        return products
    from fourierscale.kernels.pool import triton_pool

    return triton_pool


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, ctx.task = inputs
    ctx.channels = x.shape[-1]
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor, None]:
    (places,) = ctx.saved_tensors
    if torch.is_grad_enabled():  # the operator has no derivative of its own, its parts have one
        return products.pool_backward(gradient, places, ctx.channels, decode(ctx.task)), None
    return pool_backward(gradient.contiguous(), places, ctx.channels, ctx.task), None


pool.register_autograd(_gradient, setup_context=_setup)
