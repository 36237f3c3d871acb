r"""What lies beyond the edge of an image: one period of the function that the coefficients describe.

The Fourier layers convolve on a circle, so an image has to be made periodic. As it is (``"circular"``), its right edge
meets its left edge. Together with its mirror image (``"mirror"``) every edge meets itself: there is no jump, and ideal
downscaling is the truncation of a cosine transform (DCT-II), still exact. On a larger canvas (``"canvas"``) the edges
are apart; that is not exact, because the canvas of a downscaled image is not the downscaled canvas.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fourierscale.functional.bands import Boundary, canvas, period, spatial_size
from fourierscale.functional.constants import constant


def extend(x: Tensor, boundary: Boundary, axes: int = 2) -> Tensor:
    r"""One whole period of an image under a boundary, the image first.

    - ``"circular"``: the image itself.
    - ``"mirror"``: the image, then the image reversed: :math:`x_0 \dots x_{n-1}\, x_{n-1} \dots x_0`. The axis of
      symmetry lies half a sample before :math:`x_0`.
    - ``"canvas:PAD:FILL"``: the image, then ``PAD`` of its side, rounded to samples. The fill is ``"zero"``;
      ``"edge"``, a smooth passage from the last sample to the first; or ``"fade"``, the last sample fading to zero and
      the first rising from it. ``"canvas"`` is ``"canvas:0.5:zero"``.

    Args:
        x: Image ``(..., n_1, ..., n_d)``.
        boundary: One of the three.
        axes: Number ``d`` of spatial axes, the last ones.

    >>> extend(torch.tensor([1.0, 2.0, 3.0]), "mirror", axes=1)
    tensor([1., 2., 3., 3., 2., 1.])
    >>> extend(torch.tensor([1.0, 1.0, 2.0, 3.0]), "canvas:0.75:edge", axes=1)
    tensor([1.0000, 1.0000, 2.0000, 3.0000, 2.7071, 2.0000, 1.2929])
    """
    spatial_size(x, axes)
    for axis in range(-axes, 0):
        x = extend_axis(x, axis, boundary)
    return x


def extend_axis(x: Tensor, axis: int, boundary: Boundary) -> Tensor:
    """:func:`extend` along one negative axis."""
    if boundary == "circular":
        return x
    if boundary == "mirror":
        return torch.cat([x, x.flip(axis)], axis)
    n = x.shape[axis]
    _, fill = canvas(boundary)
    weights = fill_weights(period(n, boundary) - n, fill, x.dtype, x.device)  # (pad, 2)
    edges = torch.stack([x.select(axis, n - 1), x.select(axis, 0)], dim=-1)  # (..., 2) without the axis
    return torch.cat([x, (edges @ weights.mT).movedim(-1, axis)], axis)


@constant
def fill_weights(pad: int, fill: str) -> Tensor:
    """What each padded sample takes of the last and of the first sample of the image, ``(pad, 2)``."""
    u = torch.arange(1, pad + 1, dtype=torch.float64) / (pad + 1)
    if fill == "zero":
        return torch.zeros(pad, 2, dtype=torch.float64)
    reach = 1.0 if fill == "edge" else 0.5  # how far into the pad an edge is felt
    last, first = (0.5 + 0.5 * torch.cos(math.pi * (v / reach).clamp(max=1)) for v in (u, 1 - u))
    return torch.stack([last, first], dim=1)
