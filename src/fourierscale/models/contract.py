"""What every model can say about itself: its features, its levels and their names, its boundary, its preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from fourierscale.functional.bands import Boundary, Box, axis_bands, grid
from fourierscale.functional.levels import Levels
from fourierscale.functional.transform import synthesize
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.nn import ToCoefficients
from fourierscale.testing import Domain

__all__ = ["ImageModel", "as_image_model", "as_levels", "names_of_levels"]


class ImageModel(nn.Module):
    """The base of every model of this library: images ``(B, C, H, W)`` to logits.

    The defaults are those of an ordinary net: one answer for an image, maps of samples, no exact levels.

    Attributes:
        domain: Whether :meth:`features` gives maps of samples (``"image"``) or Fourier coefficients.
        preprocessing: How pixels become its input and logits answers; None until somebody says, as weights do.
    """

    domain: Domain = "image"
    preprocessing: Preprocessing | None = None

    @property
    def boundary(self) -> Boundary:
        """What it takes to lie beyond the edge of its images: what its door takes, ``"circular"`` if it has none."""
        return next((part.boundary for part in self.modules() if isinstance(part, ToCoefficients)), "circular")

    @property
    def levels(self) -> Levels | None:
        """The resolutions at which it is exact; None for a model without levels."""
        return None

    @property
    def has_features(self) -> bool:
        """Whether :meth:`features` is there to be asked."""
        return type(self).features is not ImageModel.features

    def features(self, x: Tensor) -> Tensor:
        """The final feature map, on which the equivariance error is measured."""
        raise ValueError(f"{type(self).__name__} has no features to show")

    def features_and_logits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The final feature map and the logits, ``(B, levels, classes)``; in one pass where the model can."""
        return self.features(x), as_levels(self(x))

    def feature_maps(self, features: Tensor, side: int) -> Tensor:
        """Features as maps to look at: coefficients sampled on ``side`` x ``side``, maps of samples as they are."""
        return synthesize(features, side, self.boundary) if self.domain == "coefficients" else features

    def level_bands(self, size: Sequence[int]) -> list[Box]:
        """Band of the image at each level of the logits, coarse to fine, for images of this size."""
        return [axis_bands(size, self.boundary)]

    def level_names(self, size: int) -> list[str]:
        """The resolutions that each level of the logits answers for, coarse to fine, for square images of this size."""
        return [str(size)]


def names_of_levels(
    levels: Levels, bands_of: Callable[[Sequence[int]], list[Box]], size: int, boundary: Boundary
) -> list[str]:
    """The resolutions of a set that each level of a square image answers for, and the image's own at the last.

    Args:
        levels: The set.
        bands_of: The bands of the levels of an image, coarse to fine.
        size: Side of the image.
        boundary: What lies beyond its edge.
    """
    members: dict[Box, set[int]] = {level: set() for level in bands_of((size, size))}
    known = () if levels.is_open else levels.resolutions
    for side in (*(n for n in known if isinstance(n, int) and n < size), size):
        members[bands_of((side, side))[-1]].add(side)
    lowest = (sorted(sides) or [grid(max(level), boundary)] for level, sides in members.items())
    return [", ".join(map(str, sides)) for sides in lowest]


def as_levels(logits: Tensor) -> Tensor:
    """Logits ``(B, levels, classes)``; those of a model without levels, ``(B, classes)``, get one."""
    if logits.ndim not in (2, 3):
        raise ValueError(f"expected logits (batch, levels, classes) or (batch, classes), got {tuple(logits.shape)}")
    return logits[:, None] if logits.ndim == 2 else logits


class _Foreign(ImageModel):
    """A model that knows nothing of this library."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        """Whatever the model gives."""
        return self.function(x)


def as_image_model(model: Callable[[Tensor], Any]) -> ImageModel:
    """The model itself if it is one of this library, else the model behind the defaults of :class:`ImageModel`.

    >>> as_image_model(nn.Conv2d(1, 2, 3)).level_names(28)
    ['28']
    """
    return model if isinstance(model, ImageModel) else _Foreign(model)
