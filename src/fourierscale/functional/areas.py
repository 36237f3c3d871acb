r"""Averages over the area around each sample of a coarser grid: what a mask is at the places where maps are sampled."""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.functional.bands import Boundary, Size, as_size, spatial_size
from fourierscale.functional.constants import constant
from fourierscale.functional.transform import apply_matrix

__all__ = ["area_average"]


def area_average(x: Tensor, size: Size, boundary: Boundary = "circular") -> Tensor:
    r"""The mean of an image around each place where its downscaled version is sampled.

    Ideal downscaling to ``m`` of ``n`` samples puts sample ``i`` at :math:`i\,n/m` samples of the large grid: the two
    grids share their first sample. The usual average of an image's cells lies half a small pixel less half a large one
    away from there. So the average is taken around the place itself,

    .. math:: y[i] = \frac{\int_{C_i} x}{\int_{C_i} 1}, \qquad
        C_i = \Big[\frac{n}{m}(i - \frac{1}{2}),\ \frac{n}{m}(i + \frac{1}{2})\Big]
        \cap \big[-\frac{1}{2},\ n - \frac{1}{2}\big],

    where sample :math:`j` of the image fills :math:`[j - \frac{1}{2}, j + \frac{1}{2}]`. Under ``"mirror"`` the grids
    share their edge instead, and this is the usual average.

    Unlike ideal downscaling it never rings: of shares of classes that add up to 1 it makes such shares again.

    Args:
        x: ``(..., n_1, ..., n_d)``.
        size: Target grid ``(m_1, ..., m_d)`` with ``m <= n``; an int means a square two-dimensional grid.
        boundary: That of the downscaling.

    >>> area_average(torch.tensor([0.0, 0.0, 1.0, 1.0]), [2]), area_average(torch.tensor([0.0, 0.0, 1.0, 1.0]), [4])
    (tensor([0.0000, 0.7500]), tensor([0., 0., 1., 1.]))
    """
    target = as_size(size)
    source = spatial_size(x, len(target))
    if any(m > n for m, n in zip(target, source, strict=True)):
        raise ValueError(f"cannot average an image of size {source} to {target}: the target is to be smaller")
    for axis, n, m in zip(range(-len(target), 0), source, target, strict=True):
        if m < n:
            x = apply_matrix(area_matrix(n, m, boundary == "mirror", x.dtype, x.device), x, axis)
    return x


@constant
def area_matrix(n: int, m: int, edges: bool) -> Tensor:
    """Share of each of ``n`` samples in the mean around each of ``m`` places, ``(m, n)``."""
    place = torch.arange(m, dtype=torch.float64)[:, None]
    middle = (place + 0.5) * (n / m) - 0.5 if edges else place * (n / m)
    sample = torch.arange(n, dtype=torch.float64)[None, :]
    low, high = middle - n / (2 * m), middle + n / (2 * m)
    overlap = (torch.minimum(high, sample + 0.5) - torch.maximum(low, sample - 0.5)).clamp(min=0)
    return overlap / overlap.sum(1, keepdim=True)
