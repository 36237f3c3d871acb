"""A mean over items with its standard error, from sums that processes can add."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

__all__ = ["ItemMean"]


class ItemMean(Metric):
    """Base of the metrics that are a mean over items; states are double precision, so sums are exact in practice."""

    full_state_update = False
    total: Tensor
    squares: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "squares"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def add(self, values: Tensor) -> None:
        """Count these items."""
        values = values.detach().double()
        self.total += values.sum()
        self.squares += values.square().sum()
        self.count += values.numel()

    def summary(self) -> dict[str, Tensor]:
        """Mean, its standard error (of independent items), and the number of items; NaN where there are too few."""
        mean = self.total / self.count
        variance = (self.squares - self.total * mean).clamp(min=0) / (self.count - 1)
        error = (variance / self.count).sqrt()
        return {
            "mean": mean,
            "standard_error": torch.where(self.count > 1, error, torch.nan),
            "count": self.count.clone(),
        }
