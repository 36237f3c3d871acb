"""The largest of a few numbers that lie at equal distances, in Triton: a maximum over scales, pooling of windows.

Numbers lie as ``(A, K, B, K', C)``; the maximum is over ``K`` and ``K'``. A byte tells which of at most eight were the
largest, for the gradient: autograd would keep all of the numbers, and compare each with the largest once more.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.kernels.triton_launch import on_its_device
from fourierscale.lab.baselines.parts.half import format_of

__all__ = ["largest_of_images", "largest_of_windows"]

BLOCK = 1024
Shape: TypeAlias = tuple[int, int, int, int, int]


def largest_of_images(x: Tensor, count: int) -> Tensor:
    """Images ``(count * B, C, H, W)`` to ``(B, C, H, W)``, the largest of each sample; equals share the gradient."""
    size = (len(x) // count, *x.shape[1:])
    y: Tensor = _Largest.apply(x, (1, count, 1, 1, x.numel() // count), size, True)
    return y


def largest_of_windows(x: Tensor, window: int) -> Tensor:
    """``MaxPool2d(window)`` of images whose sides are multiples of it; the first of equal ones has the gradient."""
    images, channels, height, width = x.shape
    down, across = height // window, width // window
    lines, ends = (images, channels) if format_of(x) is torch.channels_last else (images * channels, 1)
    shape = (lines * down, window, across, window, ends)
    y: Tensor = _Largest.apply(x, shape, (images, channels, down, across), False)
    return y


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: Shape, size: tuple[int, ...], share: bool) -> Tensor:
        ctx.format = format_of(x)
        ctx.shape, ctx.size = shape, x.shape
        y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=ctx.format)
        ctx.save_for_backward(largest_forward(x.contiguous(memory_format=ctx.format), y, shape, share))
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (which,) = ctx.saved_tensors
        dx = torch.empty(ctx.size, dtype=gradient.dtype, device=gradient.device, memory_format=ctx.format)
        largest_backward(gradient.contiguous(memory_format=ctx.format), which, dx, ctx.shape)
        return dx, None, None, None


@on_its_device
def largest_forward(x: Tensor, y: Tensor, shape: Shape, share: bool) -> Tensor:
    """Write the largest numbers to ``y``, ``(A, B, C)`` in memory, and return which they were.

    Args:
        x: Numbers that lie in memory as the shape says, whatever their own.
        y: As many as there are maxima.
        shape: ``(A, K, B, K', C)``, with ``K K'`` at most 8.
        share: Whether all of several equal ones are the largest, or the first of them.
    """
    _, rows, b, columns, c = shape
    which = torch.empty(y.numel(), dtype=torch.uint8, device=x.device)
    forward_kernel[(triton.cdiv(len(which), BLOCK),)](
        x, y, which, len(which), b, c, K1=rows, K2=columns, SHARE=share, BLOCK=BLOCK, num_warps=4
    )
    return which


@on_its_device
def largest_backward(gradient: Tensor, which: Tensor, dx: Tensor, shape: Shape) -> None:
    """Write the gradient of the numbers to ``dx``, which lies in memory as they do."""
    _, rows, b, columns, c = shape
    backward_kernel[(triton.cdiv(len(which), BLOCK),)](
        gradient, which, dx, len(which), b, c, K1=rows, K2=columns, BLOCK=BLOCK, num_warps=4
    )


@triton.jit
def _base(i, B, C, K1: tl.constexpr, K2: tl.constexpr):
    """Where the first of the numbers is."""
    c, b, a = i % C, i // C % B, i // C // B
    return (a * K1 * B + b) * K2 * C + c


@triton.jit
def forward_kernel(x, y, which, n, B, C, K1: tl.constexpr, K2: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = _base(i, B, C, K1, K2)
    best = tl.load(x + base, mask=i < n, other=0.0)
    bits = tl.full((BLOCK,), 1, tl.int32)
    for k in tl.static_range(1, K1 * K2):
        value = tl.load(x + base + (k // K2 * B * K2 + k % K2) * C, mask=i < n, other=0.0)
        above = (value > best) | (value != value)
        if SHARE:
            bits = tl.where(value == best, bits | (1 << k), bits)
        bits = tl.where(above, 1 << k, bits)
        best = tl.where(above, value, best)
    tl.store(y + i, best, mask=i < n)
    tl.store(which + i, bits.to(tl.uint8), mask=i < n)


@triton.jit
def backward_kernel(gradient, which, dx, n, B, C, K1: tl.constexpr, K2: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = _base(i, B, C, K1, K2)
    g = tl.load(gradient + i, mask=i < n, other=0.0).to(tl.float32)
    bits = tl.load(which + i, mask=i < n, other=1).to(tl.int32)
    count = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(K1 * K2):
        count += (bits >> k) & 1
    g = g / count.to(tl.float32)
    for k in tl.static_range(K1 * K2):
        there = ((bits >> k) & 1) == 1
        tl.store(dx + base + (k // K2 * B * K2 + k % K2) * C, tl.where(there, g, 0.0), mask=i < n)
