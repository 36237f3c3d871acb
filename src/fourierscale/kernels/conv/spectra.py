"""Spectra of kernels as the products take them, made from taps or from even and odd parts, and kept between calls.

A kernel is ``(G, r, C_in, C_out)``. Where it comes with a matrix ``expand (2, n_1, r)`` for the first axis, ``expand[0]
@ kernel`` is the real part of the spectrum and ``expand[1] @ kernel`` the imaginary part: the spectrum of taps is made
in pieces that stay in the cache, and again in the backward pass, and never stored as a whole. Without a matrix ``r`` is
2, and the kernel is the spectrum itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fourierscale.functional.bands import band
from fourierscale.functional.constants import constant
from fourierscale.kernels.conv.butterflies import spread

ENTRIES_KEPT = 2**25
"""Entries of the spectra that a layer keeps at most."""


class Spectra:
    """Spectra of one layer by their size, for as long as the parameters they were made from stay what they are.

    A parameter that is another tensor, lies elsewhere or was changed in place is noticed. On a CPU so is a change that
    leaves no trace, by a fused optimizer or a write to ``parameter.data``: the values are compared. On a GPU that would
    wait for it at every call; there a layer has to :meth:`forget` whenever its parameters may have changed.
    """

    def __init__(self) -> None:
        self._made_from: list[tuple[Tensor, int, int, Tensor | None]] = []
        self._by_size: dict[tuple[int, ...], Tensor] = {}

    def __len__(self) -> int:
        return len(self._by_size)

    def forget(self) -> None:
        """Drop all."""
        self._made_from, self._by_size = [], {}

    def hold(self, parameters: Sequence[Tensor]) -> Spectra:
        """Itself, without what was made from other parameters than these."""
        known = self._made_from
        if len(known) != len(parameters) or not all(map(_is_same, known, parameters)):
            self.forget()
            self._made_from = [
                (each, each.data_ptr(), each._version, each.detach().clone() if each.device.type == "cpu" else None)
                for each in parameters
            ]
        return self

    def get(self, size: tuple[int, ...], make: Callable[[], Tensor]) -> Tensor:
        """The spectrum of a size, made if it is not there; at most :data:`ENTRIES_KEPT` numbers are kept."""
        by_size = self._by_size  # another thread may forget meanwhile, and gets others then
        kept = by_size.get(size)
        if kept is not None:
            return kept
        spectrum = make()
        if self.entries() + spectrum.numel() > ENTRIES_KEPT:
            by_size.clear()
        if spectrum.numel() <= ENTRIES_KEPT:
            by_size[size] = spectrum
        return spectrum

    def entries(self) -> int:
        """How many numbers are kept."""
        return sum(spectrum.numel() for spectrum in list(self._by_size.values()))


def _is_same(known: tuple[Tensor, int, int, Tensor | None], now: Tensor) -> bool:
    """Whether a parameter is what it was, as far as can be told without waiting for a GPU."""
    before, place, version, values = known
    if now is not before or (now.data_ptr(), now._version) != (place, version):
        return False
    return values is None or torch.equal(values, now)


def tap_kernel(taps: Tensor, reference: Sequence[int], size: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    r"""Spectrum of taps along every axis but the first, and the matrix for the first.

    The last axis keeps the frequencies :math:`q \ge 0`, the others :math:`0, +1, -1, +2, \dots`.

    Args:
        taps: ``(C_out, C_in, l_1, ..., l_d)``, centred, for convolution.
        reference: Grid on which one tap is one sample.
        size: Number of coefficients per axis.

    Returns:
        The kernel, and the matrix that it comes with.
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
