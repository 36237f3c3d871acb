r"""Training for images whose downscaling is not ideal: each batch is also passed really downscaled.

Where downscaling is ideal, a level of one pass is what the downscaled image gives, and a penalty on levels is one on
real images. Where it is not, as with every camera, the two differ: a penalty that shall hold for real images has to
see them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fourierscale.models import ImageModel
from fourierscale.training.losses import log_odds_hinge

__all__ = ["WithFeatures", "draw_below", "two_pass_penalty"]


class WithFeatures(nn.Module):
    """A classifier that gives its final feature map beside its logits, from one pass.

    >>> from fourierscale import create_model
    >>> logits, features = WithFeatures(create_model("scalenet-tiny"))(torch.rand(2, 1, 16, 16))
    >>> logits.shape, features.shape
    (torch.Size([2, 3, 10]), torch.Size([2, 32, 7, 7]))
    """

    def __init__(self, model: ImageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images ``(B, C, H, W)`` to logits ``(B, levels, classes)`` and coefficients."""
        features, logits = self.model.features_and_logits(x)
        return logits, features


def draw_below(words: Sequence[int], resolution: int, resolutions: Sequence[int]) -> int | None:
    """One of the resolutions below an image's own, the same for the same words; ``None`` if there is none.

    >>> draw_below((0, 1, 2), 12, (8, 10, 12)) in (8, 10), draw_below((0, 1, 2), 8, (8, 10, 12))
    (True, None)
    """
    below = [r for r in resolutions if r < resolution]
    if not below:
        return None
    return below[int(np.random.default_rng(list(words)).integers(len(below)))]


def two_pass_penalty(
    own: tuple[Tensor, Tensor],
    small: tuple[Tensor, Tensor],
    labels: Tensor,
    real: float,
    features: float,
    margin: float,
) -> Tensor:
    r"""What the image, being finer, shall be ahead by, and how far its features are from those of the downscaled one.

    .. math:: \lambda_r \operatorname{mean}_b \max(u(\mathcal D x) - u(x) + m, 0) + \lambda_f \operatorname{mean}_b
              \frac{\lVert g(\mathcal D x) - \mathcal D g(x) \rVert^2}{\lVert g(\mathcal D x) \rVert^2}

    with :math:`u` the log-odds of the true class at the highest level, as in :func:`log_odds_hinge`, and the second
    term the equivariance error of the features.

    Args:
        own: Logits and coefficients of the images.
        small: Logits and coefficients of the images really downscaled.
        labels: ``(B,)``.
        real: Weight :math:`\lambda_r`.
        features: Weight :math:`\lambda_f`.
        margin: Lead that the image must have.
    """
    tops = torch.stack([small[0][:, -1], own[0][:, -1]], 1).float()
    m = small[1].shape[-2:]
    a, b = (part.float().flatten(1) for part in (own[1][..., : m[0], : m[1]], small[1]))
    error = (b - a).square().sum(1) / b.square().sum(1).clamp(min=torch.finfo(torch.float32).tiny)
    return real * log_odds_hinge(tops, labels, margin) + features * error.mean()
