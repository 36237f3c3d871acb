"""Fourier layers of images on GPUs: complex products between butterflies in one pass, in Triton.

One product of complex matrices is as fast there as one of the four real ones that it replaces. :func:`spread` and
:func:`gather` are those of :mod:`.butterflies`, for images alone; real and imaginary parts lie side by side, as
complex numbers do in torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.bands import band
from fourierscale.kernels.conv.products import SPECTRUM_AT_ONCE, at_once
from fourierscale.kernels.products import even_step
from fourierscale.kernels.triton_launch import on_its_device

BLOCK = 1024


def mix_forward(x: Tensor, kernel: Tensor, expand: Tensor | None) -> Tensor:
    """Mix the channels of each frequency, ``(n_1, n_2, B, C_in)`` to ``(n_1, n_2, B, C_out)``."""
    y = x.new_empty(*x.shape[:-1], kernel.shape[3])
    for first, last, groups in _pieces(x, kernel, expand):
        h = spread(x, first, last)
        gather(torch.bmm(h, _spectrum(kernel[groups], expand)), y, first, last)
    return y


def mix_backward(gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None) -> tuple[Tensor, Tensor]:
    """Gradients of the coefficients and of the kernel."""
    dx, d_kernel = torch.empty_like(x), kernel.new_empty(kernel.shape)
    for first, last, groups in _pieces(x, kernel, expand):
        g = spread(gradient, first, last)
        gather(torch.bmm(g, _spectrum(kernel[groups], expand).mH), dx, first, last)
        d_spectrum = torch.bmm(spread(x, first, last).mH, g)
        if expand is not None:
            waves = torch.complex(expand[0], expand[1])
            d_spectrum = d_spectrum.reshape(-1, len(waves), d_spectrum[0].numel())
            d_kernel[groups] = (waves.mH @ d_spectrum).real.reshape(-1, *kernel.shape[1:])
        else:
            d_kernel[groups] = torch.view_as_real(d_spectrum).movedim(-1, 1)
    return dx, d_kernel


def _pieces(x: Tensor, kernel: Tensor, expand: Tensor | None) -> Iterator[tuple[int, int, slice]]:
    """Frequencies of the last axis in pieces: the first of a piece, the first after it, its groups of the kernel."""
    frequencies = band(x.shape[-3]) + 1
    groups, _, in_channels, out_channels = kernel.shape
    each = groups // frequencies  # groups per frequency of the last axis
    many = each * (1 if expand is None else expand.shape[1])
    entries = 2 * many * max(in_channels * out_channels, x.shape[-2] * max(in_channels, out_channels))
    step = even_step(frequencies, max(1, at_once(SPECTRUM_AT_ONCE, x) // entries, frequencies // 12))
    for first in range(0, frequencies, step):
        last = min(first + step, frequencies)
        yield first, last, slice(first * each, last * each)


def _spectrum(part: Tensor, expand: Tensor | None) -> Tensor:
    """A piece of the spectrum as complex numbers ``(F, C_in, C_out)``."""
    if expand is None:
        return torch.complex(part[:, 0], part[:, 1])
    waves = torch.complex(expand[0], expand[1])
    return (waves @ part.flatten(2).to(waves.dtype)).reshape(-1, *part.shape[2:])


@on_its_device
def spread(x: Tensor, first: int, last: int) -> Tensor:
    """Complex coefficients ``(F, B, C)`` of the frequencies ``first`` to ``last - 1`` across, all of those down."""
    half = x.new_empty(last - first, x.shape[0], *x.shape[2:], 2)
    _launch(_spread, x, half, x, first, last)
    return torch.view_as_complex(half).flatten(0, 1)


@on_its_device
def gather(half: Tensor, x: Tensor, first: int, last: int) -> None:
    """Write the real coefficients of these frequencies into ``x``."""
    _launch(_gather, torch.view_as_real(half), x, x, first, last)


def _launch(kernel: triton.JITFunction, source: Tensor, target: Tensor, x: Tensor, first: int, last: int) -> None:
    rows, columns, entries = x.shape[0], x.shape[1], x.shape[2] * x.shape[3]
    kernel[(last - first, (rows + 1) // 2, triton.cdiv(entries, BLOCK))](
        source, target, first, rows, columns, entries, BLOCK=BLOCK, num_warps=4
    )


@triton.jit
def _place(first, rows, Q, BLOCK: tl.constexpr):
    """Frequency across, its first column, where the numbers are, and which of them exist."""
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    q = first + tl.program_id(0)
    j = tl.where(q > 0, 2 * q - 1, 0)
    top = (tl.program_id(0) * rows * Q + at)[:, None] * 2 + tl.arange(0, 2)[None, :]
    inside = at < Q
    return j, at, top, inside, inside & (q > 0)


@triton.jit
def _spread(x_ptr, half_ptr, first, rows, columns, Q, BLOCK: tl.constexpr):
    p = tl.program_id(1)
    j, at, top, inside, waves = _place(first, rows, Q, BLOCK)
    if p == 0:
        re = tl.load(x_ptr + j * Q + at, mask=inside, other=0.0)
        im = tl.load(x_ptr + (j + 1) * Q + at, mask=waves, other=0.0)
        tl.store(half_ptr + top, tl.join(re, im), mask=inside[:, None])
    else:
        row = x_ptr + ((2 * p - 1) * columns + j) * Q + at
        cc = tl.load(row, mask=inside, other=0.0)
        cs = tl.load(row + Q, mask=waves, other=0.0)
        sc = tl.load(row + columns * Q, mask=inside, other=0.0)
        ss = tl.load(row + columns * Q + Q, mask=waves, other=0.0)
        plus = half_ptr + (4 * p - 2) * Q + top
        tl.store(plus, tl.join(cc - ss, cs + sc), mask=inside[:, None])
        tl.store(plus + 2 * Q, tl.join(cc + ss, cs - sc), mask=inside[:, None])


@triton.jit
def _gather(half_ptr, x_ptr, first, rows, columns, Q, BLOCK: tl.constexpr):
    p = tl.program_id(1)
    j, at, top, inside, waves = _place(first, rows, Q, BLOCK)
    if p == 0:
        re, im = tl.split(tl.load(half_ptr + top, mask=inside[:, None], other=0.0))
        tl.store(x_ptr + j * Q + at, re, mask=inside)
        tl.store(x_ptr + (j + 1) * Q + at, im, mask=waves)
    else:
        plus = half_ptr + (4 * p - 2) * Q + top
        re_plus, im_plus = tl.split(tl.load(plus, mask=inside[:, None], other=0.0))
        re_minus, im_minus = tl.split(tl.load(plus + 2 * Q, mask=inside[:, None], other=0.0))
        row = x_ptr + ((2 * p - 1) * columns + j) * Q + at
        tl.store(row, re_plus + re_minus, mask=inside)
        tl.store(row + Q, im_plus + im_minus, mask=waves)
        tl.store(row + columns * Q, im_plus - im_minus, mask=inside)
        tl.store(row + columns * Q + Q, re_minus - re_plus, mask=waves)
