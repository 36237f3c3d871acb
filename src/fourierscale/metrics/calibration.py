r"""Whether probabilities mean what they say: the expected calibration error."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

__all__ = ["LevelCalibration", "fit_temperature"]


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    r"""The temperature :math:`T` that minimises the cross entropy of ``logits / T``.

    The loss is convex in :math:`1 / T`, so its derivative has one root, found by bisection. Fit it on images other
    than those it is judged on.

    Args:
        logits: ``(N, classes)``.
        labels: ``(N,)``.

    >>> logits = torch.tensor([[4.0, 0.0]]).repeat(4, 1)
    >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1])), 4)  # sigmoid(4 / T) = 3 / 4
    3.641
    """
    if not len(logits):
        raise ValueError("a temperature is fitted on at least one image, got none")
    z = logits.detach().double()
    true = z.gather(1, labels[:, None]).mean()
    low, high = 1e-3, 1e3  # bounds of 1 / T
    for _ in range(80):
        middle = (low * high) ** 0.5
        slope = ((z * middle).softmax(1) * z).sum(1).mean() - true
        low, high = (low, middle) if slope > 0 else (middle, high)
    return float((low * high) ** -0.5)


class LevelCalibration(Metric):
    r"""Expected calibration error of every level and of the prediction.

    .. math:: \mathrm{ECE} = \sum_i \frac{n_i}{n} \lvert \mathrm{accuracy}_i - \mathrm{confidence}_i \rvert

    over equally wide bins of the confidence. ``compute`` gives ``prediction``, ``per_level`` in the order of
    ``levels`` (NaN where no image has it), and ``scaled``: that of the prediction after dividing by ``temperature``.

    Args:
        levels: Names of the levels, usually their bands.
        bins: Number of bins.
        temperature: One temperature, fitted elsewhere with :func:`fit_temperature`.
    """

    full_state_update = False
    hits: Tensor
    confidence: Tensor
    count: Tensor

    def __init__(self, levels: Sequence[int], bins: int = 15, temperature: float = 1.0) -> None:
        super().__init__()
        if bins < 1 or not temperature > 0:
            raise ValueError(f"expected 1 bin or more and a positive temperature, got {bins} and {temperature}")
        self.levels, self.bins, self.temperature = tuple(levels), bins, temperature
        self._index = {level: position for position, level in enumerate(self.levels)}
        rows = len(self.levels) + 2  # the levels, the prediction, the prediction after the temperature
        for name in ("hits", "confidence"):
            self.add_state(name, torch.zeros(rows, bins, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(rows, bins, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, logits: Tensor, labels: Tensor, levels: Sequence[int]) -> None:
        """Add images: logits ``(B, L, classes)``, labels ``(B,)``, and the name of each of the ``L`` levels."""
        if logits.ndim != 3 or logits.shape[1] != len(levels):
            raise ValueError(f"expected logits (images, {len(levels)}, classes), got shape {tuple(logits.shape)}")
        logits = logits.detach().double()
        last = logits[:, -1:]
        stacked = torch.cat([logits, last, last / self.temperature], 1)
        confidence, predicted = stacked.softmax(-1).max(-1)  # (B, L + 2)
        hit = (predicted == labels[:, None]).double()
        # bins are (0, 1/n], (1/n, 2/n], ...: a confidence on the border belongs to the lower one
        bin_ = (confidence * self.bins).ceil().long().clamp(1, self.bins) - 1
        rows = torch.tensor([*(self._index[level] for level in levels), len(self.levels), len(self.levels) + 1])
        place = (rows.to(bin_.device) * self.bins + bin_).flatten()
        for state, value in ((self.hits, hit), (self.confidence, confidence)):
            state.view(-1).index_add_(0, place, value.flatten())
        self.count.view(-1).index_add_(0, place, torch.ones_like(place))

    def compute(self) -> dict[str, Tensor]:
        """The errors of the levels, of the prediction, and of the prediction after the temperature."""
        errors = (self.hits - self.confidence).abs().sum(1) / self.count.sum(1)
        return {"per_level": errors[:-2], "prediction": errors[-2], "scaled": errors[-1]}
