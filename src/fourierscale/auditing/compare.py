r"""How two outputs of one layer are compared: on the coefficients of the band that both have, ring by ring."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from fourierscale.functional import analyze, band
from fourierscale.functional.bands import frequencies
from fourierscale.metrics import shrink_features
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["Form", "Rows", "compare_outputs", "form_of", "rows"]

Form: TypeAlias = Literal["image", "coefficients", "levels", "vector"]
"""What a layer gives: a map as samples, a map as coefficients, one vector per level, or anything without a map."""


class Rows(NamedTuple):
    r"""What differs, image by image and ring by ring, as shares of the whole.

    Attributes:
        difference: ``(B, K+1)``, :math:`\lVert a - b \rVert^2` in each ring, divided by :math:`\lVert b \rVert^2`; a
            row sums to the relative squared error of its image.
        energy: ``(B, K+1)``, :math:`\lVert b \rVert^2` in each ring, divided in the same way; a row sums to 1.
        note: What was compared, where that is not the whole.
    """

    difference: Tensor
    energy: Tensor
    note: str = ""


def form_of(value: Tensor, form: Form) -> Form:
    """The form of one output, given that of the layer: what has no two spatial axes is a vector."""
    if form == "levels":
        return "levels" if value.ndim == 3 else "vector"
    return form if value.ndim >= 4 else "vector"


def compare_outputs(
    large: Tensor,
    small: Tensor,
    form: Form,
    ratio: float,
    preprocessing: Preprocessing = Preprocessing(),  # noqa: B008
) -> Rows | str:
    r"""Downscaled features :math:`a = D_r g(x)` against features of the downscaled image :math:`b = g(D_r x)`.

    - Maps of coefficients: the large one is cropped to the small one.
    - Maps of samples: the large one is ideally downscaled to the size of the small one, whatever the ratio of their
      sizes; both are then compared on the coefficients of that size, so the Nyquist bin of an even side does not count.
      Where images were brought to one size (``enlarge``), both maps have one size: the large one is downscaled in
      the ratio of the images (rounded to whole samples) and brought back to its size just as the image was.
    - Maps that hold the mean alone (one or two samples a side, from images of every size), vectors, and maps pooled to
      one size though the images were not brought to one: as they are, entry by entry.
    - Boxes, a table of which one axis has the length that the image's size decides: of its scores, which lie between 0
      and 1 for all boxes, the largest over the boxes.
    - Levels: the first ones, as many as the small image has.

    Args:
        large: Output for the image ``(B, ...)``.
        small: Output for the downscaled image.
        form: What they are.
        ratio: ``r / n``, the resolution divided by the image's own.
        preprocessing: How images reached a model of one input size, and what lies beyond the edge of images and maps.

    Returns:
        The rows, or in words why there is nothing to compare.

    >>> x = torch.rand(2, 3, 8, 8)
    >>> compare_outputs(x, x[..., :4, :4], "image", 0.5).difference.shape  # frequencies 0 and 1
    torch.Size([2, 2])
    """
    large, small = large.detach().double(), small.detach().double()
    if form == "levels" and large.shape[1] >= small.shape[1]:
        large = large[:, : small.shape[1]]
    if form in ("image", "coefficients"):
        sides = [tuple(value.shape[-2:]) for value in (large, small)]
        if large.shape[:-2] != small.shape[:-2] or any(m > n for n, m in zip(*sides, strict=True)):
            return _unlike(large, small)
        if form == "coefficients":
            return rows(shrink_features(large, small, ratio, form), small)
        if sides[0] != sides[1] or max(map(band, sides[0])) > 0:
            shrunk = shrink_features(large, small, ratio, form, replace(preprocessing, kind="ideal"))
            return rows(*(analyze(maps, boundary=preprocessing.boundary) for maps in (shrunk, small)))
    if large.shape != small.shape:
        return _compare_boxes(large, small)
    return rows(large.flatten(1)[..., None, None], small.flatten(1)[..., None, None])


def _compare_boxes(large: Tensor, small: Tensor) -> Rows | str:
    """The largest scores over the boxes of a detector, ``(B, scores, boxes)`` or ``(B, boxes, scores)``."""
    differing = [axis for axis, (n, m) in enumerate(zip(large.shape, small.shape, strict=False)) if n != m]
    if large.ndim != 3 or small.ndim != 3 or differing not in ([1], [2]):
        return _unlike(large, small)
    tables = [value.transpose(1, 2) if differing == [1] else value for value in (large, small)]
    scores = torch.stack([((table >= 0) & (table <= 1)).all(2).all(0) for table in tables]).all(0)
    if not bool(scores.any()):
        return f"{_unlike(large, small)}, and no row of them are scores between 0 and 1"
    best = [table[:, scores].amax(2)[..., None, None] for table in tables]
    counts = " and ".join(str(value.shape[differing[0]]) for value in (large, small))
    return rows(*best)._replace(note=f"{counts} boxes: compared is the largest of each of {int(scores.sum())} scores")


def rows(value: Tensor, expected: Tensor) -> Rows:
    r"""Split the relative squared error of coefficients ``(B, ..., 2K+1, 2K+1)`` into rings :math:`|k|_\infty`.

    The norm is that of ``expected``; where that is zero it is that of ``value``, and zero against zero is no error.
    """
    height, width = value.shape[-2:]
    ring = torch.maximum(
        frequencies(height, torch.float64, value.device)[:, None], frequencies(width, torch.float64, value.device)
    ).long()
    norms = [_rings(v, ring) for v in (value - expected, expected, value)]
    whole = norms[1].sum(1, keepdim=True)
    whole = torch.where(whole > 0, whole, norms[2].sum(1, keepdim=True))
    whole = torch.where(whole > 0, whole, torch.ones_like(whole))
    return Rows(norms[0] / whole, norms[1] / whole)


def _rings(value: Tensor, ring: Tensor) -> Tensor:
    """Squares summed over channels and over each ring, ``(B, K+1)``."""
    squares = value.square().reshape(len(value), -1, ring.numel()).sum(1)
    sums = torch.zeros(len(value), int(ring.max()) + 1, dtype=squares.dtype, device=squares.device)
    return sums.index_add_(1, ring.flatten(), squares)


def _unlike(large: Tensor, small: Tensor) -> str:
    return f"{tuple(large.shape[1:])} at the full size, {tuple(small.shape[1:])} at a smaller one"
