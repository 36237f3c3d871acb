r"""Changing resolution: the crop that is ideal downscaling, ideal upscaling, and two non-ideal downscalings."""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.functional.bands import (
    Boundary,
    Box,
    Size,
    as_size,
    axis_bands,
    band,
    coefficient_bands,
    frequencies,
    grids,
    period,
    spatial_size,
)
from fourierscale.functional.constants import constant
from fourierscale.functional.transform import analyze, apply_matrix, synthesize, widened

Kind: TypeAlias = Literal["ideal", "gaussian", "bicubic"]
"""How to downscale; see :func:`downscale`."""


def crop(coeffs: Tensor, size: Size, boundary: Boundary = "circular") -> Tensor:
    r"""Ideal downscaling: keep the frequencies that a grid of ``size`` can hold.

    .. math:: \hat y[k] = \hat x[k] \quad \text{for } |k| < m / 2 \text{ on every axis}

    Crops compose: ``crop(crop(c, a), b) == crop(c, b)`` for ``b <= a``. The result is a view.

    Args:
        coeffs: ``(..., 2K_1+1, ..., 2K_d+1)``, ordered ``[1, cos 1, sin 1, cos 2, ...]`` per axis.
        size: Target grid ``(m_1, ..., m_d)``; an int means a square two-dimensional grid.
        boundary: What lies beyond the image's edge, which decides the band of a grid.

    >>> crop(torch.zeros(1, 3, 27, 27), 14).shape
    torch.Size([1, 3, 13, 13])
    """
    target = as_size(size)
    have = coefficient_bands(coeffs, len(target))
    for k, m in zip(have, target, strict=True):
        if band(m, boundary) > k:
            raise ValueError(
                f"cannot crop band {k} to resolution {m} (band {band(m, boundary)}): "
                f"crop only shrinks; use synthesize(coeffs, {m}) to upscale"
            )
    return coeffs[corner(axis_bands(target, boundary))]


def corner(box: Box) -> tuple[EllipsisType | slice, ...]:
    """Index of the frequencies up to ``box`` in a coefficient tensor."""
    return (..., *(slice(n) for n in grids(box)))


def downscale(
    x: Tensor,
    size: Size,
    kind: Kind = "ideal",
    std: float | None = None,
    boundary: Boundary = "circular",
    axes: int | None = None,
) -> Tensor:
    r"""Downscale an image to any smaller grid.

    - ``"ideal"``: keep the band of the small grid, drop the rest (the paper's :math:`\mathcal D_R`, Eq. 5). Composes
      exactly: downscaling to ``a`` and then to ``b`` is downscaling to ``b``.
    - ``"gaussian"``: a Gaussian low-pass instead of the ideal one, then sampling of the resulting trigonometric
      polynomial on the small grid, so aliasing is real (the paper's non-ideal case).
    - ``"bicubic"``: antialiased bicubic interpolation with half-pixel centres, as ``torch.nn.functional.interpolate``
      does it in two dimensions. Approximate near the border: it does not treat the image as periodic.

    Args:
        x: Image ``(..., n_1, ..., n_d)``.
        size: Target grid ``(m_1, ..., m_d)`` with ``m <= n``; an int means as many samples on each of ``axes`` axes.
        kind: One of the three above.
        std: Standard deviation of the Gaussian in pixels of the large grid; default ``(n / m - 1) / 2`` per axis.
        boundary: What lies beyond the image's edge. ``"mirror"`` composes exactly too and keeps every frequency of the
            small grid (the DCT-II up to ``k < m``); ``"canvas"`` composes approximately. Bicubic interpolation has a
            boundary of its own.
        axes: How many axes an int stands for: 1 of a signal, 2 (the default) of an image, 3 of a volume.

    >>> x = torch.randn(1, 1, 28, 28)
    >>> torch.allclose(downscale(downscale(x, 21), 12), downscale(x, 12), atol=1e-6)
    True
    >>> small = downscale(x, 12, boundary="mirror")
    >>> torch.allclose(downscale(downscale(x, 21, boundary="mirror"), 12, boundary="mirror"), small, atol=1e-6)
    True
    """
    target = as_size(size, axes)
    source = spatial_size(x, len(target))
    if any(m > n for m, n in zip(target, source, strict=True)):
        remedy = _fewer_axes(size, axes, source, target) or "use upscale for a larger grid"
        raise ValueError(f"cannot downscale an image of size {source} to {target}: {remedy}")
    if kind == "ideal":
        return synthesize(analyze(widened(x), len(target), target, boundary), target, boundary).to(x.dtype)
    if kind == "gaussian":
        coeffs = analyze(widened(x), len(target), boundary=boundary)
        return synthesize(_blur(coeffs, source, target, std, boundary), target, boundary).to(x.dtype)
    if kind == "bicubic":
        for axis in range(-len(target), 0):
            x = apply_matrix(bicubic_matrix(source[axis], target[axis], x.dtype, x.device), x, axis)
        return x
    raise ValueError(f"unknown kind of downscaling {kind!r}: choose one of {', '.join(get_args(Kind))}")


