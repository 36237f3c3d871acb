"""Measure a model on a test set: accuracy, scale consistency, equivariance error, calibration."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassConfusionMatrix

from fourierscale.data import Batch, ResolutionBatchSampler, ScaledDataset, ScaledSplits
from fourierscale.data.batching import whole_batch
from fourierscale.data.progress import ProgressCallback
from fourierscale.functional import band
from fourierscale.metrics import (
    EquivarianceError,
    LevelCalibration,
    LevelLoss,
    ResolutionAccuracy,
    ScaleConsistency,
    fit_temperature,
    one_pass_levels,
    shrink_features,
)
from fourierscale.models import ImageModel, Preprocessing, as_image_model
from fourierscale.models.contract import as_levels
from fourierscale.training.config import EvalConfig
from fourierscale.training.datamodule import move_if_it_fits
from fourierscale.training.losses import level_cross_entropy

__all__ = ["evaluate"]

log = logging.getLogger(__name__)
AGREEMENT = 1e-4  # largest difference of logits, relative to the largest logit, at which levels and real passes agree
TEMPERATURE_IMAGES = 5_000
CONFUSION_CLASSES = 50


def evaluate(
    model: nn.Module,
    splits: ScaledSplits,
    config: EvalConfig = EvalConfig(),  # noqa: B008
    *,
    split: Literal["test", "val", "train"] = "test",
    preprocessing: Preprocessing | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    workers: int = 0,
    report: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Measure a model on a whole split.

    Scale-Con needs the loss of every image at every resolution of R below its own. A level of one pass stands for a
    real downscaled pass only if the two agree on a sample of images; else, and for resolutions that are no level of
    the model, the images are really downscaled.

    Several processes, if there are, share the work; each gets the result.

    Args:
        model: Takes images, gives logits ``(B, levels, classes)`` or ``(B, classes)``; or maps, where the data ask for
            them (see :func:`fourierscale.training.map_evaluation.evaluate_maps`).
        splits: The data; its protocol names R, and how images are downscaled.
        config: How many images, in which batches and precision.
        split: What to measure on. One temperature is fitted on validation images.
        preprocessing: How pixels become the model's input; what the model says itself, or the data, if not given.
        seed: Draws the samples.
        device: Where to compute; where the model is if not given.
        workers: Processes that decode streamed images.
        report: Told which share of the images is done.

    Returns:
        Plain numbers, ready for JSON.
    """
    if splits.protocol.task != "classification":
        from fourierscale.training.map_evaluation import evaluate_maps

        return evaluate_maps(model, splits, config, split=split, seed=seed, device=device, report=report)
    started = time.perf_counter()
    where = torch.device(device) if device is not None else _device_of(model)
    was_training = model.training
    model = as_image_model(model).to(where).eval()
    protocol, prepare = splits.protocol, preprocessing or model.preprocessing or splits.preprocessing
    prepare = replace(prepare, kind=protocol.kind, boundary=protocol.boundary)
    run = _Runner(model, _as_pixels(getattr(splits, split), where), prepare, where, workers)
    validation = _Runner(model, _as_pixels(splits.val, where), prepare, where, workers)
    count, batch_size = len(run.dataset), config.batch_size
    with torch.inference_mode(), torch.autocast(where.type, torch.bfloat16, enabled=config.precision == "bf16"):
        chosen = _draw(count, config.limit, seed)
        checked = run.check_levels(protocol.equivariance, _draw(count, config.sample, seed + 1), batch_size)
        fitted_on = _draw(len(splits.val), 4 * config.sample if config.limit else TEMPERATURE_IMAGES, seed)
        temperature = validation.temperature(fitted_on, batch_size)
        one_pass = checked["levels_from_one_pass"]
        followed = chosen if one_pass else chosen[_draw(len(chosen), config.consistency, seed + 2)]
        measures = run.measure(
            protocol.equivariance, chosen, followed, batch_size, one_pass, temperature, splits.classes, report
        )
    model.train(was_training)
    return {
        "protocol": protocol.name,
        "split": split,
        "source": splits.source,
        **measures,
        **checked,
        "temperature": temperature,
        "precision": config.precision,
        "seconds": round(time.perf_counter() - started, 2),
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
    }


