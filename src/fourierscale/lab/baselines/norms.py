"""Batch norm, ReLU and dropout, which the blocks of residual nets have in front of every convolution.

In half precision on GPUs they are one pass of a kernel each way, which keeps nothing but its input: these steps move
numbers and hardly compute, and one by one they take longer than the convolutions of some baselines.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.half import format_of, fused
from fourierscale.lab.baselines.scales import each_scale

__all__ = ["norm_relu"]


def norm_relu(norm: nn.Module, x: Tensor, dropout: nn.Dropout | None = None) -> Tensor:
    """Batch norm, ReLU and dropout of images or of features with scales.

    >>> norm_relu(nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4), nn.Dropout(0.5)).min()
    tensor(0., grad_fn=<MinBackward1>)
    """
    assert isinstance(norm, nn.BatchNorm2d)
    share = dropout.p if dropout is not None and dropout.training else 0.0
    if norm.affine and fused(x):
        if norm.training and share < 1 and x.numel() > x.shape[1]:
            return each_scale(lambda images: fused_norm_relu(norm, images, share), x)
        if not norm.training and norm.track_running_stats and not share and not torch.is_grad_enabled():
            return each_scale(lambda images: fused_scale_relu(norm, images), x)
    y = nn.functional.relu(norm(x))
    return dropout(y) if dropout is not None else y


def fused_norm_relu(norm: nn.BatchNorm2d, x: Tensor, dropout: float) -> Tensor:
    """In training, by the kernels; moves the norm's averages as the norm does."""
    x = x.contiguous(memory_format=format_of(x))
    y, mean, variance = _NormRelu.apply(x, norm.weight, norm.bias, norm.eps, dropout)  # type: ignore[no-untyped-call]
    if norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None:
        samples = x.numel() // x.shape[1]
        with torch.no_grad():
            norm.num_batches_tracked += 1
            share = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
            norm.running_mean += share * (mean - norm.running_mean)
            norm.running_var += share * (variance * (samples / (samples - 1)) - norm.running_var)
    result: Tensor = y
    return result


def fused_scale_relu(norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """In evaluation, by a kernel: the norm with its averages, and ReLU."""
    from fourierscale.lab.baselines.kernels import norms

    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    x = x.contiguous(memory_format=format_of(x))
    return norms.scale_relu(x, scale, norm.bias - norm.running_mean * scale, 0.0, scale)


class _NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, dropout: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        from fourierscale.lab.baselines.kernels import norms

        mean, variance = norms.statistics(x)
        inverse = (variance + eps).rsqrt()
        scale = weight * inverse
        shift = bias - mean * scale
        seed = torch.randint(2**32, (1,), device=x.device) if dropout else scale  # the kernel reads it unused
        ctx.save_for_backward(x, mean, inverse, scale, shift, seed)
        ctx.dropout = dropout
        ctx.mark_non_differentiable(mean, variance)
        return norms.scale_relu(x, scale, shift, dropout, seed), mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        from fourierscale.lab.baselines.kernels import norms

        x, mean, inverse, scale, shift, seed = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=format_of(x))
        total, product = norms.scale_relu_sums(x, gradient, mean, scale, shift, ctx.dropout, seed)
        samples = x.numel() // x.shape[1]
        slope = -scale * inverse.square() * product / samples
        constant = -scale * total / samples - slope * mean
        dx = norms.scale_relu_backward(x, gradient, scale, shift, slope, constant, ctx.dropout, seed)
        return dx, product * inverse, total, None, None
