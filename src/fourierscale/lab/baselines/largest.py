"""Maxima in half precision on GPUs, by a kernel that remembers in a byte which of a few numbers was the largest.

Autograd would keep all of the numbers, and compare each with the largest once more.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

from fourierscale.lab.baselines.half import format_of

__all__ = ["CHOICES", "largest_of_images", "largest_of_windows"]

CHOICES = 8
"""Numbers to choose from: a bit of the byte for each."""
Shape: TypeAlias = tuple[int, int, int, int, int]


def largest_of_images(x: Tensor, count: int) -> Tensor:
    """Images ``(count * B, C, H, W)`` to ``(B, C, H, W)``, the largest of each sample; equals share the gradient."""
    size = (len(x) // count, *x.shape[1:])
    y: Tensor = _Largest.apply(x, (1, count, 1, 1, x.numel() // count), size, True)  # type: ignore[no-untyped-call]
    return y


def largest_of_windows(x: Tensor, window: int) -> Tensor:
    """``MaxPool2d(window)`` of images whose sides are multiples of it; the first of equal ones has the gradient."""
    images, channels, height, width = x.shape
    down, across = height // window, width // window
    lines, ends = (images, channels) if format_of(x) is torch.channels_last else (images * channels, 1)
    shape = (lines * down, window, across, window, ends)
    y: Tensor = _Largest.apply(x, shape, (images, channels, down, across), False)  # type: ignore[no-untyped-call]
    return y


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: Shape, size: tuple[int, ...], share: bool) -> Tensor:
        from fourierscale.lab.baselines.kernels.largest import largest_forward

        ctx.format = format_of(x)
        ctx.shape, ctx.size = shape, x.shape
        y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=ctx.format)
        ctx.save_for_backward(largest_forward(x.contiguous(memory_format=ctx.format), y, shape, share))
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from fourierscale.lab.baselines.kernels.largest import largest_backward

        (which,) = ctx.saved_tensors
        dx = torch.empty(ctx.size, dtype=gradient.dtype, device=gradient.device, memory_format=ctx.format)
        largest_backward(gradient.contiguous(memory_format=ctx.format), which, dx, ctx.shape)
        return dx, None, None, None
