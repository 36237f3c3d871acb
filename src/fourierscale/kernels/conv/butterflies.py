r"""Between cosines and sines and complex coefficients on half of the frequencies, by sums and differences alone.

Features lie frequency first, ``(n_1, ..., n_d, B, C)``. :mod:`.triton_mix` does the same in Triton, for
images.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import band, grid


def spread(x: Tensor) -> Tensor:
    r""":math:`T`: real coefficients ``(n_1, ..., n_d, B, C)`` to complex ones ``(2, n_d // 2 + 1, ..., n_1, B, C)``.

    The axes come last to first; the last keeps :math:`q \ge 0`. The first axis holds real and imaginary parts.
    """
    half: Tensor = _Spread.apply(x)  # type: ignore[no-untyped-call]
    return half


def gather(half: Tensor) -> Tensor:
    r""":math:`T^\top`, the adjoint of :func:`spread`."""
    x: Tensor = _Gather.apply(half)  # type: ignore[no-untyped-call]
    return x


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        half = x.new_empty(2, band(x.shape[-3]) + 1, *reversed(x.shape[:-3]), *x.shape[-2:])
        spread_part(x, 0, half.shape[1], *half)
        return half

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gather(gradient)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, half: Tensor) -> Tensor:
        axes = half.ndim - 3
        x = half.new_empty(*reversed(half.shape[2 : axes + 1]), grid(half.shape[1] - 1), *half.shape[axes + 1 :])
        gather_part(half[0], half[1], x, 0, half.shape[1])
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return spread(gradient)


def spread_part(x: Tensor, first: int, last: int, real: Tensor, imag: Tensor) -> None:
    """Write some frequencies of the last axis to real and imaginary parts, each ``(q, ..., n_1, B, C)``."""
    axes = x.ndim - 2
    x = x.permute(*range(axes - 1, -1, -1), axes, axes + 1)  # last axis first
    waves = slice(1 if first == 0 else 0, None)
    if first == 0:
        _spread_axes(x[:1], None, real[:1], imag[:1], 1, axes)
    _spread_axes(*_waves(x, first, last), real[waves], imag[waves], 1, axes)


def _waves(x: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of some frequencies of the first axis; 0 has none."""
    start = grid(max(first, 1) - 1)
    return x[start : grid(last - 1) : 2], x[start + 1 : grid(last - 1) : 2]


def _spread_axes(re: Tensor, im: Tensor | None, real: Tensor, imag: Tensor, axis: int, axes: int) -> None:
    """Turn the axes from ``axis`` on from cosines and sines to positive and negative frequencies."""
    if axis == axes:
        real.copy_(re)
        imag.zero_() if im is None else imag.copy_(im)
        return
    last = axis == axes - 1
    to_re, to_im = (real, imag) if last else (torch.empty_like(re), torch.empty_like(re))
    zero, cosine, sine = _parts(axis)
    to_re[zero] = re[zero]
    if im is None:
        to_im[zero] = 0
        to_re[cosine] = to_re[sine] = re[cosine]
        to_im[cosine] = re[sine]
        torch.neg(re[sine], out=to_im[sine])
    else:
        to_im[zero] = im[zero]
        torch.sub(re[cosine], im[sine], out=to_re[cosine])
        torch.add(re[cosine], im[sine], out=to_re[sine])
        torch.add(im[cosine], re[sine], out=to_im[cosine])
        torch.sub(im[cosine], re[sine], out=to_im[sine])
    if not last:
        _spread_axes(to_re, to_im, real, imag, axis + 1, axes)


def gather_part(real: Tensor, imag: Tensor, output: Tensor, first: int, last: int) -> None:
    """Write what real and imaginary parts of some frequencies of the last axis give to ``(n_1, ..., n_d, B, C)``."""
    axes = output.ndim - 2
    x = output.permute(*range(axes - 1, -1, -1), axes, axes + 1)
    waves = slice(1 if first == 0 else 0, None)
    if first == 0:
        _gather_axes(real[:1], imag[:1], x[:1], None, axes - 1)
    _gather_axes(real[waves], imag[waves], *_waves(x, first, last), axes - 1)


def _gather_axes(real: Tensor, imag: Tensor, re: Tensor, im: Tensor | None, axis: int) -> None:
    """Adjoint of :func:`_spread_axes`, from the last axis back to the first."""
    if axis == 0:
        re.copy_(real)
        if im is not None:
            im.copy_(imag)
        return
    last = axis == 1
    to_re = re if last else torch.empty_like(real)
    to_im = im if last else torch.empty_like(real)
    zero, plus, minus = _parts(axis)
    to_re[zero] = real[zero]
    torch.add(real[plus], real[minus], out=to_re[plus])
    torch.sub(imag[plus], imag[minus], out=to_re[minus])
    if to_im is not None:
        to_im[zero] = imag[zero]
        torch.add(imag[plus], imag[minus], out=to_im[plus])
        torch.sub(real[minus], real[plus], out=to_im[minus])
    if not last:
        assert to_im is not None
        _gather_axes(to_re, to_im, re, im, axis - 1)


def _parts(axis: int) -> tuple[tuple[int | slice, ...], ...]:
    """Entry 0 of an axis, its entries 1, 3, ... and its entries 2, 4, ...."""
    front = (slice(None),) * axis
    return (*front, 0), (*front, slice(1, None, 2)), (*front, slice(2, None, 2))
