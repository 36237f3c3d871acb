r"""The paper's scale consistency: how often an image is classified no worse than its downscaled versions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fourierscale.metrics.moments import ItemMean
from fourierscale.models.contract import ImageModel

__all__ = ["ScaleConsistency", "one_pass_levels"]


def one_pass_levels(model: ImageModel, size: int, resolutions: Sequence[int]) -> dict[int, int]:
    """Which level of one pass stands for the image really downscaled to each resolution below its own.

    The levels of the downscaled image have to be the first levels of the image itself. A resolution whose band is not
    a level has no entry: its loss needs a real pass.

    Args:
        model: One without exact levels gives an empty table.
        size: The image's own resolution.
        resolutions: The set R.

    >>> from fourierscale.models import create_model
    >>> one_pass_levels(create_model("scalenet-tiny", pool=1, resolutions=[8, 12, 16]), 16, [7, 8, 10, 12, 16])
    {7: 0, 8: 0, 12: 1}
    """
    if model.levels is None:
        return {}
    own = model.level_bands((size, size))
    mapped = {}
    for resolution in resolutions:
        if resolution < size:
            small = model.level_bands((resolution, resolution))
            if own[: len(small)] == small:
                mapped[resolution] = len(small) - 1
    return mapped


class ScaleConsistency(ItemMean):
    r"""Scale-Con: the share of resolutions below its own at which an image's loss is no smaller, mean over images.

    .. math:: \operatorname{mean}_x \operatorname{mean}_{r \in R, r < n(x)} [L(x) \le L(\mathcal D_r x)]

    No sampling: every ``r`` counts. A tie is consistent; a NaN makes the mean NaN. Images at the lowest resolution have
    no ``r`` below; they are left out and counted. ``compute`` gives ``mean``, ``standard_error`` over images, ``count``
    and ``left_out``.

    >>> metric = ScaleConsistency()
    >>> metric.update(torch.tensor([[2.0, 1.0, 1.0], [0.5, 3.0, 1.0]]), columns=[0, 1])
    >>> metric.compute()["mean"].item()
    0.75
    """

    left_out: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("left_out", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, losses: Tensor, columns: Sequence[int]) -> None:
        """Add images of one resolution.

        Args:
            losses: ``(B, L)``, the last column being the loss of the images themselves.
            columns: For every resolution in R below the images' own, the column that holds its losses; several
                resolutions may share a column.
        """
        if losses.ndim != 2 or losses.shape[1] < 1:
            raise ValueError(f"expected losses (images, levels), got shape {tuple(losses.shape)}")
        if not len(columns):
            self.left_out += len(losses)
            return
        consistent = losses[:, -1:] <= losses[:, list(columns)]
        self.add(consistent.double().mean(1).masked_fill(losses.isnan().any(1), torch.nan))

    def compute(self) -> dict[str, Tensor]:
        """The mean over images, its standard error, and how many images counted and did not."""
        return {**self.summary(), "left_out": self.left_out.clone()}
