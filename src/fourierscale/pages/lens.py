"""A net as images reach it: pixels from 0 to 1 in, features and answers out, both ways round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional import downscale, synthesize
from fourierscale.functional.bands import Boundary
from fourierscale.functional.enlarging import Enlarging, enlarge_to
from fourierscale.functional.resample import Kind
from fourierscale.metrics import shrink_features
from fourierscale.models import ScaleClassifier
from fourierscale.models.classifier import boundary_of
from fourierscale.testing import Domain

__all__ = ["Lens"]


class Lens:
    """Looks through a net at square images.

    Args:
        model: Has ``features``, and ``features_domain`` unless they are coefficients.
        mean: Per channel, subtracted from pixels.
        std: Per channel, divided by.
        enlarge: How images reach a model of one input size; see :func:`fourierscale.functional.enlarging.enlarge_to`.
        enlarge_size: That size.
        kind: How images are downscaled.
        boundary: What lies beyond their edge then.

    >>> from fourierscale.models import create_model
    >>> lens = Lens(create_model("scalenet-tiny").eval(), [0.1], [0.3])
    >>> x = torch.rand(1, 1, 28, 28)
    >>> lens.logits(x).shape, lens.picture(lens.features(x), 28).shape
    (torch.Size([1, 6, 10]), torch.Size([1, 32, 28, 28]))
    """

    def __init__(
        self,
        model: nn.Module,
        mean: Tensor | Sequence[float],
        std: Tensor | Sequence[float],
        enlarge: Enlarging | None = None,
        enlarge_size: int | None = None,
        kind: Kind = "ideal",
        boundary: Boundary = "circular",
    ) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self.mean, self.std = (torch.as_tensor(v, device=self.device).view(-1, 1, 1) for v in (mean, std))
        self.enlarge: Enlarging | None = enlarge
        self.enlarge_size = enlarge_size
        self.kind: Kind = kind
        self.boundary: Boundary = boundary
        self.domain: Domain = getattr(model, "features_domain", "coefficients")

    @classmethod
    def of_data(cls, model: nn.Module, data: Mapping[str, Any]) -> Lens:
        """From what a run's ``model.json`` says about its images."""
        boundary = data.get("boundary", "circular")
        return cls(model, data["mean"], data["std"], data["fit"], data["fit_size"], data["kind"], boundary)

    def features(self, x: Tensor) -> Tensor:
        """The final feature map of images ``(B, C, m, m)``."""
        found: Tensor = self.model.features(self._inputs(x))  # type: ignore[operator]
        return found.float()

    def logits(self, x: Tensor) -> Tensor:
        """Logits ``(B, levels, classes)``; a net without levels has one."""
        logits: Tensor = self.model(self._inputs(x)).float()
        return logits[:, None] if logits.ndim == 2 else logits

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits, in one pass where the net is a body and a head."""
        if isinstance(self.model, ScaleClassifier):
            features = self.model.features(self._inputs(x))
            return features.float(), self.model.head(features).float()
        return self.features(x), self.logits(x)

    def downscale(self, x: Tensor, resolution: int) -> Tensor:
        """Images as the net was trained to see them at a resolution."""
        return downscale(x, resolution, self.kind, boundary=self.boundary)

    def shrink(self, large: Tensor, small: Tensor, ratio: float) -> Tensor:
        """Features of the image, downscaled to compare with those of the downscaled image."""
        return shrink_features(large, small, ratio, self.domain, self.kind, self.enlarge, self.boundary)

    def picture(self, features: Tensor, side: int) -> Tensor:
        """Features as maps to look at: coefficients are sampled on ``side`` x ``side``, others are maps already."""
        return synthesize(features, side, boundary_of(self.model)) if self.domain == "coefficients" else features

    def _inputs(self, x: Tensor) -> Tensor:
        x = x.to(self.device)
        if self.enlarge is not None:
            assert self.enlarge_size is not None
            x = enlarge_to(x, self.enlarge_size, self.enlarge)
        return (x - self.mean) / self.std
