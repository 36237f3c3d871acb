"""What the features of a downscaled image are compared with."""

from __future__ import annotations

from typing import get_args

from torch import Tensor

from fourierscale.functional import enlarge_to
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.testing import Domain

__all__ = ["shrink_features"]


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
