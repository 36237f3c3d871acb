"""Whether a classifier says the same of an image and of the image downscaled."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from fourierscale.auditing.trace import Record

__all__ = ["LogitRow", "LogitSums", "prediction"]

EQUAL = 1e-5  # logits that differ by less than this share of the largest are one answer: rounding orders no losses


@dataclass(frozen=True)
class LogitRow:
    """The answers at one resolution beside those at the full size.

    Attributes:
        kind: How images were downscaled.
        resolution: Side of the downscaled images.
        agreement: Share of images that get the same class.
        kl: Mean Kullback-Leibler divergence from the probabilities of the image to those of the downscaled one.
        ordered: Share of images whose top probability is no smaller at the full size.
        accuracy: Share of right classes at this resolution; None without labels.
        scale_con: Share of images whose loss is no larger at the full size; None without labels. Its mean over
            resolutions is Scale-Con of these images.
    """

    kind: str
    resolution: int
    agreement: float
    kl: float
    ordered: float
    accuracy: float | None = None
    scale_con: float | None = None


def prediction(record: Record) -> Tensor | None:
    """Logits ``(B, classes)`` of an output: those of the highest level where it has levels; None for a map."""
    value = record.value
    if record.form == "levels":
        value = value[:, -1]
    elif record.form != "vector" or value.ndim != 2:
        return None
    return value.double() if value.shape[-1] > 1 else None


@dataclass
class LogitSums:
    """Answers so far, one pair of kind and resolution."""

    images: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, full: Tensor, small: Tensor, labels: Tensor | None) -> None:
        """Add logits ``(B, classes)`` of images and of the same images downscaled."""
        p, q = full.log_softmax(-1), small.log_softmax(-1)
        same = (full - small).abs().amax(1) <= EQUAL * full.abs().amax(1)
        counts = {
            "agreement": full.argmax(1) == small.argmax(1),
            "kl": (p.exp() * (p - q)).sum(1),
            "ordered": same | (p.amax(1) >= q.amax(1)),
        }
        if labels is not None:
            losses = (F.nll_loss(value, labels, reduction="none") for value in (p, q))
            large, little = losses
            counts |= {"accuracy": small.argmax(1) == labels, "scale_con": same | (large <= little)}
        for name, values in counts.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(values.to(torch.float64).sum())
        self.images += len(full)

    def row(self, kind: str, resolution: int) -> LogitRow:
        """Means over the images."""
        return LogitRow(kind, resolution, **{name: total / self.images for name, total in self.sums.items()})
