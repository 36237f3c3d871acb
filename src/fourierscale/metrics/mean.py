"""Mean over the images of batches of different sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

__all__ = ["BatchMean"]


class BatchMean(Metric):
    """Mean of what batches have on average, each counted by its images; NaN stays NaN.

    Unlike torchmetrics' mean it never waits for a GPU: it does not look at the values while they come.

    >>> metric = BatchMean()
    >>> metric.update(torch.tensor(1.0), 3)
    >>> metric.update(torch.tensor(5.0), 1)
    >>> metric.compute().item()
    2.0
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, value: Tensor, images: int) -> None:
        """Add the mean of a batch of so many images."""
        self.total += value.double() * images
        self.count += images

    def compute(self) -> Tensor:
        """The mean; NaN of nothing."""
        return (self.total / self.count).float()
