"""Moments of the levels over a batch, for batch norms: the fast twin of :func:`fourierscale.functional.level_moments`.

The sum of squares over the images is an operator of its own, because its gradient is one product, frequency first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fourierscale import functional as F
from fourierscale.functional.bands import Box, grids
from fourierscale.kernels.choice import implementation
from fourierscale.kernels.layout import frequency_first

AT_ONCE = 2**18
"""Coefficients that are squared at a time, so that the squares stay in the cache."""


def level_moments(coeffs: Tensor, boxes: Sequence[Box]) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel over a batch, ``(levels, C)``, for each level."""
    axes = len(boxes[0])
    if implementation(coeffs) in ("torch", "plain") or coeffs.ndim <= axes:
        return F.level_moments(coeffs, boxes)
    x = frequency_first(coeffs, axes)
    means = x[(0,) * axes].to(_accurate(x))  # (B, C)
    mean = means.mean(0)
    whole = power(x)  # (n_1, ..., n_d, C)
    spread = (means - mean).square().sum(0)
    every = tuple(range(axes))
    sums = [whole[tuple(slice(0, n) for n in grids(box))].sum(every) for box in boxes]
    return mean.expand(len(boxes), -1), (torch.stack(sums) + spread) / x.shape[-2]


@torch.library.custom_op("fourierscale::power", mutates_args=())
def power(x: Tensor) -> Tensor:
    """Sum of squares over the images, ``(n_1, ..., n_d, B, C)`` to ``(n_1, ..., n_d, C)``; zero for the mean."""
    flat = x.flatten(0, -3)
    output = flat.new_empty(len(flat), x.shape[-1], dtype=_accurate(x))
    step = max(1, AT_ONCE // max(1, x.shape[-2] * x.shape[-1]))
    for start in range(0, len(flat), step):
        part = flat[start : start + step]
        torch.sum(part * part, 1, dtype=output.dtype, out=output[start : start + step])
    output[0] = 0
    return output.view(*x.shape[:-2], x.shape[-1])


@power.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-2], x.shape[-1], dtype=_accurate(x))


def _setup(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradient(ctx: Any, gradient: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    twice = (2 * gradient).to(x.dtype).flatten(0, -2)
    twice = torch.cat([torch.zeros_like(twice[:1]), twice[1:]]).view(gradient.shape)
    slope: Tensor = twice[..., None, :] * x
    return slope


power.register_autograd(_gradient, setup_context=_setup)


def _accurate(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
