"""The nested activation as the layers call it, and the operator of torch behind it.

Shapes are logical outside, ``(..., C, n_1, ..., n_d)``, and frequency first inside the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import coefficient_bands, grids
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import Grid, Pooling, PoolKind, activate_levels
from fourierscale.functional.norms import InstanceNorm, LevelAffine
from fourierscale.kernels.layout import NoAutocast, channel_first, frequency_first
from fourierscale.kernels.nested import plain, products
from fourierscale.kernels.nested.activations import ACTIVATIONS, name_of
from fourierscale.kernels.nested.task import choose_route, decode, encode, make_plan


def nested_activation(
    coeffs: Tensor,
    levels: Resolutions,
    activation: str | Callable[[Tensor], Tensor],
    *,
    axes: int = 2,
    norm: InstanceNorm | LevelAffine | None = None,
    pool: Pooling | None = None,
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    """Norm, activation and pooling of every level; see :func:`fourierscale.functional.nested_activation`.

    An activation of :data:`ACTIVATIONS`, given by its name or itself, has a fast implementation; any other callable
    runs as the specification does.
    """
    pool = pool or Pooling()
    plan = make_plan(Levels(levels), coefficient_bands(coeffs, axes), pool.window, grid, oversample)
    name = name_of(activation)
    route = choose_route(coeffs, plan, name, pool.window, isinstance(norm, LevelAffine))
    if name is None or route == "specification":
        function = ACTIVATIONS[activation].function if isinstance(activation, str) else activation
        return activate_levels(coeffs, plan.levels, function, norm, pool)
    text = encode(route, name, norm, pool, plan)
    weight, bias = _parameters(norm)
    with NoAutocast(coeffs) as dtype:
        x = frequency_first(coeffs.to(dtype), axes)
        if route == "plain":
            y = plain.nested_activation(x, weight, bias, decode(text))
        else:
            y = activate(x, weight, bias, text)
        return channel_first(y, coeffs.shape[: -axes - 1])


def _parameters(norm: InstanceNorm | LevelAffine | None) -> tuple[Tensor | None, Tensor | None]:
    if isinstance(norm, LevelAffine):
        return norm.scale, norm.shift
    return (None, None) if norm is None else (norm.weight, norm.bias)


def nested_pool(
    coeffs: Tensor,
    levels: Resolutions,
    window: int,
    kind: PoolKind = "max",
    *,
    axes: int = 2,
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    """Scale-equivariant pooling; see :func:`fourierscale.functional.nested_pool`."""
    pool = Pooling(window, kind)
    return nested_activation(coeffs, levels, "identity", axes=axes, pool=pool, grid=grid, oversample=oversample)


@torch.library.custom_op("fourierscale::nested_activation", mutates_args=())
def activate(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: str) -> Tensor:
    """Coefficients, frequency first, ``(n_1, ..., n_d, B, C)`` to ``(n'_1, ..., n'_d, B, C)``."""
    return _engine(task).nested_forward(x, weight, bias, decode(task))  # type: ignore[no-any-return]


@activate.register_fake
def _(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: str) -> Tensor:
    return x.new_empty(*grids(decode(task).levels[-1].writes), *x.shape[-2:])


@torch.library.custom_op("fourierscale::nested_activation_backward", mutates_args=())
def activate_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, task: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``x``, ``weight`` and ``bias``, empty where there is none."""
    return _engine(task).nested_backward(gradient, x, weight, bias, decode(task))  # type: ignore[no-any-return]


@activate_backward.register_fake
def _(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, task: str
) -> tuple[Tensor, Tensor, Tensor]:
    d_weight, d_bias = (x.new_empty(0) if t is None else torch.empty_like(t) for t in (weight, bias))
    return torch.empty_like(x), d_weight, d_bias


def _engine(task: str) -> Any:
    """The module that has ``nested_forward`` and ``nested_backward`` for the route of a task."""
    route = decode(task).route
    if route == "products":
        return products
    from fourierscale.kernels.nested import triton_common_grid, triton_level_grids

    return triton_common_grid if route == "common grid" else triton_level_grids


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.task = inputs
    ctx.save_for_backward(x, weight, bias)


def _gradient(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, weight, bias = ctx.saved_tensors
    if torch.is_grad_enabled():  # a second derivative is wanted: through the specification, which has one
        dx, d_weight, d_bias = _by_specification(gradient, x, weight, bias, ctx.task)
    else:
        dx, d_weight, d_bias = activate_backward(gradient.contiguous(), x, weight, bias, ctx.task)
    return dx, None if weight is None else d_weight, None if bias is None else d_bias, None


def _by_specification(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, text: str
) -> tuple[Any, ...]:
    task = decode(text)
    norm: InstanceNorm | LevelAffine | None = None if task.eps is None else InstanceNorm(weight, bias, task.eps)
    if weight is not None and bias is not None and task.affine:
        norm = LevelAffine(weight, bias)
    coeffs = channel_first(x, x.shape[-2:-1])
    y = activate_levels(coeffs, task.levels, ACTIVATIONS[task.activation].function, norm, task.pool)
    inputs = [t for t in (x, weight, bias) if t is not None]
    y = y.permute(*range(2, y.ndim), 0, 1)
    gradients = iter(torch.autograd.grad(y, inputs, gradient, create_graph=True, allow_unused=True))
    return tuple(None if t is None else next(gradients) for t in (x, weight, bias))


activate.register_autograd(_gradient, setup_context=_setup)
