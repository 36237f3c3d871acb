"""Batch norm, ReLU and dropout of a training pass in one, in Triton: what the blocks of residual nets spend time on.

Images lie channels last or channels first in memory. Both are matrices whose columns are channels: all samples of all
images by ``C``, or, one for each plane of an image, ``L`` samples by one. A program goes down some rows of some
columns. Statistics are taken in float32, part by part, about the first sample of each part. What dropout keeps is a
hash of a seed and of the sample's place, so nothing is stored for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from fourierscale.kernels.triton_launch import on_its_device
from fourierscale.lab.baselines.parts.half import format_of

__all__ = ["fused_norm_relu", "fused_scale_relu"]

ROWS = 1024
"""Rows that a program goes down, of images that lie channels last."""


def fused_norm_relu(norm: nn.BatchNorm2d, x: Tensor, dropout: float) -> Tensor:
    """The norm in training, ReLU and dropout; the norm's averages move as the norm moves them."""
    x = x.contiguous(memory_format=format_of(x))
    y, mean, variance = _NormRelu.apply(x, norm.weight, norm.bias, norm.eps, dropout)
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
    """The norm in evaluation, with its averages, and ReLU."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    x = x.contiguous(memory_format=format_of(x))
    return scale_relu(x, scale, norm.bias - norm.running_mean * scale, 0.0, scale)


class _NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, dropout: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = statistics(x)
        inverse = (variance + eps).rsqrt()
        scale = weight * inverse
        shift = bias - mean * scale
        seed = torch.randint(2**32, (1,), device=x.device) if dropout else scale  # the kernel reads it unused
        ctx.save_for_backward(x, mean, inverse, scale, shift, seed)
        ctx.dropout = dropout
        ctx.mark_non_differentiable(mean, variance)
        return scale_relu(x, scale, shift, dropout, seed), mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, inverse, scale, shift, seed = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=format_of(x))
        total, product = scale_relu_sums(x, gradient, mean, scale, shift, ctx.dropout, seed)
        samples = x.numel() // x.shape[1]
        slope = -scale * inverse.square() * product / samples
        constant = -scale * total / samples - slope * mean
        dx = scale_relu_backward(x, gradient, scale, shift, slope, constant, ctx.dropout, seed)
        return dx, product * inverse, total, None, None


@dataclass(frozen=True)
class Layout:
    """How images ``(N, C, H, W)`` lie in memory, and how programs share them.

    Attributes:
        channels: ``C``.
        rows: Rows of a matrix.
        last: Whether channels come last; else each plane is a matrix.
        parts: Programs down the rows, or planes.
        samples: Samples of each channel.
    """

    channels: int
    rows: int
    last: bool
    parts: int
    samples: int

    @property
    def columns(self) -> int:
        """Columns of a program."""
        return min(64, triton.next_power_of_2(self.channels)) if self.last else 1

    @property
    def grid(self) -> tuple[int, int]:
        """Number of programs along the parts and the columns."""
        return self.parts, triton.cdiv(self.channels, self.columns) if self.last else 1

    def options(self) -> dict[str, Any]:
        """Arguments that all kernels take."""
        rows = 4096 // self.columns if self.last else 1024  # a step
        rows = min(rows, triton.next_power_of_2(self.rows), ROWS)
        return {
            "C": self.channels,
            "R": self.rows,
            "LAST": self.last,
            "ROWS": ROWS if self.last else triton.cdiv(self.rows, rows) * rows,
            "BM": rows,
            "BC": self.columns,
            "num_warps": 4,
        }

    def counts(self, like: Tensor) -> Tensor:
        """Samples of a channel in each part of :meth:`partial`, ``(parts, 1)``."""
        if not self.last:
            return torch.full((self.parts // self.channels, 1), float(self.rows), device=like.device)
        counts = torch.full((self.parts, 1), float(ROWS), device=like.device)
        counts[-1] = self.rows - (self.parts - 1) * ROWS
        return counts

    def partial(self, like: Tensor) -> Tensor:
        """Memory for two numbers of each channel and part, ``(2, parts, C)``."""
        parts = self.parts if self.last else self.parts // self.channels
        return torch.empty(2, parts, self.channels, dtype=torch.float32, device=like.device)


def layout_of(x: Tensor) -> Layout:
    """The layout of images that are contiguous, or else are with channels last."""
    images, channels, height, width = x.shape
    samples = images * height * width
    if not x.is_contiguous():
        return Layout(channels, samples, True, triton.cdiv(samples, ROWS), samples)
    return Layout(channels, height * width, False, images * channels, samples)


@on_its_device
def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance of each channel of images ``(N, C, H, W)``, in float32."""
    layout = layout_of(x)
    means, squares = parts = layout.partial(x)
    statistics_kernel[layout.grid](x, parts, parts.stride(0), **layout.options())
    counts = layout.counts(x)
    mean = (means * counts).sum(0) / layout.samples
    variance = (squares + counts * (means - mean).square()).sum(0) / layout.samples
    return mean, variance


