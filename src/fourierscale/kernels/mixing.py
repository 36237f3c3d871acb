r"""Fourier layers as a few large products: the fast twin of :func:`fourierscale.functional.fourier_conv`.

Features are taken **frequency first**, ``(n_1, ..., n_d, B, C)`` in memory: a frequency is a matrix ``(B, C)``, nothing
has to be permuted. Cosine and sine coefficients become complex ones on half of the frequencies by sums and differences
alone (:func:`spread`, a matrix :math:`T` of zeros and :math:`\pm1`); the factors belong to the kernel. The layer is

.. math:: y = T^\top M_K \, T x, \qquad (M_K h)[p] = h[p] \, \overline{K[p]} \, 2^{-\#\{a < d \,:\, p_a \neq 0\}}

so its adjoint is the same with the conjugate transposed kernel. The spectrum of taps is made in pieces that stay in the
cache, and again in the backward pass: it is never stored as a whole. On CPUs a complex product is one real one,

.. math:: [\mathrm{Re}\,y; \mathrm{Im}\,y] = H \, [\mathrm{Re}\,k; \mathrm{Im}\,k], \qquad
    H = [\mathrm{Re}\,h, -\mathrm{Im}\,h; \; \mathrm{Im}\,h, \mathrm{Re}\,h]

with images in the rows, twice, and channels in the columns: the spectrum, which is larger than the features of a small
batch, is written once and read once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import band
from fourierscale.functional.constants import constant
from fourierscale.kernels.butterflies import gather, gather_part, spread, spread_part
from fourierscale.kernels.products import even_step

PIECE = {"cpu": 2**21, "cuda": 5 * 2**20}
"""Entries of the spectrum that are in work at a time, per device type."""

FEATURES = {"cpu": 3 * 2**20, "cuda": 2**24}
"""Entries of the features, as blocks, that are in work at a time."""


def tap_kernel(taps: Tensor, reference: Sequence[int], size: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    r"""Spectrum of taps along every axis but the first, and the matrix for the first.

    The last axis keeps the frequencies :math:`q \ge 0`, the others :math:`0, +1, -1, +2, \dots`.

    Args:
        taps: ``(C_out, C_in, l_1, ..., l_d)``, centred, for convolution.
        reference: Grid on which one tap is one sample.
        size: Number of coefficients per axis.

    Returns:
        ``kernel (G, r, C_in, C_out)`` and ``expand (2, n_1, r)``: ``expand[0] @ kernel`` is the real part of the
        spectrum, ``expand[1] @ kernel`` the imaginary part.
    """
    out_channels, in_channels, *lengths = taps.shape
    axes = len(lengths)
    # The last axis of taps first, then the one before it, ...: the order in which they are transformed.
    part = taps.permute(*range(taps.ndim - 1, 1, -1), 1, 0).reshape(lengths[-1], -1)
    part = half_tap_matrix(lengths[-1], reference[-1], size[-1], taps.dtype, taps.device) @ part
    groups = band(size[-1]) + 1
    if axes == 1:
        return part.reshape(groups, 2, in_channels, out_channels), None
    for axis in range(axes - 2, 0, -1):
        # (real or imaginary, tap) to (frequency, real or imaginary); the rest begins with the next axis' taps
        matrix = full_tap_matrix(lengths[axis], reference[axis], size[axis], taps.dtype, taps.device)
        part = matrix.transpose(0, 1).flatten(0, 1) @ part.reshape(groups, 2 * lengths[axis], -1)
        groups *= size[axis]
    expand = full_tap_matrix(lengths[0], reference[0], size[0], taps.dtype, taps.device)
    return part.reshape(groups, -1, in_channels, out_channels), expand


def full_kernel(kernel: Tensor, expand: Tensor | None) -> Tensor:
    """The whole spectrum as a kernel that needs no matrix, ``(F, 2, C_in, C_out)``, to be used many times."""
    if expand is None:
        return kernel
    parts = [(e @ kernel.flatten(2)).reshape(-1, *kernel.shape[2:]) for e in expand]
    return torch.stack(parts, 1)


def spectrum_kernel(spectrum: Tensor) -> Tensor:
    """The kernel ``(F, 2, C_in, C_out)`` of even and odd parts ``(C_out, C_in, 2K_1+1, ...)``."""
    axes = spectrum.ndim - 2
    half = spread(spectrum.permute(*range(2, spectrum.ndim), 1, 0)).movedim(0, -3)
    for axis in range(axes - 1):
        factors = halves(spectrum.shape[2 + axis], spectrum.dtype, spectrum.device)
        half = half * factors.reshape(-1, *(1,) * (axis + 3))  # behind the axis: the axes before it, 2, C_in, C_out
    return half.flatten(0, axes - 1).contiguous()


def mix(x: Tensor, kernel: Tensor, expand: Tensor | None = None, engine: str = "gemm") -> Tensor:
    """Mix the channels of each frequency.

    Args:
        x: Coefficients, frequency first, ``(n_1, ..., n_d, B, C_in)``.
        kernel: ``(G, r, C_in, C_out)``, from :func:`tap_kernel` or :func:`spectrum_kernel`.
        expand: The matrix that came with it.
        engine: ``"gemm"``, or ``"triton"`` for butterflies in one pass (images alone).

    Returns:
        ``(n_1, ..., n_d, B, C_out)``.
    """
    y: Tensor = _mix(x, kernel, expand, engine)
    return y


def _most(entries: dict[str, int], x: Tensor) -> int:
    """How many entries are in work at a time where ``x`` is."""
    return entries.get(x.device.type, entries["cuda"])


def _parted(x: Tensor, kernel: Tensor, expand: Tensor | None) -> Iterator[tuple[int, int, slice]]:
    """Frequencies of the last axis in pieces: the first of a piece, the first after it, its groups of the kernel."""
    frequencies = band(x.shape[-3]) + 1
    groups, _, in_channels, out_channels = kernel.shape
    each = groups // frequencies  # groups per frequency of the last axis
    many = each * (1 if expand is None else expand.shape[1])
    entries = 2 * many * max(in_channels * out_channels, x.shape[-2] * max(in_channels, out_channels))
    step = even_step(frequencies, max(1, _most(PIECE, x) // entries, frequencies // 12))
    for first in range(0, frequencies, step):
        last = min(first + step, frequencies)
        yield first, last, slice(first * each, last * each)


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
    step = min((last - first) * each, 2 * max(1, _most(PIECE, x) // pair))
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


def _complex_spectrum(part: Tensor, expand: Tensor | None) -> Tensor:
    """A piece of the spectrum as complex numbers ``(F, C_in, C_out)``."""
    if expand is None:
        return torch.complex(part[:, 0], part[:, 1])
    waves = torch.complex(expand[0], expand[1])
    return (waves @ part.flatten(2).to(waves.dtype)).reshape(-1, *part.shape[2:])


def _feature_pieces(x: Tensor, kernel: Tensor, tensors: int = 1) -> Iterator[tuple[int, int]]:
    """Frequencies of the last axis in pieces of so many tensors of features: the first of a piece, the first after."""
    frequencies = band(x.shape[-3]) + 1
    entries = 4 * tensors * math.prod(x.shape[:-3]) * x.shape[-2] * max(kernel.shape[2:])
    step = even_step(frequencies, max(1, _most(FEATURES, x) // entries))
    for first in range(0, frequencies, step):
        yield first, min(first + step, frequencies)


@torch.library.custom_op("fourierscale::mix", mutates_args=())
def _mix(x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str) -> Tensor:
    y = x.new_empty(*x.shape[:-1], kernel.shape[3])
    if _as_complex(x, engine):
        from fourierscale.kernels.gpu import butterflies

        for first, last, groups in _parted(x, kernel, expand):
            h = butterflies.spread(x, first, last)
            butterflies.gather(torch.bmm(h, _complex_spectrum(kernel[groups], expand)), y, first, last)
        return y
    for first, last in _feature_pieces(x, kernel):
        h = _blocks(x, first, last)
        output = y.new_empty(len(h), h.shape[1], y.shape[-1])
        for _, part, spectrum in _spectra(x, kernel, expand, first, last):
            torch.bmm(h[part], spectrum, out=output[part])
        real, imag = torch.unflatten(output, 1, (2, -1)).unbind(1)
        _gather_piece(real, imag, y, first, last)
    return y


def _as_complex(x: Tensor, engine: str) -> bool:
    """Whether one product of complex matrices does it, as fast on GPUs as one of the four real ones that it replaces.

    There is none in bfloat16.
    """
    known = x.dtype is torch.float64 or (x.dtype is torch.float32 and torch.get_float32_matmul_precision() != "medium")
    return engine == "triton" and known


def _gather_piece(real: Tensor, imag: Tensor, x: Tensor, first: int, last: int) -> None:
    """Write some frequencies of the last axis, each part given as ``(F, B, C)``, into ``x``."""
    shape = (last - first, *reversed(x.shape[:-3]))
    gather_part(torch.unflatten(real, 0, shape), torch.unflatten(imag, 0, shape), x, first, last)


@_mix.register_fake
def _(x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str) -> Tensor:
    return x.new_empty(*x.shape[:-1], kernel.shape[3])


@torch.library.custom_op("fourierscale::mix_backward", mutates_args=())
def _mix_backward(
    gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str
) -> tuple[Tensor, Tensor]:
    dx, d_kernel = torch.empty_like(x), kernel.new_empty(kernel.shape)
    if _as_complex(x, engine):
        from fourierscale.kernels.gpu import butterflies

        for first, last, groups in _parted(x, kernel, expand):
            g = butterflies.spread(gradient, first, last)
            butterflies.gather(torch.bmm(g, _complex_spectrum(kernel[groups], expand).mH), dx, first, last)
            d_spectrum = torch.bmm(butterflies.spread(x, first, last).mH, g)
            if expand is not None:
                waves = torch.complex(expand[0], expand[1])
                d_spectrum = d_spectrum.reshape(-1, len(waves), d_spectrum[0].numel())
                d_kernel[groups] = (waves.mH @ d_spectrum).real.reshape(-1, *kernel.shape[1:])
            else:
                d_kernel[groups] = torch.view_as_real(d_spectrum).movedim(-1, 1)
        return dx, d_kernel
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


@_mix_backward.register_fake
def _(gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), kernel.new_empty(kernel.shape)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, str], output: Tensor) -> None:
    x, kernel, ctx.expand, ctx.engine = inputs
    ctx.save_for_backward(x, kernel)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
    x, kernel = ctx.saved_tensors
    if torch.is_grad_enabled():  # a second derivative is wanted: through parts that have one
        dx, d_kernel = _twice_differentiable(gradient, x, kernel, ctx.expand)
    else:
        dx, d_kernel = _mix_backward(gradient.contiguous(), x, kernel, ctx.expand, ctx.engine)
    return dx, d_kernel, None, None


_mix.register_autograd(_differentiate, setup_context=_setup)


def _twice_differentiable(gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None) -> tuple[Tensor, Tensor]:
    half = spread(x)
    real, imag = full_kernel(kernel, expand).unbind(1)
    h_real, h_imag = half.flatten(1, -3)
    y = torch.stack([h_real @ real - h_imag @ imag, h_real @ imag + h_imag @ real])
    dx, d_kernel = torch.autograd.grad(
        gather(torch.unflatten(y, 1, half.shape[1:-2])), (x, kernel), gradient, create_graph=True
    )
    return dx, d_kernel


@constant
def half_tap_matrix(taps: int, reference: int, length: int) -> Tensor:
    """Real and imaginary part of a wave of each frequency from 0 on at centred taps, ``((K + 1) * 2, taps)``."""
    waves = tap_waves(taps, reference, torch.arange(band(length) + 1))
    return torch.view_as_real(waves).movedim(-1, 1).flatten(0, 1)


@constant
def full_tap_matrix(taps: int, reference: int, length: int) -> Tensor:
    """Complex multiplication by the waves of ``0, +1, -1, ...``, factors included, ``(2, length, 2 * taps)``."""
    k = torch.arange(1, band(length) + 1)
    waves = tap_waves(taps, reference, torch.cat([k.new_zeros(1), torch.stack([k, -k], 1).flatten()]))
    waves = waves * halves(length, torch.float64, torch.device("cpu"))[:, None]
    return torch.stack([torch.cat([waves.real, -waves.imag], 1), torch.cat([waves.imag, waves.real], 1)])


def tap_waves(taps: int, reference: int, frequencies: Tensor) -> Tensor:
    """Complex waves at the positions of centred taps, ``(frequencies, taps)``."""
    turns = torch.outer(frequencies, torch.arange(taps) - taps // 2) % reference  # exact: integers before the division
    angles = turns.double() * (2 * math.pi / reference)
    return torch.polar(torch.ones_like(angles), angles)


@constant
def halves(length: int) -> Tensor:
    """What undoes that :func:`spread` and :func:`gather` see a frequency twice: 1 at 0, 1/2 elsewhere."""
    return torch.tensor([1.0] + [0.5] * (length - 1), dtype=torch.float64)
