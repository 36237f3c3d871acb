"""The few resolutions, an octave apart, at which an image is looked at, coarse to fine."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fourierscale.export.classifier import OnnxClassifier
from fourierscale.functional import downscale
from fourierscale.functional.bands import band, grid
from fourierscale.functional.resample import Kind
from fourierscale.models import ImageModel, Preprocessing

__all__ = ["Look", "looks"]


@dataclass(frozen=True)
class Look:
    """One pass of a model over an image that is first downscaled.

    Attributes:
        resolution: The one that it answers for.
        size: The side that it is downscaled to: the smallest that holds as much.
        kind: How.
        boundary: What lies beyond the image's edge then.
        names: The resolutions that the levels of the logits answer for.
    """

    resolution: int
    size: int
    kind: Kind
    boundary: str
    names: list[str]

    def __call__(self, pixels: Tensor) -> Tensor:
        """The image, ``(..., n, n)``, at this look's size."""
        if pixels.shape[-1] == self.size:
            return pixels
        return downscale(pixels, self.size, self.kind, boundary=self.boundary)


def looks(model: ImageModel | OnnxClassifier, preprocessing: Preprocessing, size: int) -> list[Look]:
    """Resolutions an octave apart at which a model answers for images of this size; the last is their own.

    A net with exact levels is asked at them, on the smallest grid that holds the level's band; its answer is the one
    that the whole image would give for the level. Another net is asked at the sizes that it was made for. One of a
    single input size has nothing coarser to say.

    >>> from fourierscale.models import create_model
    >>> [(look.resolution, look.size) for look in looks(create_model("scalenet-tiny"), Preprocessing(), 28)]
    [(12, 11), (28, 28)]
    """
    levels = model.levels if isinstance(model, ImageModel) else None
    exact = levels is not None and not levels.is_open
    boundary = preprocessing.boundary
    listed = levels.resolutions if levels is not None and exact else preprocessing.sizes
    sides = sorted(side for side in listed if isinstance(side, int) and side < size)
    if preprocessing.enlarge is not None:
        sides = []
    chosen = [size]
    while below := [side for side in sides if band(side) <= band(chosen[-1]) // 2]:
        chosen.append(below[-1])
    found = []
    for side in reversed(chosen):
        least = grid(band(side, boundary), boundary) if exact and side < size else side
        kind: Kind = "ideal" if exact else preprocessing.kind
        found.append(Look(side, least, kind, boundary, model.level_names(side)))
    return found
