r"""Fourier layers as a few large products: the fast twin of :func:`fourierscale.functional.fourier_conv`.

Features are taken **frequency first**, ``(n_1, ..., n_d, B, C)`` in memory: a frequency is a matrix ``(B, C)``, nothing
has to be permuted. Cosine and sine coefficients become complex ones on half of the frequencies by sums and differences
alone (:mod:`.butterflies`, a matrix :math:`T` of zeros and :math:`\pm1`); factors belong to the kernel. The layer is

.. math:: y = T^\top M_K \, T x, \qquad (M_K h)[p] = h[p] \, \overline{K[p]} \, 2^{-\#\{a < d \,:\, p_a \neq 0\}}

so its adjoint is the same with the conjugate transposed kernel. A complex product is one real one,

.. math:: [\mathrm{Re}\,y; \mathrm{Im}\,y] = H \, [\mathrm{Re}\,k; \mathrm{Im}\,k], \qquad
    H = [\mathrm{Re}\,h, -\mathrm{Im}\,h; \; \mathrm{Im}\,h, \mathrm{Re}\,h]

with images in the rows, twice, and channels in the columns: the spectrum, which is larger than the features of a small
batch, is written once and read once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from fourierscale.functional.bands import band
from fourierscale.kernels.conv.butterflies import gather, gather_part, spread, spread_part
from fourierscale.kernels.conv.spectra import full_kernel
from fourierscale.kernels.products import even_step

SPECTRUM_AT_ONCE = {"cpu": 2**21, "cuda": 5 * 2**20}
"""Entries of the spectrum that are in work at a time, per device type."""

FEATURES_AT_ONCE = {"cpu": 3 * 2**20, "cuda": 2**24}
"""Entries of the features, as blocks, that are in work at a time."""


def mix_forward(x: Tensor, kernel: Tensor, expand: Tensor | None) -> Tensor:
    """Mix the channels of each frequency, ``(n_1, ..., n_d, B, C_in)`` to ``(n_1, ..., n_d, B, C_out)``."""
    y = x.new_empty(*x.shape[:-1], kernel.shape[3])
    for first, last in _feature_pieces(x, kernel):
        h = _blocks(x, first, last)
        output = y.new_empty(len(h), h.shape[1], y.shape[-1])
        for _, part, spectrum in _spectra(x, kernel, expand, first, last):
            torch.bmm(h[part], spectrum, out=output[part])
        real, imag = torch.unflatten(output, 1, (2, -1)).unbind(1)
        _gather_piece(real, imag, y, first, last)
    return y


def mix_backward(gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None) -> tuple[Tensor, Tensor]:
    """Gradients of the coefficients and of the kernel."""
    dx, d_kernel = torch.empty_like(x), kernel.new_empty(kernel.shape)
    for first, last in _feature_pieces(x, kernel, 3):
        g, h = _stacked(gradient, first, last), _blocks(x, first, last)
        output = torch.empty_like(h)
        for groups, part, spectrum in _spectra(x, kernel, expand, first, last):
            torch.bmm(g[part], spectrum.mT, out=output[part])
            d_part = d_kernel[groups].flatten(2)
            if expand is None:
                d_part.view(spectrum.shape).copy_(torch.bmm(h[part].mT, g[part]))
                continue
            d_spectrum = torch.bmm(h[part].mT, g[part], out=spectrum).to(kernel.dtype)  # in its place
            rows = _expand_rows(expand).mT.expand(len(d_part), -1, -1)
            torch.bmm(rows, d_spectrum.view(len(d_part), rows.shape[2], -1), out=d_part)
        blocks = output.view(-1, 2, x.shape[-2], 2, x.shape[-1])
        real = blocks[:, 0, :, 0].add_(blocks[:, 1, :, 1])
        imag = blocks[:, 1, :, 0].sub_(blocks[:, 0, :, 1])
        _gather_piece(real, imag, dx, first, last)
    return dx, d_kernel


def twice_differentiable(gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None) -> tuple[Tensor, Tensor]:
    """What :func:`mix_backward` gives, through parts that have a derivative themselves."""
    half = spread(x)
    real, imag = full_kernel(kernel, expand).unbind(1)
    h_real, h_imag = half.flatten(1, -3)
    y = torch.stack([h_real @ real - h_imag @ imag, h_real @ imag + h_imag @ real])
    dx, d_kernel = torch.autograd.grad(
        gather(torch.unflatten(y, 1, half.shape[1:-2])), (x, kernel), gradient, create_graph=True
    )
    return dx, d_kernel


def at_once(entries: dict[str, int], x: Tensor) -> int:
    """How many entries are in work at a time where ``x`` is."""
    return entries.get(x.device.type, entries["cuda"])


def _spectra(
    x: Tensor, kernel: Tensor, expand: Tensor | None, first: int, last: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """The spectrum of some frequencies of the last axis in pieces: which groups of the kernel, which frequencies.

    A piece is ``(F, 2 C_in, C_out)``, real above imaginary parts; the memory of the one before it is used again.
    """
    groups, _, in_channels, out_channels = kernel.shape
    each = groups // (band(x.shape[-3]) + 1)
    if expand is None:
        part = kernel[first * each : last * each].reshape(-1, 2 * in_channels, out_channels)
        yield slice(first * each, last * each), slice(None), part.to(x.dtype)
        return
    rows = _expand_rows(expand)
    pair = 2 * rows.shape[0] * in_channels * out_channels  # groups in pairs: two threads share them evenly
    step = min((last - first) * each, 2 * max(1, at_once(SPECTRUM_AT_ONCE, x) // pair))
    space = kernel.new_empty(step, rows.shape[0], in_channels * out_channels)
    for start in range(first * each, last * each, step):
        stop = min(start + step, last * each)
        part = kernel[start:stop].flatten(2)
        spectrum = torch.bmm(rows.expand(len(part), -1, -1), part, out=space[: len(part)])
        frequencies = slice((start - first * each) * expand.shape[1], (stop - first * each) * expand.shape[1])
        yield slice(start, stop), frequencies, spectrum.view(-1, 2 * in_channels, out_channels).to(x.dtype)


def _expand_rows(expand: Tensor) -> Tensor:
    """``(2, n_1, r)`` as ``(n_1 * 2, r)``: real and imaginary part of each frequency in turn."""
    return expand.transpose(0, 1).flatten(0, 1)


def _blocks(x: Tensor, first: int, last: int) -> Tensor:
    r""":math:`H` of some frequencies of the last axis, ``(F, 2 B, 2 C)``."""
    batch, channels = x.shape[-2:]
    blocks = x.new_empty(last - first, *reversed(x.shape[:-3]), 2, batch, 2, channels)
    real, imag = blocks[..., 0, :, 0, :], blocks[..., 1, :, 0, :]
    spread_part(x, first, last, real, imag)
    blocks[..., 1, :, 1, :] = real
    torch.neg(imag, out=blocks[..., 0, :, 1, :])
    return blocks.view(-1, 2 * batch, 2 * channels)


def _stacked(x: Tensor, first: int, last: int) -> Tensor:
    """Real above imaginary parts of some frequencies of the last axis, ``(F, 2 B, C)``."""
    batch, channels = x.shape[-2:]
    half = x.new_empty(last - first, *reversed(x.shape[:-3]), 2, batch, channels)
    spread_part(x, first, last, *half.unbind(-3))
    return half.view(-1, 2 * batch, channels)


def _feature_pieces(x: Tensor, kernel: Tensor, tensors: int = 1) -> Iterator[tuple[int, int]]:
    """Frequencies of the last axis in pieces of so many tensors of features: the first of a piece, the first after."""
    frequencies = band(x.shape[-3]) + 1
    entries = 4 * tensors * math.prod(x.shape[:-3]) * x.shape[-2] * max(kernel.shape[2:])
    step = even_step(frequencies, max(1, at_once(FEATURES_AT_ONCE, x) // entries))
    for first in range(0, frequencies, step):
        yield first, min(first + step, frequencies)


def _gather_piece(real: Tensor, imag: Tensor, x: Tensor, first: int, last: int) -> None:
    """Write some frequencies of the last axis, each part given as ``(F, B, C)``, into ``x``."""
    shape = (last - first, *reversed(x.shape[:-3]))
    gather_part(torch.unflatten(real, 0, shape), torch.unflatten(imag, 0, shape), x, first, last)
