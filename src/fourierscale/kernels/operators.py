"""The nested activation and the pooling of the head as operators of torch: shapes, gradients, ``torch.compile``.

Tensors are frequency first, ``(n_1, ..., n_d, B, C)``; levels are flat lists of ints, as operators take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.nested import ACTIVATIONS, Level, PoolKind, activate_levels
from fourierscale.kernels.nested import nested_backward, nested_forward
from fourierscale.kernels.plans import Options, decode
from fourierscale.kernels.pooling import pool_backward, pool_forward


def _triton(levels: Sequence[Level]) -> Any:
    """The kernels for these levels: on one grid for all of them, or on one of their own each."""
    from fourierscale.kernels.gpu import common_grid, level_grids

    return common_grid if len({level.grid for level in levels}) == 1 else level_grids


@torch.library.custom_op("fourierscale::nested_activation", mutates_args=())
def nested_activation(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    plan: Sequence[int],
    activation: str,
    norm: bool,
    eps: float,
    pool: int,
    pool_kind: str,
    engine: str,
) -> Tensor:
    """Norm, activation and pooling of every level; ``engine`` is ``"gemm"`` or ``"triton"``."""
    options = Options(activation, norm, eps, pool, pool_kind)  # type: ignore[arg-type]
    levels = decode(tuple(plan), x.ndim - 2)
    if engine == "triton":
        return _triton(levels).nested_forward(x, weight, bias, levels, options)  # type: ignore[no-any-return]
    return nested_forward(x, weight, bias, levels, options)


@nested_activation.register_fake
def _(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    plan: Sequence[int],
    activation: str,
    norm: bool,
    eps: float,
    pool: int,
    pool_kind: str,
    engine: str,
) -> Tensor:
    axes = x.ndim - 2
    return x.new_empty(*grids(decode(tuple(plan), axes)[-1].writes), *x.shape[axes:])


@torch.library.custom_op("fourierscale::nested_activation_backward", mutates_args=())
def nested_activation_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    plan: Sequence[int],
    activation: str,
    norm: bool,
    eps: float,
    pool: int,
    pool_kind: str,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``x``, ``weight`` and ``bias``, empty where there is none."""
    options = Options(activation, norm, eps, pool, pool_kind)  # type: ignore[arg-type]
    levels = decode(tuple(plan), x.ndim - 2)
    if engine == "triton":
        return _triton(levels).nested_backward(gradient, x, weight, bias, levels, options)  # type: ignore[no-any-return]
    return nested_backward(gradient, x, weight, bias, levels, options)


@nested_activation_backward.register_fake
def _(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    plan: Sequence[int],
    activation: str,
    norm: bool,
    eps: float,
    pool: int,
    pool_kind: str,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(x),
        x.new_empty(0) if weight is None else torch.empty_like(weight),
        x.new_empty(0) if bias is None else torch.empty_like(bias),
    )


def _nested_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, *rest = inputs
    ctx.save_for_backward(x, weight, bias)
    ctx.rest = rest


def _nested_gradient(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, weight, bias = ctx.saved_tensors
    if torch.is_grad_enabled():  # a second derivative is wanted: through the specification, which has one
        gradients = _by_specification(gradient, x, weight, bias, *ctx.rest)
    else:
        gradients = nested_activation_backward(gradient.contiguous(), x, weight, bias, *ctx.rest)
    dx, d_weight, d_bias = gradients
    return dx, None if weight is None else d_weight, None if bias is None else d_bias, *[None] * len(ctx.rest)


def _by_specification(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    plan: Sequence[int],
    activation: str,
    norm: bool,
    eps: float,
    pool: int,
    pool_kind: PoolKind,
    engine: str,
) -> tuple[Any, ...]:
    axes = x.ndim - 2
    levels = decode(tuple(plan), axes)
    y = activate_levels(
        x.permute(axes, axes + 1, *range(axes)),
        levels,
        ACTIVATIONS[activation],
        axes=axes,
        weight=weight,
        bias=bias,
        norm=norm,
        eps=eps,
        pool=pool,
        pool_kind=pool_kind,
    )
    inputs = [t for t in (x, weight, bias) if t is not None]
    gradients = iter(
        torch.autograd.grad(y.permute(*range(2, y.ndim), 0, 1), inputs, gradient, create_graph=True, allow_unused=True)
    )
    return tuple(None if t is None else next(gradients) for t in (x, weight, bias))


nested_activation.register_autograd(_nested_gradient, setup_context=_nested_setup)


@torch.library.custom_op("fourierscale::level_pool", mutates_args=())
def level_pool(
    x: Tensor, bands: Sequence[int], window: int, cells: int, kind: str, boundary: str, places: bool, engine: str
) -> tuple[Tensor, Tensor]:
    """Pooled samples of every level, ``(B, levels, C * cells^2)``, and the places of the maxima if they are wanted."""
    boxes = pairs(bands)
    if engine == "triton":
        from fourierscale.kernels.gpu import head

        pooled, where = head.pool_forward(x, tuple(boxes), window, cells)
        return pooled, where if places else where.new_empty(len(where), 0)
    return pool_forward(x, boxes, window, cells, kind, boundary, places)  # type: ignore[arg-type]


@level_pool.register_fake
def _(
    x: Tensor, bands: Sequence[int], window: int, cells: int, kind: str, boundary: str, places: bool, engine: str
) -> tuple[Tensor, Tensor]:
    batch, channels = x.shape[2:]
    levels = len(bands) // 2
    shape = (batch * channels, levels * cells**2 if places and kind == "max" else 0)
    return x.new_empty(batch, levels, channels * cells**2), x.new_empty(shape, dtype=torch.int64)


@torch.library.custom_op("fourierscale::level_pool_backward", mutates_args=())
def level_pool_backward(
    gradient: Tensor,
    places: Tensor,
    bands: Sequence[int],
    window: int,
    cells: int,
    kind: str,
    boundary: str,
    channels: int,
    engine: str,
) -> Tensor:
    """Gradient of the coefficients."""
    if engine == "triton":
        from fourierscale.kernels.gpu import head

        return head.pool_backward(gradient, places, tuple(pairs(bands)), window, cells, channels)
    return pool_backward(gradient, places, pairs(bands), window, cells, kind, boundary, channels)  # type: ignore[arg-type]


@level_pool_backward.register_fake
def _(
    gradient: Tensor,
    places: Tensor,
    bands: Sequence[int],
    window: int,
    cells: int,
    kind: str,
    boundary: str,
    channels: int,
    engine: str,
) -> Tensor:
    return gradient.new_empty(*grids(pairs(bands)[-1]), gradient.shape[0], channels)


def _pool_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, ctx.bands, ctx.window, ctx.cells, ctx.kind, ctx.boundary, _, ctx.engine = inputs
    ctx.channels = x.shape[-1]
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _pool_gradient(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    (places,) = ctx.saved_tensors
    rest = ctx.window, ctx.cells, ctx.kind, ctx.boundary, ctx.channels
    if torch.is_grad_enabled():  # the operator has no derivative of its own, its parts have one
        dx = pool_backward(gradient, places, pairs(ctx.bands), *rest)
    else:
        dx = level_pool_backward(gradient.contiguous(), places, ctx.bands, *rest, ctx.engine)
    return dx, None, None, None, None, None, None, None


level_pool.register_autograd(_pool_gradient, setup_context=_pool_setup)


def pairs(bands: Sequence[int]) -> list[Box]:
    """Boxes from a flat list."""
    return list(zip(bands[::2], bands[1::2], strict=True))