class _Runner:
    """A model on the pixels of one dataset, whatever the model's input size."""

    def __init__(
        self,
        model: ImageModel,
        dataset: ScaledDataset,
        preprocessing: Preprocessing,
        device: torch.device,
        workers: int,
    ) -> None:
        self.model, self.dataset, self.prepare, self.device = model, dataset, preprocessing, device
        self.workers = workers if dataset.device.type == "cpu" else 0

    def batches(self, chosen: np.ndarray[Any, Any], batch_size: int) -> Iterator[Batch]:
        """Batches of one resolution, this process's share of them."""
        rank, world = _processes()
        sampler = ResolutionBatchSampler(self.dataset.item_resolutions[chosen], batch_size, rank=rank, world_size=world)
        batches = [chosen[items].tolist() for items in sampler]
        loader = DataLoader(self.dataset, batch_sampler=batches, collate_fn=whole_batch, num_workers=self.workers)
        for batch in loader:
            yield Batch(batch.images.to(self.device), batch.labels.to(self.device), batch.resolution, batch.indices)

    def logits(self, pixels: Tensor) -> Tensor:
        """Logits ``(B, levels, classes)``."""
        return as_levels(self.model(self.prepare(pixels))).float()

    def _features(self, pixels: Tensor) -> Tensor | None:
        """The final feature map; None for a model that has none to show."""
        return self.model.features(self.prepare(pixels)).float() if self.model.has_features else None

    def levels(self, resolution: int) -> list[int]:
        """Bands of the levels of an image; a model without levels has one."""
        return [max(level) for level in self.model.level_bands((resolution, resolution))]

    def check_levels(
        self, equivariance: Sequence[int], chosen: np.ndarray[Any, Any], batch_size: int
    ) -> dict[str, Any]:
        """Equi-Err on real downscaled passes, and whether their logits agree with the levels of one pass."""
        error = EquivarianceError().to(self.device)
        worst, compared = torch.zeros(2, dtype=torch.float64, device=self.device)
        for batch in self.batches(chosen, batch_size):
            below = [r for r in equivariance if r < batch.resolution]
            if not below:
                continue
            logits, mapped = self.logits(batch.images), one_pass_levels(self.model, batch.resolution, equivariance)
            features = self._features(batch.images)
            for r in below:
                small = self.prepare.downscale(batch.images, r)
                of_small = self._features(small)
                if features is not None and of_small is not None:
                    ratio = r / batch.resolution
                    shrunk = shrink_features(features, of_small, ratio, self.model.domain, self.prepare)
                    error.update(shrunk, of_small)
                if r in mapped:
                    real = self.logits(small)[:, -1].double()
                    difference = (logits[:, mapped[r]].double() - real).abs().max() / real.abs().max().clamp(min=1)
                    worst = torch.maximum(worst, difference.nan_to_num(math.inf))
                    compared = compared + 1
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(worst, dist.ReduceOp.MAX)
            dist.all_reduce(compared)
        none = {"mean": torch.tensor(math.nan), "max": torch.tensor(math.nan), "count": torch.tensor(0)}
        found = error.compute() if self.model.has_features else none
        agrees = compared.item() > 0 and worst.item() <= AGREEMENT
        return {
            "equi_err": _number(found["mean"]),
            "equi_err_max": _number(found["max"]) if found["count"] else None,
            "equi_err_pairs": int(found["count"]),
            "level_difference": worst.item() if compared.item() else None,
            "levels_from_one_pass": agrees,
        }

    def temperature(self, chosen: np.ndarray[Any, Any], batch_size: int) -> float:
        """One temperature for the prediction."""
        logits, labels = [], []
        for batch in self.batches(chosen, batch_size):
            logits.append(self.logits(batch.images)[:, -1])
            labels.append(batch.labels)
        if dist.is_available() and dist.is_initialized():
            parts: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(parts, ([t.cpu() for t in logits], [t.cpu() for t in labels]))
            logits, labels = [t for part in parts for t in part[0]], [t for part in parts for t in part[1]]
        return fit_temperature(torch.cat(logits), torch.cat(labels))

    def measure(
        self,
        equivariance: Sequence[int],
        chosen: np.ndarray[Any, Any],
        followed: np.ndarray[Any, Any],
        batch_size: int,
        one_pass: bool,
        temperature: float,
        classes: Sequence[str],
        report: ProgressCallback | None = None,
    ) -> dict[str, Any]:
        """Everything that needs all the chosen images; only some of them may be followed to lower resolutions."""
        resolutions = self.dataset.resolutions
        levels = sorted({level for resolution in resolutions for level in self.levels(resolution)})
        accuracy, consistency = ResolutionAccuracy(resolutions), ScaleConsistency()
        own_loss, level_loss = LevelLoss(resolutions), LevelLoss(levels)
        level_accuracy, calibration = ResolutionAccuracy(levels), LevelCalibration(levels, temperature=temperature)
        confusion = MulticlassConfusionMatrix(len(classes) + 1, validate_args=False)  # the last: no class of the data
        for metric in (accuracy, consistency, own_loss, level_loss, level_accuracy, calibration, confusion):
            metric.to(self.device)
        done = 0
        for batch in self.batches(chosen, batch_size):
            logits = self.logits(batch.images)
            losses = level_cross_entropy(logits, batch.labels)
            names = self.levels(batch.resolution)[-losses.shape[1] :]
            accuracy.update(logits[:, -1], batch.labels, batch.resolution)
            own_loss.update(losses[:, -1:], [batch.resolution])
            level_loss.update(losses, names)
            calibration.update(logits, batch.labels, names)
            for column, name in enumerate(names):
                level_accuracy.update(logits[:, column], batch.labels, name)
            done += len(batch.labels)
            confusion.update(logits[:, -1].argmax(-1).clamp(max=len(classes)), batch.labels)
            if len(followed) < len(chosen):
                here = torch.from_numpy(np.isin(batch.indices.cpu().numpy(), followed)).to(self.device)
                batch = batch._replace(images=batch.images[here], labels=batch.labels[here])
                losses = losses[here]
            if len(losses):
                consistency.update(*self._all_losses(batch, losses, equivariance, one_pass))
            if report is not None:
                report("measuring", done * _processes()[1] / len(chosen))
        right, con, calibrated = accuracy.compute(), consistency.compute(), calibration.compute()
        loss, per_level, right_levels = own_loss.compute(), level_loss.compute(), level_accuracy.compute()
        mean_loss = (loss["per_level"].nan_to_num() * loss["count"]).sum() / loss["count"].sum()
        return {
            "images": int(right["count"].sum()),
            "accuracy": _number(right["mean"]),
            "accuracy_standard_error": _binomial_error(right["mean"].item(), int(right["count"].sum())),
            "accuracy_per_resolution": _table(resolutions, right["per_resolution"]),
            "images_per_resolution": {str(m): int(n) for m, n in zip(resolutions, right["count"], strict=True)},
            "level_names": self._level_names(),
            "accuracy_per_level": _table(levels, right_levels["per_resolution"]),
            **_per_class(confusion.compute().cpu(), classes),
            "loss": _number(mean_loss),
            "loss_per_resolution": _table(resolutions, loss["per_level"]),
            "loss_per_level": _table(levels, per_level["per_level"]),
            "scale_con": _number(con["mean"]),
            "scale_con_standard_error": _number(con["standard_error"]),
            "scale_con_images": int(con["count"]),
            "scale_con_left_out": int(con["left_out"]),
            "ece": _number(calibrated["prediction"]),
            "ece_after_temperature": _number(calibrated["scaled"]),
            "ece_per_level": _table(levels, calibrated["per_level"]),
        }

    def _level_names(self) -> dict[str, str]:
        """What the model calls each level, by its band."""
        names: dict[str, str] = {}
        for side in self.dataset.resolutions:  # the largest image that has a level names it
            bands = map(str, self.levels(side))
            names |= dict(zip(bands, self.model.level_names(side), strict=True))
        return names

    def _all_losses(
        self, batch: Batch, losses: Tensor, equivariance: Sequence[int], one_pass: bool
    ) -> tuple[Tensor, list[int]]:
        """Losses at every resolution below the images' own, then the own; and the column of each resolution."""
        mapped = one_pass_levels(self.model, batch.resolution, equivariance) if one_pass else {}
        columns: list[Tensor] = list(losses[:, :-1].unbind(1))
        own = len(columns)
        place: dict[int, int] = {}  # for a model whose levels were checked, a band is all that counts
        where = []
        for r in (r for r in equivariance if r < batch.resolution):
            if r in mapped:
                level = mapped[r]
                where.append(-1 if level == own else level)
                continue
            key = band(r, self.prepare.boundary) if one_pass and self.prepare.kind == "ideal" else r
            if key not in place or not one_pass:
                small = self.logits(self.prepare.downscale(batch.images, r))
                columns.append(level_cross_entropy(small[:, -1], batch.labels)[:, 0])
                place[key] = len(columns) - 1
            where.append(place[key])
        columns.append(losses[:, -1])
        last = len(columns) - 1
        return torch.stack(columns, 1), [last if column == -1 else column for column in where]