def upscale(x: Tensor, size: Size, boundary: Boundary = "circular", axes: int | None = None) -> Tensor:
    """Ideal upscaling: the same trigonometric polynomial on a larger grid. ``downscale`` takes it back exactly.

    (On a ``"canvas"``, approximately.) An int stands for as many samples on each of ``axes`` axes, 2 if not given.

    >>> x = downscale(torch.randn(1, 1, 28, 28), 15)
    >>> torch.allclose(downscale(upscale(x, (28, 40)), 15), x, atol=1e-5)
    True
    """
    target = as_size(size, axes)
    source = spatial_size(x, len(target))
    if any(m < n for m, n in zip(target, source, strict=True)):
        raise ValueError(f"cannot upscale an image of size {source} to {target}: use downscale for a smaller grid")
    return synthesize(analyze(widened(x), len(target), boundary=boundary), target, boundary).to(x.dtype)


def _fewer_axes(size: Size, axes: int | None, source: Box, target: Box) -> str:
    """A hint where an int stands for two axes and the second one alone would do: the input is a signal."""
    if not isinstance(size, int) or axes is not None or target[-1] > source[-1]:
        return ""
    return f"an int stands for two axes; for a signal give ({size},) or axes=1, for a larger grid use upscale"


def _blur(coeffs: Tensor, source: Box, target: Box, std: float | None, boundary: Boundary) -> Tensor:
    """Multiply by the Gaussian's transfer function ``exp(-(std * 2 pi k / N)^2 / 2)``, ``N`` the period, per axis."""
    for axis, (n, m) in enumerate(zip(source, target, strict=True), start=-len(source)):
        sigma = (n / m - 1) / 2 if std is None else std
        k = frequencies(coeffs.shape[axis], coeffs.dtype, coeffs.device)
        gain = torch.exp(-0.5 * (k * (2 * math.pi * sigma / period(n, boundary))) ** 2)
        coeffs = coeffs * gain.reshape(-1, *(1,) * (-axis - 1))
    return coeffs


@constant
def bicubic_matrix(n: int, m: int) -> Tensor:
    """Antialiased bicubic (Keys, a = -0.5) resampling of ``n`` samples to ``m``, ``(m, n)``; rows sum to 1."""
    scale = n / m
    support = max(scale, 1.0)
    centre = (torch.arange(m, dtype=torch.float64) + 0.5) * scale
    first = (centre - 2 * support + 0.5).floor().clamp(min=0)
    last = (centre + 2 * support + 0.5).floor().clamp(max=n)
    j = torch.arange(n, dtype=torch.float64)
    u = ((j - centre[:, None] + 0.5) / support).abs()
    near = (1.5 * u - 2.5) * u * u + 1
    far = ((-0.5 * u + 2.5) * u - 4) * u + 2
    weight = torch.where(u < 1, near, torch.where(u < 2, far, torch.zeros_like(u)))
    weight = torch.where((j >= first[:, None]) & (j < last[:, None]), weight, torch.zeros_like(weight))
    return weight / weight.sum(dim=1, keepdim=True)
