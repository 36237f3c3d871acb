"""Between cosines and sines and complex coefficients in one pass, in Triton: :math:`T` and its adjoint for images.

See :mod:`fourierscale.kernels.mixing`, whose ``spread`` and ``gather`` are the same for any number of axes.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _spread(x_ptr, half_ptr, first, rows, columns, count, Q, BLOCK: tl.constexpr):
    p, at = tl.program_id(1), tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    q = first + tl.program_id(0)
    inside = at < Q
    waves = inside & (q > 0)
    j = tl.where(q > 0, 2 * q - 1, 0)
    top = half_ptr + tl.program_id(0) * rows * Q + at
    imaginary = count * rows * Q
    if p == 0:
        tl.store(top, tl.load(x_ptr + j * Q + at, mask=inside, other=0.0), mask=inside)
        tl.store(top + imaginary, tl.load(x_ptr + (j + 1) * Q + at, mask=waves, other=0.0), mask=inside)
    else:
        row = x_ptr + ((2 * p - 1) * columns + j) * Q + at
        cc = tl.load(row, mask=inside, other=0.0)
        cs = tl.load(row + Q, mask=waves, other=0.0)
        sc = tl.load(row + columns * Q, mask=inside, other=0.0)
        ss = tl.load(row + columns * Q + Q, mask=waves, other=0.0)
        plus = top + (2 * p - 1) * Q
        tl.store(plus, cc - ss, mask=inside)
        tl.store(plus + imaginary, cs + sc, mask=inside)
        tl.store(plus + Q, cc + ss, mask=inside)
        tl.store(plus + Q + imaginary, cs - sc, mask=inside)


@triton.jit
def _gather(half_ptr, x_ptr, first, rows, columns, count, Q, BLOCK: tl.constexpr):
    p, at = tl.program_id(1), tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    q = first + tl.program_id(0)
    inside = at < Q
    waves = inside & (q > 0)
    j = tl.where(q > 0, 2 * q - 1, 0)
    top = half_ptr + tl.program_id(0) * rows * Q + at
    imaginary = count * rows * Q
    if p == 0:
        tl.store(x_ptr + j * Q + at, tl.load(top, mask=inside), mask=inside)
        tl.store(x_ptr + (j + 1) * Q + at, tl.load(top + imaginary, mask=waves), mask=waves)
    else:
        plus = top + (2 * p - 1) * Q
        re_plus = tl.load(plus, mask=inside)
        im_plus = tl.load(plus + imaginary, mask=inside)
        re_minus = tl.load(plus + Q, mask=inside)
        im_minus = tl.load(plus + Q + imaginary, mask=inside)
        row = x_ptr + ((2 * p - 1) * columns + j) * Q + at
        tl.store(row, re_plus + re_minus, mask=inside)
        tl.store(row + Q, im_plus + im_minus, mask=waves)
        tl.store(row + columns * Q, im_plus - im_minus, mask=inside)
        tl.store(row + columns * Q + Q, re_minus - re_plus, mask=waves)


def spread(x: Tensor, first: int, last: int) -> Tensor:
    """Complex coefficients ``(2, last - first, n_1, B, C)`` of the frequencies ``first`` to ``last - 1`` across."""
    half = x.new_empty(2, last - first, x.shape[0], *x.shape[2:])
    _launch(_spread, x, half, x, first)
    return half


def gather(half: Tensor, x: Tensor, first: int) -> None:
    """Write the real coefficients of these frequencies into ``x``."""
    _launch(_gather, half, x, x, first)


def _launch(kernel: triton.JITFunction, source: Tensor, target: Tensor, x: Tensor, first: int) -> None:
    half = target if kernel is _spread else source
    rows, columns, entries = x.shape[0], x.shape[1], x.shape[2] * x.shape[3]
    count = half.shape[1]
    kernel[(count, (rows + 1) // 2, triton.cdiv(entries, BLOCK))](
        source, target, first, rows, columns, count, entries, BLOCK=BLOCK, num_warps=4
    )
