r"""Between images and real Fourier coefficients.

Per axis the basis is :math:`[1, \sqrt2 \cos t, \sqrt2 \sin t, \sqrt2 \cos 2t, \dots]` with :math:`t = 2\pi j / n` at
sample :math:`j`: orthonormal under the mean, so the mean of :math:`x^2` over any grid that holds the band is the sum
of the squared coefficients (Parseval), and the mean of :math:`x` is the first coefficient.

That is one period; what of it is the image, and what lies beyond the image's edge, is the boundary's matter
(:mod:`fourierscale.functional.boundary`): ``t`` is measured along the period, and under ``"mirror"`` the samples lie
half a sample beside the axis of symmetry, so that the image has cosines alone.

Each axis is transformed by a matrix product on small grids and by a real FFT on large ones. Both give the same
coefficients; which one runs is a matter of speed alone (``fourierscale bench transforms`` measures where they cross).
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import (
    Boundary,
    Size,
    as_size,
    axis_bands,
    band,
    coefficient_bands,
    grid,
    period,
    spatial_size,
)
from fourierscale.functional.boundary import extend_axis
from fourierscale.functional.constants import constant

FFT_FROM = {"cpu": 224, "cuda": 2304, "export": 4097}
"""Grid size per device type from which an axis is transformed by FFT. Measured by ``fourierscale bench transforms``;
what is exported has products for as long as their matrices can be carried along."""


def analyze(x: Tensor, axes: int = 2, size: Size | None = None, boundary: Boundary = "circular") -> Tensor:
    r"""Real Fourier coefficients of an image: :math:`C = A^\top x A` in two dimensions.

    .. math:: C[k] = \frac1{n} \sum_j x[j] \, b_k(2\pi j / n), \qquad
        b = [1, \sqrt2\cos t, \sqrt2\sin t, \sqrt2\cos 2t, \dots] \text{ per axis}

    The Nyquist bin of an even axis is dropped: it is not in the band of the grid. Under another boundary than the
    circular one the image is first extended to one period; under ``"mirror"`` this is the cosine transform (DCT-II)

    .. math:: C[k] = \frac{\sqrt 2^{[k > 0]}}{n} \sum_j x[j] \, \cos\big(\pi k (j + \tfrac12) / n\big), \quad k < n

    with a zero at every sine.

    Args:
        x: Image ``(..., n_1, ..., n_d)``, real.
        axes: Number ``d`` of spatial axes, the last ones.
        size: Keep only the frequencies that a grid of this size holds (``crop`` for free); default: all of them.
        boundary: What lies beyond the image's edge: ``"circular"``, ``"mirror"`` or ``"canvas"``.

    Returns:
        ``(..., 2K_1+1, ..., 2K_d+1)`` with ``K = band(n, boundary)`` per axis.

    >>> analyze(torch.ones(1, 3, 28, 33)).shape
    torch.Size([1, 3, 27, 33])
    >>> analyze(torch.ones(1, 3, 28, 33), boundary="mirror").shape
    torch.Size([1, 3, 55, 65])
    """
    n = spatial_size(x, axes)
    keep = axis_bands(n, boundary)
    if size is not None:
        keep = axis_bands(as_size(size), boundary)
        if len(keep) != axes or any(k > band(m, boundary) for k, m in zip(keep, n, strict=True)):
            raise ValueError(f"an image of size {n} does not hold the band of size {as_size(size)}")
    for axis in range(-axes, 0):
        x = _analyze_axis(x, axis, keep[axis], boundary)
    return x


def synthesize(coeffs: Tensor, size: Size, boundary: Boundary = "circular") -> Tensor:
    r"""Sample the trigonometric polynomial with these coefficients on a grid: :math:`x = B C B^\top`.

    .. math:: x[j] = \sum_k C[k] \, b_k(2\pi j / n)

    A grid larger than the band is ideal upscaling, ``synthesize(analyze(x), n)`` is ``x`` itself when ``x`` is
    band-limited. A grid too small for the band is legal and aliases, as sampling does.

    Args:
        coeffs: ``(..., 2K_1+1, ..., 2K_d+1)``.
        size: Grid ``(n_1, ..., n_d)``; an int means a square two-dimensional grid.
        boundary: What lies beyond the image's edge; of one period only the image itself is sampled.

    >>> synthesize(torch.ones(1, 1, 1, 1), 3)
    tensor([[[[1., 1., 1.],
              [1., 1., 1.],
              [1., 1., 1.]]]])
    """
    n = as_size(size)
    coefficient_bands(coeffs, len(n))
    for axis in range(-len(n), 0):
        coeffs = _synthesize_axis(coeffs, axis, n[axis], boundary)
    return coeffs


def widened(x: Tensor) -> Tensor:
    """Single precision as double, for a transform at the door of a net: its rounding is amplified by all layers.

    Anything else, a device without double precision, and a program that is being exported stay as they are.
    """
    wide = x.dtype is torch.float32 and x.device.type in ("cpu", "cuda", "meta") and not is_exporting()
    return x.double() if wide else x


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Autocast is off for a while, where it is on (the meta device has none, exporters stumble over it)."""
    kind = x.device.type
    active = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if active else nullcontext()


def is_exporting() -> bool:
    """Whether a program is being exported: it is to contain plain operators alone."""
    return torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None


