"""What a run learns, as one object: the loss of a step, and what is measured on validation images."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from fourierscale.data import Batch
from fourierscale.data.protocols import Protocol
from fourierscale.models import ImageModel
from fourierscale.training.config import Config

__all__ = ["Step", "Task"]


@dataclass(frozen=True)
class Step:
    """What a task needs of the trainer for one step.

    Attributes:
        forward: The training pass of :meth:`Task.training_pass`: ``forward(images)``, and for a second pass
            ``forward(images, "small")``.
        words: What all that is drawn in the step depends on.
        repeat: Draw again what was drawn in the step so far, dropout for example.
    """

    forward: Callable[..., Any]
    words: tuple[int, ...]
    repeat: Callable[[], None]


class Task(nn.Module, abc.ABC):
    """What is learned: the loss of a step, and what is measured on validation images.

    Args:
        config: Says the loss.
        protocol: The data.
        resolutions: Those of the validation images.

    Attributes:
        score: The figure by which the best weights are chosen.
        best: Whether the largest or the smallest of it is best.
    """

    score: ClassVar[str]
    best: ClassVar[Literal["max", "min"]]

    def __init__(self, config: Config, protocol: Protocol, resolutions: tuple[int, ...]) -> None:
        super().__init__()
        self.config, self.protocol, self.resolutions = config, protocol, resolutions

    def training_pass(self, model: ImageModel) -> nn.Module:
        """What is called with images in training; the model itself if not said otherwise."""
        return model

    @abc.abstractmethod
    def loss(self, step: Step, batch: Batch) -> Tensor:
        """The loss of a batch."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget what was measured."""

    @abc.abstractmethod
    def update(self, model: ImageModel, batch: Batch) -> None:
        """Measure one batch of validation images."""

    @abc.abstractmethod
    def compute(self) -> dict[str, Tensor]:
        """What was measured, by the names of the log; ``val_loss`` is among them."""