def _as_pixels(dataset: ScaledDataset, device: torch.device) -> ScaledDataset:
    """The pixels of a dataset at their own resolutions, on the GPU if they fit there."""
    prepare = dataset.preprocessing
    plain = dataset.with_preprocessing(Preprocessing(kind=prepare.kind, boundary=prepare.boundary))
    plain.augment = None
    move_if_it_fits(plain, device)
    return plain


def _draw(count: int, most: int, seed: int) -> np.ndarray[Any, Any]:
    """All items, or so many of them drawn by the seed, in order."""
    if most == 0 or most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).permutation(count)[:most])


def _processes() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _device_of(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _number(value: Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _table(keys: Sequence[int], values: Tensor) -> dict[str, float | None]:
    return {str(key): _number(value) for key, value in zip(keys, values, strict=True)}


def _per_class(confusion: Tensor, classes: Sequence[str]) -> dict[str, Any]:
    """Accuracy of each class, their mean, and of few classes who is taken for whom."""
    counts = confusion[: len(classes)]
    right, total = counts.diagonal().double(), counts.sum(1).double()
    shares = right / total
    found: dict[str, Any] = {
        "balanced_accuracy": _number(shares[total > 0].mean()),
        "accuracy_per_class": {name: _number(share) for name, share in zip(classes, shares, strict=True)},
    }
    if len(classes) <= CONFUSION_CLASSES:
        found["confusion"] = counts[:, : len(classes)].tolist()  # [true class][predicted class]
    return found


def _binomial_error(share: float, count: int) -> float:
    return math.sqrt(share * (1 - share) / count) if count else math.nan