def apply_matrix(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """Multiply along one negative ``axis``: ``y[..., i, ...] = sum_j matrix[i, j] x[..., j, ...]``."""
    if axis == -1:
        return x @ matrix.mT
    tail = x.shape[axis + 1 :]
    return torch.unflatten(matrix @ x.flatten(axis + 1), -1, tail)


def waves(angles: Tensor, band: int) -> Tensor:
    """Columns ``[1, cos t, sin t, cos 2t, ...]`` up to ``band`` at angles in turns, ``(len(angles), 2K+1)``."""
    turns = torch.outer(angles, torch.arange(1, band + 1, dtype=angles.dtype))
    t = (turns - turns.round()) * (2 * math.pi)
    pairs = torch.stack([t.cos(), t.sin()], dim=-1).flatten(1)
    return torch.cat([torch.ones_like(angles)[:, None], pairs], dim=1)


@constant
def synthesis_matrix(n: int, band: int, boundary: Boundary = "circular") -> Tensor:
    """``B``: the basis sampled on the ``n`` points of an image, ``(n, 2K+1)``."""
    # In half samples of the period; exact: integers before the division.
    halves = 2 * torch.arange(n) + (1 if boundary == "mirror" else 0)
    whole = 2 * period(n, boundary)
    turns = halves[:, None] * torch.arange(1, band + 1) % whole
    t = turns.double() * (2 * math.pi / whole)
    pairs = math.sqrt(2) * torch.stack([t.cos(), t.sin()], dim=-1).flatten(1)
    return torch.cat([torch.ones(n, 1, dtype=torch.float64), pairs], dim=1)


@constant
def analysis_matrix(n: int, band: int, boundary: Boundary = "circular") -> Tensor:
    """``A^T``: the mean over one period with each basis function, ``(2K+1, n)``; a left inverse of ``B``.

    For a circular boundary that is the transpose of the basis divided by ``n``.
    """
    if boundary in ("circular", "mirror"):
        matrix = synthesis_matrix(n, band, boundary, torch.float64, torch.device("cpu")) / n
        if boundary == "mirror":  # both halves of the period have the same mean with a cosine, and cancel with a sine
            matrix[:, 2::2] = 0
        return matrix.mT.contiguous()
    whole = period(n, boundary)
    matrix = synthesis_matrix(whole, band, torch.float64, torch.device("cpu")) / whole
    return matrix.mT @ extend_axis(torch.eye(n, dtype=torch.float64), -2, boundary)


def uses_fft(n: int, x: Tensor) -> bool:
    """Whether an axis of ``n`` samples is transformed by FFT on this tensor's device, or in what is exported."""
    return n >= FFT_FROM.get("export" if is_exporting() else x.device.type, FFT_FROM["cpu"])


def _analyze_axis(x: Tensor, axis: int, keep: int, boundary: Boundary) -> Tensor:
    n = x.shape[axis]
    if not uses_fft(period(n, boundary), x):
        return apply_matrix(analysis_matrix(n, keep, boundary, x.dtype, x.device), x, axis)
    whole = extend_axis(_fft_dtype(x), axis, boundary).movedim(axis, -1)
    spectrum = torch.fft.rfft(whole, norm="forward")[..., : keep + 1]
    if boundary == "mirror":
        cosines = (spectrum * half_sample(whole.shape[-1], keep, whole.dtype, x.device).conj()).real
        spectrum = torch.complex(cosines, torch.zeros_like(cosines))
    pairs = math.sqrt(2) * torch.stack([spectrum.real[..., 1:], -spectrum.imag[..., 1:]], dim=-1).flatten(-2)
    return torch.cat([spectrum.real[..., :1], pairs], dim=-1).to(x.dtype).movedim(-1, axis)


def _synthesize_axis(coeffs: Tensor, axis: int, n: int, boundary: Boundary) -> Tensor:
    k = band(coeffs.shape[axis])
    whole = period(n, boundary)
    if not uses_fft(whole, coeffs) or whole < grid(k):  # the inverse FFT cannot alias
        return apply_matrix(synthesis_matrix(n, k, boundary, coeffs.dtype, coeffs.device), coeffs, axis)
    c = _fft_dtype(coeffs).movedim(axis, -1)
    pairs = c[..., 1:].reshape(*c.shape[:-1], k, 2) / math.sqrt(2)
    real = torch.cat([c[..., :1], pairs[..., 0]], dim=-1)
    imag = torch.cat([torch.zeros_like(c[..., :1]), -pairs[..., 1]], dim=-1)
    spectrum = torch.complex(real, imag)
    if boundary == "mirror":
        spectrum = spectrum * half_sample(whole, k, c.dtype, c.device)
    x: Tensor = torch.fft.irfft(spectrum, n=whole, norm="forward")[..., :n]
    return x.to(coeffs.dtype).movedim(-1, axis)


def half_sample(whole: int, band: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Phase of each frequency half a sample further on a period of ``whole`` samples, complex."""
    t = torch.arange(band + 1, dtype=dtype, device=device) * (math.pi / whole)
    return torch.complex(t.cos(), t.sin())


def _fft_dtype(x: Tensor) -> Tensor:
    """FFTs exist for float32 and float64 alone."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
