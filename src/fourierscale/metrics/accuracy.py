"""Accuracy per resolution and loss per level."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

__all__ = ["LevelLoss", "ResolutionAccuracy"]


class _PerKey(Metric):
    """Base: sums under each of a fixed list of keys."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, keys: Sequence[int], what: str) -> None:
        super().__init__()
        if not keys:
            raise ValueError(f"expected at least one {what}")
        self.keys_ = tuple(keys)
        self._what = what
        self._index = {key: position for position, key in enumerate(self.keys_)}
        self.add_state("total", torch.zeros(len(self.keys_), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(len(self.keys_), dtype=torch.int64), dist_reduce_fx="sum")

    def _position(self, key: int) -> int:
        if key not in self._index:
            raise ValueError(f"{self._what} {key} is not one of {', '.join(map(str, self.keys_))}")
        return self._index[key]


class ResolutionAccuracy(_PerKey):
    """Accuracy over all images, and over those of each resolution.

    ``compute`` gives ``mean`` (every image counts once), ``per_resolution`` in the order of ``resolutions`` (NaN where
    there is no image), and ``count`` per resolution.

    >>> metric = ResolutionAccuracy([8, 9])
    >>> metric.update(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([1, 1]), 9)
    >>> metric.compute()["mean"].item()
    0.5
    """

    def __init__(self, resolutions: Sequence[int]) -> None:
        super().__init__(resolutions, "resolution")

    def update(self, logits: Tensor, labels: Tensor, resolution: int) -> None:
        """Add images of one resolution: logits ``(B, classes)`` of the prediction, labels ``(B,)``."""
        position = self._position(resolution)
        self.total[position] += (logits.argmax(-1) == labels).sum()
        self.count[position] += len(labels)

    def compute(self) -> dict[str, Tensor]:
        """Accuracy overall and per resolution."""
        return {
            "mean": self.total.sum() / self.count.sum(),
            "per_resolution": self.total / self.count,
            "count": self.count.clone(),
        }


class LevelLoss(_PerKey):
    """Mean loss of every level, over the images that have it; ``compute`` gives ``per_level`` and ``count``.

    Levels are named by their band; the same keys serve for mean losses per resolution.
    """

    def __init__(self, levels: Sequence[int]) -> None:
        super().__init__(levels, "level")

    def update(self, losses: Tensor, levels: Sequence[int]) -> None:
        """Add images: losses ``(B, L)``, and the level of each column."""
        if losses.shape[1:] != (len(levels),):
            raise ValueError(f"expected losses of {len(levels)} levels, got shape {tuple(losses.shape)}")
        where = [self._position(level) for level in levels]
        self.total[where] += losses.detach().double().sum(0)
        self.count[where] += len(losses)

    def compute(self) -> dict[str, Tensor]:
        """Mean loss per level."""
        return {"per_level": self.total / self.count, "count": self.count.clone()}
