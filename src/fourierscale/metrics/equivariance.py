r"""The paper's equivariance error, on feature maps."""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.metrics.moments import ItemMean

__all__ = ["EquivarianceError"]


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
            shrunk: Downscaled features :math:`D_r g(x)` ``(B, ...)``; see ``shrink_features``.
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
