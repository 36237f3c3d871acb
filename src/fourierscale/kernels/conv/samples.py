r"""A local convolution on samples of its reference grid, the same function as by its spectrum.

Coefficients of a band that the reference grid holds, synthesised there, convolved around the edge by torch and
analysed again. Per image this costs ``taps`` products a sample where a spectrum costs one product a frequency; but a
spectrum has as many numbers as there are frequencies and pairs of channels, all of which are made or read once for a
batch. So few images with many channels are convolved on samples, many images by the spectrum. :func:`choose_way` knows
which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from fourierscale.functional.bands import band
from fourierscale.functional.constants import constant
from fourierscale.functional.transform import analysis_matrix, synthesis_matrix
from fourierscale.kernels.conv.spectra import ENTRIES_KEPT
from fourierscale.kernels.products import down

Way: TypeAlias = Literal["pointwise", "samples", "spectrum"]
"""One matrix for all frequencies, on samples, or by the spectrum."""

READ, MADE, MIXED, SPREAD = 0.2, 0.8, 0.035, 1.3
"""By the spectrum, in nanoseconds of one core (AMD EPYC, Zen 5, float32): to read an entry, or to make it from taps, to
mix it with an image, and to bring a coefficient to the order of frequencies and back. Ratios alone matter."""

CONVOLVED, TRANSFORMED, COPIED = 0.0085, 0.02, 1.0
"""On samples: a multiplication of the convolution, one of the transforms around it, and to move a sample."""


def choose_way(x: Tensor, shape: Sequence[int], reference: Sequence[int], kept: bool) -> Way:
    """How coefficients ``(..., C_in, 2K_1+1, ...)`` are convolved with local taps.

    Args:
        x: The coefficients.
        shape: That of the taps, ``(C_out, C_in, l_1, ..., l_d)``.
        reference: Grid on which one tap is one sample.
        kept: Whether a spectrum that is not too large is kept for many calls.

    >>> choose_way(torch.zeros(1, 128, 47, 47), (256, 128, 5, 5), (48, 48), kept=True)
    'samples'
    >>> choose_way(torch.zeros(128, 64, 27, 27), (100, 64, 5, 5), (28, 28), kept=False)
    'spectrum'
    """
    out_channels, in_channels, *taps = shape
    size = x.shape[-len(taps) :]
    if math.prod(taps) == 1:
        return "pointwise"
    held = all(n <= 2 * band(d) + 1 for n, d in zip(size, reference, strict=True))
    if len(taps) != 2 or x.device.type != "cpu" or not held:
        return "spectrum"
    images, channels, pairs = math.prod(x.shape[:-3]), in_channels + out_channels, in_channels * out_channels
    coefficients, samples = math.prod(size), math.prod(reference)
    entry = READ if kept and pairs * coefficients <= ENTRIES_KEPT else MADE
    by_spectrum = coefficients * (pairs * (entry + images * MIXED) + images * channels * SPREAD)
    transforms = channels * reference[0] * size[1] * (size[0] + reference[1])
    convolution = math.prod(taps) * pairs * samples
    on_samples = images * (CONVOLVED * convolution + TRANSFORMED * transforms + COPIED * channels * samples)
    return "samples" if on_samples < by_spectrum else "spectrum"


def pointwise(x: Tensor, taps: Tensor) -> Tensor:
    """One tap: the same matrix at every frequency, ``(n_1, ..., n_d, B, C_in)`` to ``(n_1, ..., n_d, B, C_out)``."""
    return torch.nn.functional.linear(x, taps.flatten(1))


def conv_samples(x: Tensor, taps: Tensor, reference: Sequence[int]) -> Tensor:
    """Convolve ``(n_1, n_2, B, C_in)`` with centred taps ``(C_out, C_in, l_1, l_2)`` to ``(n_1, n_2, B, C_out)``."""
    like = x.dtype, x.device
    size, shape = x.shape[:2], x.shape[2:]
    around = [
        around_matrix(d, band(n), taken, *like) for d, n, taken in zip(reference, size, taps.shape[2:], strict=True)
    ]
    samples = torch.unflatten(around[1] @ down(around[0], x.flatten(2)), -1, shape)  # (d_1 + l_1 - 1, ..., B, C)
    weight = taps.flip((2, 3)).contiguous(memory_format=torch.channels_last)
    y = torch.nn.functional.conv2d(samples.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last), weight)
    y = y.permute(2, 3, 0, 1).flatten(2)  # (d_1, d_2, B * C_out)
    back = [analysis_matrix(d, band(n), *like) for d, n in zip(reference, size, strict=True)]
    return torch.unflatten(back[1] @ down(back[0], y), -1, (shape[0], len(taps)))


@constant
def around_matrix(n: int, band: int, taps: int) -> Tensor:
    """Synthesis on ``n`` samples and on those that taps reach beyond them on either side, ``(n + taps - 1, 2K+1)``."""
    places = torch.arange(-(taps - 1 - taps // 2), n + taps // 2) % n
    return synthesis_matrix(n, band, torch.float64, torch.device("cpu"))[places]
