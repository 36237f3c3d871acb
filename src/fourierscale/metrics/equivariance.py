r"""The paper's equivariance error, on feature maps."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from fourierscale.functional import enlarge_to
from fourierscale.metrics.moments import ItemMean
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.testing import Domain

__all__ = ["EquivarianceError", "shrink_features"]


class EquivarianceError(ItemMean):
    r"""Equi-Err: relative squared distance of features of the downscaled image and downscaled features.

    .. math:: \operatorname{mean}_{x, r} \frac{\lVert g(\mathcal D_r x) - \mathcal D_r g(x) \rVert^2}
              {\lVert g(\mathcal D_r x) \rVert^2}

    Norms are over all channels and all frequencies of the band of ``r`` jointly, in double precision. ``compute``
    gives ``mean``, ``standard_error``, ``count`` (pairs of image and resolution) and ``max``.

    >>> metric = EquivarianceError()
    >>> metric.update(torch.ones(2, 3, 5, 5), torch.ones(2, 3, 5, 5))
    >>> metric.compute()["mean"].item()
    0.0
    """

    largest: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("largest", torch.zeros((), dtype=torch.float64), dist_reduce_fx="max")

    def update(self, shrunk: Tensor, small: Tensor) -> None:
        """Add images at one resolution.

        Args:
            shrunk: Downscaled features :math:`D_r g(x)` ``(B, ...)``; see :func:`shrink_features`.
            small: Features of the downscaled images :math:`g(D_r x)`, of the same shape.
        """
        if shrunk.shape != small.shape:
            raise ValueError(f"cannot compare features of shapes {tuple(shrunk.shape)} and {tuple(small.shape)}")
        a, b = (value.detach().double().flatten(1) for value in (shrunk, small))
        norm = b.square().sum(1).clamp(min=torch.finfo(torch.float64).tiny)
        errors = (b - a).square().sum(1) / norm
        self.add(errors)
        self.largest = torch.maximum(self.largest, errors.max())

    def compute(self) -> dict[str, Tensor]:
        """Mean, standard error and count over pairs of image and resolution, and the largest error."""
        return {**self.summary(), "max": self.largest.clone()}


def shrink_features(
    large: Tensor,
    small: Tensor,
    ratio: float,
    domain: Domain,
    preprocessing: Preprocessing = Preprocessing(),  # noqa: B008
) -> Tensor:
    r"""The features :math:`D_r g(x)` that those of a downscaled image are compared with.

    Coefficients are cropped, image-like maps downscaled to the size of ``small``. A model of one input size gives maps
    of one size; there the map is downscaled in the ratio of the images and then brought back to its size just as the
    image was.

    Args:
        large: Features of the image.
        small: Features of the downscaled image.
        ratio: ``r / n``, the resolution divided by the image's own.
        domain: ``"coefficients"`` or ``"image"``.
        preprocessing: How images are downscaled and brought to the model's input size.
    """
    if domain not in get_args(Domain):
        raise ValueError(f"unknown domain {domain!r}: choose one of {', '.join(get_args(Domain))}")
    to = tuple(small.shape[-2:])
    if any(m > n for m, n in zip(to, large.shape[-2:], strict=True)):
        raise ValueError(f"the features of the downscaled image are larger, {to}, than {tuple(large.shape[-2:])}")
    if domain == "coefficients":
        return large[..., : to[0], : to[1]]
    if to == tuple(large.shape[-2:]) and ratio < 1 and preprocessing.enlarge is not None:
        shrunk = preprocessing.downscale(large, max(1, round(ratio * to[0])))
        return enlarge_to(shrunk, to[0], preprocessing.enlarge)
    return preprocessing.downscale(large, to)
