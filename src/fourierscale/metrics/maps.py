"""How good masks are: overlap with the true ones, and how well their boundaries lie."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics import Metric

__all__ = ["MaskScores", "boundary_pixels"]

TOLERANCE = 0.01  # of the diagonal, but a pixel at least


class MaskScores(Metric):
    r"""Intersection over union of each class, and how well the boundaries between classes are met.

    ``compute`` gives ``per_class`` :math:`|P_c \cap T_c| / |P_c \cup T_c|` over all pixels of all images (NaN for a
    class that is nowhere), ``iou``, its mean, ``pixels``, the share of pixels whose class is right, and ``boundary``:
    the harmonic mean of how many pixels on a found boundary are near a true one of their class, and the other way
    round. Near is within 1 % of the image's diagonal, or one pixel.

    >>> metric = MaskScores(2)
    >>> metric.update(torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[[0, 0], [0, 1]]]))
    >>> [round(float(value), 2) for value in metric.compute()["per_class"]]
    [0.67, 0.5]
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    confusion: Tensor
    borders: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.add_state("confusion", torch.zeros(classes, classes, dtype=torch.int64), dist_reduce_fx="sum")
        # found and near a true one, found, true and near a found one, true
        self.add_state("borders", torch.zeros(4, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, found: Tensor, true: Tensor) -> None:
        """Add masks ``(B, h, w)`` of numbers of classes; where ``true`` is negative nothing counts."""
        counts = true >= 0
        pairs = (true * self.classes + found)[counts]
        self.confusion += torch.bincount(pairs, minlength=self.classes**2).view(self.classes, self.classes)
        found = torch.where(counts, found, -1)
        ours, theirs = (boundary_pixels(mask, self.classes) for mask in (found, true))
        reach = max(1, round(TOLERANCE * float(torch.tensor(true.shape[-2:]).float().norm())))
        near_ours, near_theirs = (F.max_pool2d(part.float(), 2 * reach + 1, 1, reach) > 0 for part in (ours, theirs))
        found_near, true_near = (ours & near_theirs).sum(), (theirs & near_ours).sum()
        self.borders += torch.stack([found_near, ours.sum(), true_near, theirs.sum()])

    def compute(self) -> dict[str, Tensor]:
        """The scores over all masks so far."""
        right = self.confusion.diagonal().double()
        union = self.confusion.sum(0) + self.confusion.sum(1) - self.confusion.diagonal()
        per_class = right / union  # NaN where there is nothing
        borders = self.borders.double()
        precision, recall = borders[0] / borders[1], borders[2] / borders[3]
        boundary = 2 * precision * recall / (precision + recall)
        return {
            "per_class": per_class,
            "iou": per_class[union > 0].mean(),
            "pixels": right.sum() / self.confusion.sum(),
            "boundary": torch.where(borders[1] + borders[3] == 0, 1.0, boundary.nan_to_num(0.0)),
        }


def boundary_pixels(mask: Tensor, classes: int) -> Tensor:
    """Which pixels of each class have a neighbour of another one, ``(B, h, w)`` to ``(B, classes, h, w)``.

    Pixels of no class, negative ones, are no neighbours.

    >>> boundary_pixels(torch.tensor([[[0, 0, 1]]]), 2).int()
    tensor([[[[0, 1, 0]],
    <BLANKLINE>
             [[0, 0, 1]]]], dtype=torch.int32)
    """
    edge = torch.zeros_like(mask, dtype=torch.bool)
    for axis in (-2, -1):
        length = mask.shape[axis] - 1
        first, last = mask.narrow(axis, 0, length), mask.narrow(axis, 1, length)
        differs = (first != last) & (first >= 0) & (last >= 0)
        edge.narrow(axis, 0, length).logical_or_(differs)
        edge.narrow(axis, 1, length).logical_or_(differs)
    return edge[:, None] & (mask[:, None] == torch.arange(classes, device=mask.device).view(-1, 1, 1))