@on_its_device
def scale_relu(x: Tensor, scale: Tensor, shift: Tensor, dropout: float, seed: Tensor) -> Tensor:
    """``relu(scale * x + shift)``, of each channel, behind dropout."""
    y, layout = torch.empty_like(x), layout_of(x)
    scale_relu_kernel[layout.grid](x, y, scale, shift, seed, DROPOUT=dropout, **layout.options())
    return y


@on_its_device
def scale_relu_sums(
    x: Tensor, gradient: Tensor, mean: Tensor, scale: Tensor, shift: Tensor, dropout: float, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """Of each channel the sum of what ReLU and dropout leave of the gradient, and of its products with ``x - mean``."""
    layout = layout_of(x)
    parts = layout.partial(x)
    sums_kernel[layout.grid](
        x, gradient, mean, scale, shift, seed, parts, parts.stride(0), DROPOUT=dropout, **layout.options()
    )
    total, product = parts.sum(1)
    return total, product


@on_its_device
def scale_relu_backward(
    x: Tensor,
    gradient: Tensor,
    scale: Tensor,
    shift: Tensor,
    slope: Tensor,
    constant: Tensor,
    dropout: float,
    seed: Tensor,
) -> Tensor:
    """``scale`` times what ReLU and dropout leave of the gradient, plus ``slope * x + constant``, of each channel."""
    dx, layout = torch.empty_like(x), layout_of(x)
    backward_kernel[layout.grid](
        x, gradient, dx, scale, shift, slope, constant, seed, DROPOUT=dropout, **layout.options()
    )
    return dx


@triton.jit
def _columns(C, LAST: tl.constexpr, BC: tl.constexpr):
    """Channels of this program, and where each leaves its sums."""
    i = tl.program_id(0)
    if LAST:
        channels = tl.program_id(1) * BC + tl.arange(0, BC)
        to = i * C + channels
    else:
        channels = i % C + tl.arange(0, BC)
        to = i + tl.arange(0, BC)
    return channels, to


@triton.jit
def _place(step, channels, C, R, LAST: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr):
    """Where the samples of a step lie, and which of them exist."""
    i = tl.program_id(0)
    if LAST:
        rows = i * ROWS + step * BM + tl.arange(0, BM)
        at = rows[:, None] * C + channels[None, :]
        inside = (rows < R)[:, None] & (channels < C)[None, :]
    else:
        rows = step * BM + tl.arange(0, BM)
        at = i * R + rows[:, None] + (channels * 0)[None, :]
        inside = (rows < R)[:, None] & (channels < C)[None, :]
    return at, inside


@triton.jit
def _kept(at, seed, DROPOUT: tl.constexpr):
    """Whether dropout keeps a sample: two rounds of a hash with full avalanche, compared with the probability."""
    h = at.to(tl.uint32) ^ seed
    for _ in tl.static_range(2):
        h = (h ^ (h >> 16)) * 0x85EBCA6B
        h = (h ^ (h >> 13)) * 0xC2B2AE35
        h = (h ^ (h >> 16)) + seed
    return (h >> 8).to(tl.float32) >= DROPOUT * 16777216.0


@triton.jit
def _through(at, z, value, seed, DROPOUT: tl.constexpr):
    """A value where ReLU and dropout let it through."""
    value = tl.where(z > 0, value, 0.0)
    if DROPOUT > 0:
        value = tl.where(_kept(at, seed, DROPOUT), value / (1 - DROPOUT), 0.0)
    return value


@triton.jit
def _of(pointer, channels, C):
    return tl.load(pointer + channels, mask=channels < C, other=0.0)[None, :]


@triton.jit
def _sample_and_gradient(x, gradient, at, inside, a, b, seed, DROPOUT: tl.constexpr):
    """Samples, and what ReLU and dropout leave of their gradient."""
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    return value, _through(at, a * value + b, g, seed, DROPOUT)


@triton.jit
def statistics_kernel(x, parts, gap, C, R, LAST: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    channels, to = _columns(C, LAST, BC)
    first = (tl.program_id(0) * ROWS * C + channels) if LAST else (tl.program_id(0) * R + channels * 0)
    about = tl.load(x + first, mask=channels < C, other=0.0).to(tl.float32)[None, :]
    total, squares, count = tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.int32)
    for step in range(ROWS // BM):
        at, inside = _place(step, channels, C, R, LAST, ROWS, BM)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - about
        value = tl.where(inside, value, 0.0)
        total += value
        squares += value * value
        count += inside.to(tl.int32)
    samples = tl.maximum(tl.sum(count, 0), 1).to(tl.float32)[None, :]
    mean = tl.sum(total, 0)[None, :] / samples
    there = (channels < C)[None, :]
    tl.store(parts + to[None, :], about + mean, mask=there)
    tl.store(parts + gap + to[None, :], tl.sum(squares, 0)[None, :] - samples * mean * mean, mask=there)


@triton.jit
def scale_relu_kernel(
    x, y, scale, shift, seeds, C, R,
    DROPOUT: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    channels, _ = _columns(C, LAST, BC)
    a, b, seed = _of(scale, channels, C), _of(shift, channels, C), tl.load(seeds).to(tl.uint32)
    for step in range(ROWS // BM):
        at, inside = _place(step, channels, C, R, LAST, ROWS, BM)
        z = a * tl.load(x + at, mask=inside, other=0.0).to(tl.float32) + b
        tl.store(y + at, _through(at, z, z, seed, DROPOUT), mask=inside)


@triton.jit
def sums_kernel(
    x, gradient, mean, scale, shift, seeds, parts, gap, C, R,
    DROPOUT: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    channels, to = _columns(C, LAST, BC)
    a, b, seed = _of(scale, channels, C), _of(shift, channels, C), tl.load(seeds).to(tl.uint32)
    middle = _of(mean, channels, C)
    total, product = tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.float32)
    for step in range(ROWS // BM):
        at, inside = _place(step, channels, C, R, LAST, ROWS, BM)
        value, g = _sample_and_gradient(x, gradient, at, inside, a, b, seed, DROPOUT)
        total += g
        product += g * (value - middle)
    there = (channels < C)[None, :]
    tl.store(parts + to[None, :], tl.sum(total, 0)[None, :], mask=there)
    tl.store(parts + gap + to[None, :], tl.sum(product, 0)[None, :], mask=there)


@triton.jit
def backward_kernel(
    x, gradient, dx, scale, shift, slope, constant, seeds, C, R,
    DROPOUT: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    channels, _ = _columns(C, LAST, BC)
    a, b, seed = _of(scale, channels, C), _of(shift, channels, C), tl.load(seeds).to(tl.uint32)
    p, q = _of(slope, channels, C), _of(constant, channels, C)
    for step in range(ROWS // BM):
        at, inside = _place(step, channels, C, R, LAST, ROWS, BM)
        value, g = _sample_and_gradient(x, gradient, at, inside, a, b, seed, DROPOUT)
        tl.store(dx + at, a * g + p * value + q, mask=inside)
