r"""Fourier layers: circular convolution as one channel mixing per frequency, in real arithmetic.

The spectrum of a real kernel is stored like the coefficients of an image, real and ordered coarse to fine: at
``cos p`` its even part, at ``sin p`` its odd part, as a product over the axes. In one dimension
:math:`K[p] = E[p] - i\,O[p]`. Every real tensor of that shape is the spectrum of a real kernel, so no Hermitian
symmetry has to be kept, and a lower resolution uses its corner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, Size, as_size, axis_bands, band, coefficient_bands, spatial_size
from fourierscale.functional.constants import constant
from fourierscale.functional.resample import corner
from fourierscale.functional.transform import apply_matrix, waves


def local_spectrum(taps: Tensor, reference_size: Size, size: Size | None = None) -> Tensor:
    r"""Spectrum of centred taps that live on the reference grid.

    .. math:: K[p] = \sum_n k^l[n] \, e^{-2\pi i p (n - c) / d}, \qquad c = \lfloor l / 2 \rfloor

    Taps have a spectrum at every frequency, so ``size`` may be below or above the reference grid.

    Args:
        taps: ``(..., l_1, ..., l_d)``, real, at most as large as the reference grid.
        reference_size: Grid ``d`` on which one tap is one sample.
        size: Grid whose band is wanted; default: the reference grid.

    Returns:
        Even and odd parts ``(..., 2K_1+1, ..., 2K_d+1)``, see the module.

    >>> local_spectrum(torch.ones(1, 1, 1, 1), 28, 5)[0, 0]  # a single centred tap: 1 at every frequency
    tensor([[1., 1., 0., 1., 0.],
            [1., 1., 0., 1., 0.],
            [0., 0., 0., 0., 0.],
            [1., 1., 0., 1., 0.],
            [0., 0., 0., 0., 0.]])
    """
    reference, target = _check_kernel(taps, reference_size, size)
    for axis in range(-len(target), 0):
        matrix = tap_matrix(taps.shape[axis], reference[axis], target[axis], taps.dtype, taps.device)
        taps = apply_matrix(matrix, taps, axis)
    return taps


def local_spectrum_from_dft(kernel_dft: Tensor, reference_size: Size, size: Size | None = None) -> Tensor:
    r"""The paper's closed form (Eq. 13): the spectrum of a local kernel from the DFT :math:`K^l` of its taps.

    .. math:: K[p] = e^{2\pi i p c / d} \sum_m K^l[m] \, D_l\!\left(\tfrac pd - \tfrac ml\right), \qquad
        D_l(q) = \sum_{n=0}^{l-1} e^{-2\pi i n q} = e^{-i\pi q (l-1)} \frac{\sin \pi l q}{\sin \pi q}

    with :math:`k^l[n] = \sum_m K^l[m] e^{2\pi i m n / l}`, the paper's normalisation. The paper's factor
    :math:`1/d` belongs to its DFT and is left out, so that this equals ``local_spectrum`` of the taps; the phase in
    front puts the centre tap on the origin. Of a free complex :math:`K^l` only the part that belongs to real taps
    counts, the rest could only reach the imaginary part of an image.

    Args:
        kernel_dft: Complex ``(..., l_1, ..., l_d)`` in the order of ``torch.fft.fftn(taps, norm="forward")``.
        reference_size: Grid ``d`` on which one tap is one sample.
        size: Grid whose band is wanted; default: the reference grid.
    """
    reference, target = _check_kernel(kernel_dft, reference_size, size)
    spectrum = kernel_dft
    for axis in range(-len(target), 0):
        matrix = dirichlet_matrix(spectrum.shape[axis], reference[axis], target[axis], spectrum.dtype, spectrum.device)
        spectrum = apply_matrix(matrix, spectrum, axis)
    return spectrum.real


def fourier_conv(coeffs: Tensor, spectrum: Tensor) -> Tensor:
    r"""Circular convolution with a kernel given by its spectrum (the paper's Eq. 11).

    .. math:: Y[p]_{c'} = \sum_c K[p]_{c'c} \, X[p]_c

    Args:
        coeffs: ``(..., C_in, 2K_1+1, ..., 2K_d+1)``.
        spectrum: ``(C_out, C_in, 2K_1+1, ..., 2K_d+1)``; frequencies beyond those of ``coeffs`` are ignored.

    >>> x = torch.randn(1, 2, 27, 27)
    >>> identity = local_spectrum(torch.eye(2)[:, :, None, None], 28)
    >>> torch.allclose(fourier_conv(x, identity), x, atol=1e-6)
    True
    """
    axes = spectrum.ndim - 2
    if axes < 1:
        raise ValueError(f"spectrum must be (out, in, frequencies...), got shape {tuple(spectrum.shape)}")
    have, known = coefficient_bands(coeffs, axes), coefficient_bands(spectrum, axes, "spectrum")
    if coeffs.ndim <= axes or coeffs.shape[-axes - 1] != spectrum.shape[1]:
        raise ValueError(
            f"the spectrum mixes {spectrum.shape[1]} input channels, "
            f"got coefficients of shape {tuple(coeffs.shape)}: expected (..., {spectrum.shape[1]}, frequencies...)"
        )
    if any(k > limit for k, limit in zip(have, known, strict=True)):
        raise ValueError(f"the spectrum is known up to band {known}, the input has {have}: make it for that size")
    # Frequencies first, then rows [real parts; imaginary parts] of the batch: one batched product per part of K.
    x = _half_space(coeffs, axes)  # (2, ..., C_in, frequencies)
    x = x.movedim(tuple(range(-axes, 0)), tuple(range(axes)))  # (frequencies, 2, ..., C_in)
    rows = x.flatten(axes, -2)  # (frequencies, 2 B, C_in)
    k = _half_space(_even_odd_to_orthonormal(spectrum[corner(have)], axes), axes)
    real, imag = k.movedim((1, 2), (-1, -2)).contiguous()  # each (frequencies, C_in, C_out)
    by_real, by_imag = (torch.unflatten(rows @ part, -2, x.shape[axes:-1]) for part in (real, imag))
    (re_re, im_re), (re_im, im_im) = by_real.unbind(axes), by_imag.unbind(axes)
    y = torch.stack([re_re - im_im, re_im + im_re])  # (2, frequencies, ..., C_out)
    return _from_half_space(y.movedim(tuple(range(1, axes + 1)), tuple(range(-axes, 0))), axes)


def delta_spectrum(weight: Tensor, size: Sequence[int]) -> Tensor:
    """Spectrum of a pointwise (1x1) kernel ``(C_out, C_in)``: the same mixing at every frequency."""
    return local_spectrum(weight.reshape(*weight.shape, *(1,) * len(size)), size)


@constant
def tap_matrix(taps: int, reference: int, band: int) -> Tensor:
    """Rows ``[1, cos, sin, ...]`` at the positions of centred taps, ``(2K+1, taps)``."""
    positions = torch.arange(taps, dtype=torch.float64) - taps // 2
    return waves(positions / reference, band).mT.contiguous()


@constant
def dirichlet_matrix(taps: int, reference: int, band: int) -> Tensor:
    """What each entry of the taps' DFT adds to the even and odd parts, ``(2K+1, taps)``, complex."""
    m = torch.arange(taps, dtype=torch.float64)

    def side(p: Tensor) -> Tensor:  # e^{2 pi i p c / d} D_l(p / d - m / l)
        q = p[:, None] / reference - m / taps
        sine = torch.sin(math.pi * q)
        ratio = torch.where(sine.abs() < 1e-12, taps * torch.cos(math.pi * q * (taps - 1)), _ratio(q, taps))
        phase = 2 * math.pi * p[:, None] * (taps // 2) / reference - math.pi * q * (taps - 1)
        return torch.polar(torch.ones_like(phase), phase) * ratio

    p = torch.arange(band + 1, dtype=torch.float64)
    plus, minus = side(p), side(-p)
    even, odd = (plus + minus) / 2, 1j * (plus - minus) / 2
    return torch.cat([even[:1], torch.stack([even[1:], odd[1:]], dim=1).flatten(0, 1)])


def _ratio(q: Tensor, taps: int) -> Tensor:
    sine = torch.sin(math.pi * q)
    return torch.sin(math.pi * taps * q) / torch.where(sine.abs() < 1e-12, torch.ones_like(sine), sine)


def _check_kernel(kernel: Tensor, reference_size: Size, size: Size | None) -> tuple[Box, Box]:
    reference = as_size(reference_size)
    target = axis_bands(reference if size is None else as_size(size))
    if not kernel.is_complex():
        spatial_size(kernel, len(reference), "kernel")
    taps = tuple(kernel.shape[-len(reference) :])
    if len(target) != len(reference) or len(taps) != len(reference):
        raise ValueError(f"kernel, reference size {reference} and size {size} need the same number of axes")
    if any(n > d for n, d in zip(taps, reference, strict=True)):
        raise ValueError(
            f"a kernel of {taps} taps does not fit on the reference grid {reference}: "
            "use fewer taps or a larger reference_size"
        )
    return reference, target


def _even_odd_to_orthonormal(spectrum: Tensor, axes: int) -> Tensor:
    """Scale even and odd parts so that ``_half_space`` turns them into ``K[p]`` itself."""
    for axis in range(-axes, 0):
        norms = basis_norms(spectrum.shape[axis], spectrum.dtype, spectrum.device)
        spectrum = spectrum * norms.reshape(-1, *(1,) * (-axis - 1))
    return spectrum


@constant
def basis_norms(length: int) -> Tensor:
    """``[1, sqrt 2, sqrt 2, ...]``: what turns plain cosines and sines into the orthonormal basis."""
    return torch.tensor([1.0] + [math.sqrt(2)] * (length - 1), dtype=torch.float64)


def _half_space(coeffs: Tensor, axes: int) -> Tensor:
    r"""Real coefficients to complex ones, ``(2, ..., p_1, ..., p_d)``: real and imaginary parts, stacked first.

    The last axis keeps :math:`p \ge 0`, the others are ordered ``0, +1, -1, +2, -2, ...``.
    """
    half = math.sqrt(0.5)
    cosine, sine = _split(half * coeffs, -1)
    real = torch.cat([coeffs[..., :1], cosine], -1)
    imag = torch.cat([torch.zeros_like(coeffs[..., :1]), -sine], -1)
    for axis in range(-axes, -1):
        a_re, b_re = _split(half * real, axis)
        a_im, b_im = _split(half * imag, axis)
        real = torch.cat([real.narrow(axis, 0, 1), _interleave(a_re + b_im, a_re - b_im, axis)], axis)
        imag = torch.cat([imag.narrow(axis, 0, 1), _interleave(a_im - b_re, a_im + b_re, axis)], axis)
    return torch.stack([real, imag])


def _from_half_space(spectrum: Tensor, axes: int) -> Tensor:
    """Inverse of :func:`_half_space`."""
    half = math.sqrt(0.5)
    real, imag = spectrum.unbind(0)
    for axis in range(-2, -axes - 1, -1):
        p_re, m_re = _split(half * real, axis)
        p_im, m_im = _split(half * imag, axis)
        real = torch.cat([real.narrow(axis, 0, 1), _interleave(p_re + m_re, m_im - p_im, axis)], axis)
        imag = torch.cat([imag.narrow(axis, 0, 1), _interleave(p_im + m_im, p_re - m_re, axis)], axis)
    pairs = _interleave(real[..., 1:], -imag[..., 1:], -1)
    return torch.cat([real[..., :1], math.sqrt(2) * pairs], -1)


def _split(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The entries 1, 3, 5, ... and 2, 4, 6, ... of an axis of odd length."""
    k = band(x.shape[axis])
    pairs = torch.unflatten(x.narrow(axis, 1, 2 * k), axis, (k, 2))
    first, second = pairs.unbind(axis)
    return first, second


def _interleave(first: Tensor, second: Tensor, axis: int) -> Tensor:
    return torch.stack([first, second], axis).flatten(axis - 1, axis)
