"""The tasks whose answer is a map: the class of every pixel, or the values of another field."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from fourierscale.data import Batch
from fourierscale.data.paired import classes_of, targets_at
from fourierscale.data.protocols import Protocol
from fourierscale.functional import downscale
from fourierscale.metrics.maps import MaskScores
from fourierscale.metrics.mean import BatchMean
from fourierscale.models import ImageModel
from fourierscale.models.maps import as_map_model
from fourierscale.training.config import Config
from fourierscale.training.losses import dice_loss, map_cross_entropy, relative_error
from fourierscale.training.tasks import Step, Task

__all__ = ["Fields", "Segmentation"]

LEVEL = 4  # which of the seed's streams


class _EveryLevel(nn.Module):
    """The training pass on every level: a tuple of maps, coarse to fine."""

    def __init__(self, model: ImageModel) -> None:
        super().__init__()
        self.model = as_map_model(model)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Maps ``(B, K, m, m)`` of each level."""
        return tuple(self.model.per_level(x))


class MapTask(Task):
    """What both tasks share: the mean of the losses of all levels' maps, or the loss at one size that is drawn."""

    def __init__(self, config: Config, protocol: Protocol, resolutions: tuple[int, ...]) -> None:
        super().__init__(config, protocol, resolutions)
        self.fields = protocol.task == "field"
        self.val_loss = BatchMean()

    def training_pass(self, model: ImageModel) -> nn.Module:
        """All levels, or the model itself."""
        return _EveryLevel(model) if self.config.loss.maps == "every" else model

    def loss(self, step: Step, batch: Batch) -> Tensor:
        """The loss of a batch."""
        if self.config.loss.maps == "every":
            maps: Sequence[Tensor] = step.forward(batch.images)
        else:
            size = self._draw(step.words, batch.resolution)
            maps = [step.forward(downscale(batch.images, size, boundary=self.protocol.boundary))]
        losses = [self.map_loss(one.float(), self._targets(batch, one)) for one in maps]
        return sum(losses[1:], losses[0]) / len(losses)

    def _draw(self, words: Sequence[int], resolution: int) -> int:
        """One of the levels that an image has, or its own resolution if it is smaller than all."""
        sizes = [r for r in self.protocol.equivariance if r <= resolution] or [resolution]
        return sizes[int(np.random.default_rng([*words, LEVEL]).integers(len(sizes)))]

    def _targets(self, batch: Batch, maps: Tensor) -> Tensor:
        return targets_at(batch.labels, maps.shape[-1], self.fields, self.protocol.boundary)

    @abc.abstractmethod
    def map_loss(self, maps: Tensor, targets: Tensor) -> Tensor:
        """The loss of one level's maps ``(B, K, m, m)``."""


class Segmentation(MapTask):
    """The class of every pixel: cross entropy and, if asked for, Dice on the maps."""

    score, best = "val_iou", "max"

    def __init__(self, config: Config, protocol: Protocol, resolutions: tuple[int, ...]) -> None:
        super().__init__(config, protocol, resolutions)
        self.scores: MaskScores | None = None

    def map_loss(self, maps: Tensor, targets: Tensor) -> Tensor:
        """Cross entropy, and Dice with its weight."""
        total = map_cross_entropy(maps, targets)
        dice = self.config.loss.dice
        return total + dice * dice_loss(maps, targets) if dice > 0 else total

    def reset(self) -> None:
        """Forget the last validation."""
        self.val_loss.reset()
        if self.scores is not None:
            self.scores.reset()

    def update(self, model: ImageModel, batch: Batch) -> None:
        """Measure the maps of a batch at its own resolution."""
        maps = model(batch.images).float()
        targets = self._targets(batch, maps)
        if self.scores is None:
            self.scores = MaskScores(maps.shape[1]).to(maps.device)
        self.val_loss.update(map_cross_entropy(maps, targets), len(maps))
        self.scores.update(maps.argmax(1), classes_of(targets))

    def compute(self) -> dict[str, Tensor]:
        """Loss and mean intersection over union."""
        found = {"val_loss": self.val_loss.compute()}
        return found if self.scores is None else {**found, "val_iou": self.scores.compute()["iou"].float()}


class Fields(MapTask):
    r"""Another field: the relative :math:`L^2` error of every level's map."""

    score, best = "val_error", "min"

    def map_loss(self, maps: Tensor, targets: Tensor) -> Tensor:
        """The mean relative error."""
        return relative_error(maps, targets).mean()

    def reset(self) -> None:
        """Forget the last validation."""
        self.val_loss.reset()

    def update(self, model: ImageModel, batch: Batch) -> None:
        """Measure the maps of a batch."""
        maps = model(batch.images).float()
        self.val_loss.update(relative_error(maps, self._targets(batch, maps)).mean(), len(maps))

    def compute(self) -> dict[str, Tensor]:
        """The relative error, which is the loss too."""
        error = self.val_loss.compute()
        return {"val_loss": error, "val_error": error}
