r"""Shifts of images and of features by any fraction of their side, exact on their coefficients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fourierscale.auditing.compare import Form, Rows, compare_outputs, rows
from fourierscale.functional import analyze, band, synthesize

__all__ = ["compare_shifted", "shift_coefficients", "shift_image"]


def shift_coefficients(coeffs: Tensor, fraction: float) -> Tensor:
    r"""Move a periodic map right and down by a fraction of its side.

    Each pair of a frequency turns: with :math:`s = 2\pi k \cdot` ``fraction``,

    .. math:: a' = a \cos s - b \sin s, \qquad b' = a \sin s + b \cos s

    Args:
        coeffs: ``(..., 2K_1+1, 2K_2+1)``.
        fraction: Shift as a fraction of the side, the same on both axes.

    >>> x = torch.rand(1, 1, 9, 9)
    >>> moved = synthesize(shift_coefficients(analyze(x), 2 / 9), 9)
    >>> torch.allclose(moved, x.roll((2, 2), (-2, -1)), atol=1e-6)
    True
    """
    for axis in (-2, -1):
        c = coeffs.movedim(axis, -1)
        k = torch.arange(1, band(c.shape[-1]) + 1, dtype=torch.float64, device=c.device)
        cos, sin = ((2 * math.pi * fraction * k).cos().to(c.dtype), (2 * math.pi * fraction * k).sin().to(c.dtype))
        a, b = c[..., 1::2], c[..., 2::2]
        pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        coeffs = torch.cat([c[..., :1], pairs], -1).movedim(-1, axis)
    return coeffs


def shift_image(x: Tensor, pixels: float) -> Tensor:
    """Move periodic images right and down; the Nyquist bin, which half a pixel would erase, is dropped."""
    moved = shift_coefficients(analyze(x.double()), pixels / x.shape[-1])
    return synthesize(moved, tuple(x.shape[-2:])).to(x.dtype)


def compare_shifted(features: Tensor, of_shifted: Tensor, form: Form, pixels: float, size: int) -> Rows | str:
    """Shifted features against features of the shifted image; what has no map should not change at all.

    A map of samples is taken to have one sample per ``round(size / side)`` pixels, so that one whose border was cut off
    moves by the right amount; coefficients are of the whole image.

    Args:
        features: Output for the image ``(B, ...)``.
        of_shifted: Output for the shifted image, of the same shape.
        form: What they are.
        pixels: The shift.
        size: Side of the image.
    """
    a, b = features.detach().double(), of_shifted.detach().double()
    if form in ("levels", "vector"):
        return compare_outputs(a, b, form, 1.0)
    if form == "coefficients":
        return rows(shift_coefficients(a, pixels / size), b)
    side = int(a.shape[-1])
    per_sample = round(size / side) if side <= size else 1 / round(side / size)
    return rows(shift_coefficients(analyze(a), pixels / per_sample / side), analyze(b))
