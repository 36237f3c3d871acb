"""What a model says of one image, at every level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["Answer"]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says of one image.

    Attributes:
        probabilities: ``(levels, classes)``, coarse to fine; the last level is the prediction.
        classes: Names of the classes.
        levels: Names of the levels: the resolutions that each answers for.
        name: The file, or what else the image is called.
        notes: What was done to the image on its way into the model, and what is odd about it, a phrase each.
    """

    probabilities: Tensor
    classes: tuple[str, ...]
    levels: tuple[str, ...]
    name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The most probable class."""
        return self.classes[int(self.probabilities[-1].argmax())]

    @property
    def probability(self) -> float:
        """The probability of that class."""
        return float(self.probabilities[-1].max())

    def top(self, count: int = 5) -> list[tuple[str, float]]:
        """The most probable classes with their probabilities, at most ``count`` of them.

        >>> import torch
        >>> Answer(torch.tensor([[0.125, 0.625, 0.25]]), ("cat", "dog", "owl"), ("28",)).top(2)
        [('dog', 0.625), ('owl', 0.25)]
        """
        best, at = self.probabilities[-1].topk(min(count, len(self.classes)))
        return [(self.classes[index], value) for index, value in zip(at.tolist(), best.tolist(), strict=True)]

    def per_level(self) -> list[tuple[str, str, float]]:
        """Name of each level, its most probable class and that class's probability, coarse to fine."""
        best, at = self.probabilities.max(-1)
        rows = zip(self.levels, at.tolist(), best.tolist(), strict=True)
        return [(name, self.classes[label], value) for name, label, value in rows]

    def to_dict(self, top: int = 1) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "image": self.name,
            "label": self.label,
            "probability": self.probability,
            "top": [{"label": label, "probability": value} for label, value in self.top(top)],
            "levels": [
                {"resolution": name, "label": label, "probability": value} for name, label, value in self.per_level()
            ],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        notes = f"  ({', '.join(self.notes)})" if self.notes else ""
        return f"{self.label} {self.probability:.4f}{notes}"
