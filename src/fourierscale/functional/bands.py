r"""How a grid size becomes a band, and how coefficients are ordered. Nobody else writes these formulas.

A grid of :math:`n` samples holds the frequencies :math:`|k| \le (n - 1) // 2`: strictly below Nyquist. The Nyquist
bin of an even grid is always dropped, because :math:`+n/2` and :math:`-n/2` share one bin and no real signal can
tell them apart. This rule is what makes ideal downscaling compose exactly.

What lies beyond the image's edge decides how long one period is (:func:`period`): the image itself, the image and its
mirror image, or a larger canvas. The band is that of the period; what works on coefficients sees the period alone.

Along each axis the coefficients are ordered ``[1, cos 1, sin 1, cos 2, sin 2, ...]``, coarse to fine, so that the
coefficients of a lower resolution are the leading corner.
"""

from __future__ import annotations

import math
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

Boundary: TypeAlias = str
"""What lies beyond the image's edge: ``"circular"``, ``"mirror"``, or ``"canvas"``, with its pad and fill if they are
to differ from ``"canvas:0.5:zero"``. See :func:`fourierscale.functional.extend`."""

FILLS = ("zero", "edge", "fade")
"""What fills a canvas beside the image."""


def period(n: int, boundary: Boundary = "circular") -> int:
    """Samples in one period of an axis of ``n`` samples.

    >>> period(28), period(28, "mirror"), period(28, "canvas"), period(28, "canvas:0.25")
    (28, 56, 42, 35)
    """
    if boundary == "circular":
        return n
    if boundary == "mirror":
        return 2 * n
    return n + math.floor(canvas(boundary)[0] * n + 0.5)


def inside(samples: int, boundary: Boundary = "circular") -> int:
    """How many of a period's samples lie on the image, the inverse of :func:`period`, rounded up.

    >>> inside(28), inside(56, "mirror"), inside(42, "canvas")
    (28, 28, 28)
    """
    if boundary == "circular":
        return samples
    if boundary == "mirror":
        return -(-samples // 2)
    return math.ceil(samples / (1 + canvas(boundary)[0]))


def canvas(boundary: Boundary) -> tuple[float, str]:
    """Pad, as a share of the image's side, and fill of a canvas; refuses a boundary that does not exist.

    >>> canvas("canvas"), canvas("canvas:0.25"), canvas("canvas:1:edge")
    ((0.5, 'zero'), (0.25, 'zero'), (1.0, 'edge'))
    """
    kind, _, rest = str(boundary).partition(":")
    pad, _, fill = rest.partition(":")
    try:
        share = float(pad) if pad else 0.5
    except ValueError:
        share = -1.0
    if kind != "canvas" or not 0 <= share <= 4 or (fill or FILLS[0]) not in FILLS:
        raise ValueError(
            f"unknown boundary {boundary!r}: choose circular, mirror or canvas, such as 'canvas:0.5:zero' "
            f"with a pad from 0 to 4 and one of the fills {', '.join(FILLS)}"
        )
    return share, fill or FILLS[0]


def check_boundary(boundary: Boundary) -> Boundary:
    """The boundary itself, after refusing one that does not exist."""
    period(1, boundary)
    return boundary


def band(n: int, boundary: Boundary = "circular") -> int:
    r"""Highest frequency that a grid of ``n`` samples holds, strictly below Nyquist of its period :math:`N`.

    .. math:: K = \lfloor (N - 1) / 2 \rfloor

    >>> band(27), band(28), band(1)
    (13, 13, 0)
    >>> band(27, "mirror"), band(28, "mirror")  # nothing is dropped
    (26, 27)
    """
    if n < 1:
        raise ValueError(f"a grid needs at least 1 sample per axis, got {n}")
    return (period(n, boundary) - 1) // 2


def grid(band: int, boundary: Boundary = "circular") -> int:
    """Fewest samples that hold ``band``; for a circular boundary this is also its number of real coefficients.

    >>> grid(13), grid(0), grid(27, "mirror")
    (27, 1, 28)
    """
    samples = 2 * band + 1
    n = inside(samples, boundary)
    while n > 1 and period(n - 1, boundary) >= samples:
        n -= 1
    return n if period(n, boundary) >= samples else n + 1


def widest(band: int, boundary: Boundary = "circular") -> int:
    """Most samples whose band is ``band``: the even grid of the two that share it, where the boundary is circular.

    >>> widest(13), widest(13, "mirror")
    (28, 14)
    """
    n = grid(band, boundary)
    while period(n + 1, boundary) <= 2 * band + 2:
        n += 1
    return n


def axis_bands(size: Sequence[int], boundary: Boundary = "circular") -> Box:
    """Band of every axis of a grid.

    >>> axis_bands((28, 33))
    (13, 16)
    """
    return tuple(band(n, boundary) for n in size)


def grids(bands: Sequence[int]) -> Box:
    """Smallest circular grid that holds a band on every axis; the shape of its coefficients.

    >>> grids((13, 16))
    (27, 33)
    """
    return tuple(grid(k) for k in bands)


@constant
def frequencies(length: int) -> Tensor:
    """Frequency of each of ``length`` coefficients: ``[0, 1, 1, 2, 2, ...]``; call with a dtype and a device too."""
    return (torch.arange(length, dtype=torch.float64) + 1) // 2


def as_size(size: Size, axes: int | None = None) -> Box:
    """Normalise a size: an int ``n`` means the square two-dimensional grid ``(n, n)``, or ``axes`` axes of ``n``.

    >>> as_size(28), as_size([16]), as_size((8, 9, 10)), as_size(16, axes=3)
    ((28, 28), (16,), (8, 9, 10), (16, 16, 16))
    """
    if axes is not None and axes < 1:
        raise ValueError(f"axes must be 1 or more, got {axes}")
    if axes is not None and isinstance(size, Sequence) and len(size) != axes:
        raise ValueError(f"expected a size for {axes} axes, got {size!r}")
    try:
        box = tuple(operator.index(n) for n in (size if isinstance(size, Sequence) else (size,) * (axes or 2)))
        if isinstance(size, bool):
            raise TypeError
    except TypeError:
        raise TypeError(f"a size is an int or a sequence of ints, got {size!r}") from None
    if not box:
        raise ValueError("a size needs at least one axis, got an empty sequence")
    if min(box) < 1:
        raise ValueError(f"a grid needs at least 1 sample per axis, got size {box}")
    return box


def spatial_size(x: Tensor, axes: int, what: str = "image") -> Box:
    """Size of the last ``axes`` axes, after refusing what is not a real, non-empty floating-point tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{what} must be a tensor, got {type(x).__name__}: convert it first, torch.as_tensor(x)")
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
    return axis_bands(shape)
