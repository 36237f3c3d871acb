"""Between cosines and sines and complex coefficients in one pass, in Triton: :math:`T` and its adjoint for images.

See :mod:`fourierscale.kernels.butterflies`, whose ``spread`` and ``gather`` are the same for any number of axes. Here
real and imaginary parts lie side by side, as complex numbers do in torch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.kernels.gpu.shared import on_its_device

BLOCK = 1024


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
