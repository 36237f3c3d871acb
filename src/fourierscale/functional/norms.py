"""What stands in front of an activation: a norm of each image, or a scale and a shift of each level and channel.

Both work on coefficients, level by level, and use of a level what is in it alone: so the nested map stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import Box
from fourierscale.functional.resample import corner


@dataclass(frozen=True, eq=False)
class InstanceNorm:
    """The norm in front of an activation, with statistics of each image and level of its own."""

    weight: Tensor | None = None
    """Scale per level and channel, ``(len(levels), C)``."""
    bias: Tensor | None = None
    """Shift, likewise."""
    eps: float = 1e-5
    """Added to the variance."""


@dataclass(frozen=True, eq=False)
class LevelAffine:
    """A scale and a shift of each level and channel, the same for all images.

    A batch norm is one: its statistics, :func:`level_moments` of a batch or running averages, belong to no image.
    """

    scale: Tensor
    """Per level and channel, ``(len(levels), C)``."""
    shift: Tensor
    """Added to the samples, likewise."""


def level_moments(coeffs: Tensor, boxes: Sequence[Box]) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of every channel over the images of a batch, for each level, by Parseval.

    .. math:: \mu_i = \operatorname{mean}_b C_b[0], \qquad
        v_i = \operatorname{mean}_b \Big( \sum_{0 < |k|_\infty \le K_i} C_b[k]^2 + (C_b[0] - \mu_i)^2 \Big)

    These are the moments of the samples of the level on any grid that holds it. No mean is subtracted from samples:
    nothing cancels when it is large.

    Args:
        coeffs: ``(..., C, 2K_1+1, ..., 2K_d+1)``.
        boxes: The bands of the levels.

    Returns:
        Mean and variance, ``(levels, C)`` each, in single precision at least.

    >>> x = torch.randn(4, 2, 9, 9)
    >>> mean, variance = level_moments(x, [(1, 1), (4, 4)])
    >>> mean.shape, torch.allclose(mean[0], x[..., 0, 0].mean(0))
    (torch.Size([2, 2]), True)
    """
    axes = len(boxes[0])
    if coeffs.ndim <= axes:
        raise ValueError(f"coefficients need a channel axis before {axes} frequency axes, got {tuple(coeffs.shape)}")
    dtype = torch.float32 if coeffs.dtype in (torch.float16, torch.bfloat16) else coeffs.dtype
    images = coeffs.reshape(-1, *coeffs.shape[-axes - 1 :])
    zero: Any = (slice(None), *(0,) * axes)
    means = images[(slice(None), *zero)].to(dtype)  # (B, C)
    mean = means.mean(0)
    power = torch.sum(images * images, 0, dtype=dtype)  # (C, 2K_1+1, ...)
    power[zero] = (means - mean).square().sum(0)
    variance = torch.stack([power[corner(box)].flatten(1).sum(1) for box in boxes]) / len(images)
    return mean.expand(len(boxes), -1), variance


def normalise(coeffs: Tensor, axes: int, row: int, norm: InstanceNorm | LevelAffine | None) -> Tensor:
    """What a level reads, ``(..., C, n_1, ..., n_d)``, behind the norm, with parameters of this row."""
    if norm is None:
        return coeffs
    dtype = torch.float32 if coeffs.dtype in (torch.float16, torch.bfloat16) else coeffs.dtype
    flat = coeffs.flatten(-axes).to(dtype)
    mean, waves = flat[..., :1], flat[..., 1:]
    if isinstance(norm, LevelAffine):
        scale = norm.scale[row][:, None]
        mean = mean * scale + norm.shift[row][:, None]
    else:
        # The mean is one coefficient and is replaced, not subtracted from samples: nothing cancels when it is large.
        variance = waves.square().sum(-1, keepdim=True)
        scale = (variance + norm.eps).rsqrt() + 0 * variance  # NaN where squares overflow, and no answer of zeros
        if norm.weight is not None:
            scale = scale * norm.weight[row][:, None]
        mean = torch.zeros_like(mean)
        if norm.bias is not None:
            mean = mean + norm.bias[row][:, None]
    return torch.unflatten(torch.cat([mean, waves * scale], -1).to(coeffs.dtype), -1, coeffs.shape[-axes:])
