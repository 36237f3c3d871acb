r"""How a grid size becomes a band, and how coefficients are ordered. Nobody else writes these formulas.

A grid of :math:`n` samples holds the frequencies :math:`|k| \le (n - 1) // 2`: strictly below Nyquist. The Nyquist
bin of an even grid is always dropped, because :math:`+n/2` and :math:`-n/2` share one bin and no real signal can
tell them apart. This rule is what makes ideal downscaling compose exactly.

Along each axis the coefficients are ordered ``[1, cos 1, sin 1, cos 2, sin 2, ...]``, coarse to fine, so that the
coefficients of a lower resolution are the leading corner.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from fourierscale.functional.constants import constant

Size: TypeAlias = int | Sequence[int]
"""A grid size: ``(n_1, ..., n_d)``, or an int ``n`` for the square two-dimensional grid ``(n, n)``."""

Box: TypeAlias = tuple[int, ...]
"""One integer per axis: a grid size or a band per axis."""


def band(n: int) -> int:
    r"""Highest frequency that a grid of ``n`` samples holds, strictly below Nyquist.

    .. math:: K = \lfloor (n - 1) / 2 \rfloor

    >>> band(27), band(28), band(1)
    (13, 13, 0)
    """
    if n < 1:
        raise ValueError(f"a grid needs at least 1 sample per axis, got {n}")
    return (n - 1) // 2


def grid(band: int) -> int:
    """Fewest samples that hold ``band``, which is also its number of real coefficients.

    >>> grid(13), grid(0)
    (27, 1)
    """
    return 2 * band + 1


def bands(size: Sequence[int]) -> Box:
    """Band of every axis of a grid.

    >>> bands((28, 33))
    (13, 16)
    """
    return tuple(band(n) for n in size)


def grids(bands: Sequence[int]) -> Box:
    """Smallest grid that holds a band on every axis; the shape of its coefficients.

    >>> grids((13, 16))
    (27, 33)
    """
    return tuple(grid(k) for k in bands)


@constant
def frequencies(length: int) -> Tensor:
    """Frequency of each of ``length`` coefficients: ``[0, 1, 1, 2, 2, ...]``; call with a dtype and a device too."""
    return (torch.arange(length, dtype=torch.float64) + 1) // 2


def as_size(size: Size) -> Box:
    """Normalise a size: an int ``n`` means the square two-dimensional grid ``(n, n)``.

    >>> as_size(28), as_size([16]), as_size((8, 9, 10))
    ((28, 28), (16,), (8, 9, 10))
    """
    try:
        box = tuple(operator.index(n) for n in (size if isinstance(size, Sequence) else (size, size)))
    except TypeError:
        raise TypeError(f"a size is an int or a sequence of ints, got {size!r}") from None
    if not box:
        raise ValueError("a size needs at least one axis, got an empty sequence")
    if min(box) < 1:
        raise ValueError(f"a grid needs at least 1 sample per axis, got size {box}")
    return box


def spatial_size(x: Tensor, axes: int, what: str = "image") -> Box:
    """Size of the last ``axes`` axes, after refusing what is not a real, non-empty floating-point tensor."""
    if x.is_complex():
        raise TypeError(
            f"{what} must be real, got {x.dtype}: features and coefficients are real here, "
            "so analyze the real image instead of its FFT"
        )
    if not x.is_floating_point():
        raise TypeError(f"{what} must be floating point, got {x.dtype}: convert it first, for example x.float() / 255")
    if x.ndim < axes:
        raise ValueError(f"{what} must have at least {axes} axes, got shape {tuple(x.shape)}")
    if 0 in x.shape:
        raise ValueError(f"{what} is empty, got shape {tuple(x.shape)}: every axis needs at least one element")
    return tuple(operator.index(n) for n in x.shape[-axes:])  # index: sizes are constants of a compiled graph


def coefficient_bands(coeffs: Tensor, axes: int, what: str = "coefficients") -> Box:
    """Band of each of the last ``axes`` axes of a coefficient tensor.

    Coefficients come in an odd number per axis, so an image of even size passed by mistake is noticed here.
    """
    shape = spatial_size(coeffs, axes, what)
    if any(n % 2 == 0 for n in shape):
        raise ValueError(
            f"{what} must have an odd number of entries per axis (1, cos 1, sin 1, ...), got shape "
            f"{tuple(coeffs.shape)}: if this is an image, pass it through analyze (ToCoefficients) first"
        )
    return bands(shape)
