"""The task of saying what an image shows: cross entropy of every level, and penalties on levels that do worse."""

from __future__ import annotations

from torch import Tensor, nn

from fourierscale.data import Batch
from fourierscale.data.protocols import Protocol
from fourierscale.functional import downscale
from fourierscale.metrics import ResolutionAccuracy, ScaleConsistency, one_pass_levels
from fourierscale.metrics.mean import BatchMean
from fourierscale.models import ImageModel
from fourierscale.models.contract import as_levels
from fourierscale.training.config import Config
from fourierscale.training.losses import level_cross_entropy, scale_loss
from fourierscale.training.real import WithFeatures, draw_below, two_pass_penalty
from fourierscale.training.tasks import Step, Task

__all__ = ["Classification"]

LOWER = 3  # which of the seed's streams


class Classification(Task):
    """One class for each image; see :func:`scale_loss` and, for two passes, :mod:`fourierscale.training.real`."""

    score, best = "val_acc", "max"

    def __init__(self, config: Config, protocol: Protocol, resolutions: tuple[int, ...]) -> None:
        super().__init__(config, protocol, resolutions)
        self.val_loss = BatchMean()
        self.accuracy, self.consistency = ResolutionAccuracy(resolutions), ScaleConsistency()
        self._columns: dict[int, list[int]] = {}

    def training_pass(self, model: ImageModel) -> nn.Module:
        """The model, with its features where the loss is on them too."""
        return WithFeatures(model) if self.config.loss.two_passes else model

    def loss(self, step: Step, batch: Batch) -> Tensor:
        """The loss of one pass or of two."""
        if self.config.loss.two_passes:
            return self._two_passes(step, batch)
        return self._loss(step.forward(batch.images), batch.labels)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        of = self.config.loss
        return scale_loss(logits.float(), labels, of.hinge, of.weight, of.margin, of.levels, of.follow, of.smoothing)

    def _two_passes(self, step: Step, batch: Batch) -> Tensor:
        """The mean loss of the images and of the images downscaled to a resolution that is drawn, and a penalty."""
        own = step.forward(batch.images)
        resolution = draw_below((*step.words, LOWER), batch.resolution, self.protocol.equivariance)
        if resolution is None:
            return self._loss(own[0], batch.labels)
        step.repeat()  # the same dropout in both passes
        lower = downscale(batch.images, resolution, self.protocol.kind, boundary=self.protocol.boundary)
        small = step.forward(lower, "small")
        of = self.config.loss
        both = (self._loss(own[0], batch.labels) + self._loss(small[0], batch.labels)) / 2
        return both + two_pass_penalty(own, small, batch.labels, of.real, of.features, of.margin)

    def reset(self) -> None:
        """Forget the last validation."""
        for metric in (self.val_loss, self.accuracy, self.consistency):
            metric.reset()

    def update(self, model: ImageModel, batch: Batch) -> None:
        """Measure one batch, all levels from one pass."""
        logits = as_levels(model(batch.images)).float()
        losses = level_cross_entropy(logits, batch.labels)
        self.val_loss.update(losses[:, -1].mean(), len(losses))
        self.accuracy.update(logits[:, -1], batch.labels, batch.resolution)
        self.consistency.update(losses, self._below(model, batch.resolution))

    def compute(self) -> dict[str, Tensor]:
        """Loss, accuracy, and Scale-Con where there are levels to compare."""
        found = {"val_loss": self.val_loss.compute(), "val_acc": self.accuracy.compute()["mean"].float()}
        consistency = self.consistency.compute()
        if consistency["count"] > 0:
            found["val_scale_con"] = consistency["mean"].float()
        return found

    def _below(self, model: ImageModel, resolution: int) -> list[int]:
        """The levels that stand for the resolutions below; of those that have none nothing is said here."""
        if resolution not in self._columns:
            self._columns[resolution] = list(one_pass_levels(model, resolution, self.protocol.equivariance).values())
        return self._columns[resolution]
