"""Measure a model whose answer is a map: how good it is at every resolution, and whether resolutions agree."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from fourierscale.data import Batch, ResolutionBatchSampler, ScaledSplits
from fourierscale.data.batching import whole_batch
from fourierscale.data.paired import PairedDataset, classes_of, targets_at
from fourierscale.data.progress import ProgressCallback
from fourierscale.functional import downscale
from fourierscale.metrics import EquivarianceError
from fourierscale.metrics.maps import MaskScores
from fourierscale.metrics.mean import BatchMean
from fourierscale.models import ImageModel, as_image_model
from fourierscale.training.config import EvalConfig
from fourierscale.training.datamodule import move_if_it_fits
from fourierscale.training.losses import map_cross_entropy, relative_error

__all__ = ["evaluate_maps"]


def evaluate_maps(
    model: nn.Module,
    splits: ScaledSplits,
    config: EvalConfig,
    *,
    split: Literal["test", "val", "train"] = "test",
    seed: int = 0,
    device: torch.device | str | None = None,
    report: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Measure maps on a whole split, at every resolution of the protocol.

    Each image is really downscaled to every resolution up to its own, and what it is to become with it. ``equi_err`` is
    the relative squared difference between the map of the downscaled image and the downscaled map, ``agreement`` the
    share of pixels whose class is the same. Of fields, ``strided`` is the error where coarse data are every second (or
    fourth, ...) sample of the fine ones, which aliases, instead of ideally downscaled.

    Args:
        model: Takes images, gives maps.
        splits: The data.
        config: How many images, in which batches and precision.
        split: What to measure on.
        seed: Draws the images, if not all are measured.
        device: Where to compute; where the model is if not given.
        report: Told which share of the images is done.
    """
    started = time.perf_counter()
    where = torch.device(device) if device is not None else next(iter(model.parameters())).device
    was_training = model.training
    net = as_image_model(model).to(where).eval()
    dataset = getattr(splits, split)
    if not isinstance(dataset, PairedDataset):
        raise TypeError(f"expected pairs of images and maps, got {type(dataset).__name__}")
    plain = dataset.with_preprocessing(dataset.preprocessing)
    plain.augment = None
    move_if_it_fits(plain, where)
    measure = (_Fields if splits.protocol.task == "field" else _Masks)(splits)
    with torch.inference_mode(), torch.autocast(where.type, torch.bfloat16, enabled=config.precision == "bf16"):
        done, total = 0, len(plain) if config.limit == 0 else min(config.limit, len(plain))
        for batch in _batches(plain, total, config.batch_size, seed, where):
            _measure_batch(net, batch, splits, measure)
            done += len(batch.images)
            if report is not None:
                report("measuring", done / total)
    model.train(was_training)
    return {
        "protocol": splits.protocol.name,
        "task": splits.protocol.task,
        "split": split,
        "source": splits.source,
        "images": total,
        **measure.compute(),
        "precision": config.precision,
        "seconds": round(time.perf_counter() - started, 2),
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
    }


def _batches(dataset: PairedDataset, count: int, batch_size: int, seed: int, device: torch.device) -> Iterator[Batch]:
    chosen = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:count])
    sampler = ResolutionBatchSampler(dataset.item_resolutions[chosen], batch_size)
    batches = [chosen[items].tolist() for items in sampler]
    for batch in DataLoader(dataset, batch_sampler=batches, collate_fn=whole_batch):
        yield Batch(batch.images.to(device), batch.labels.to(device), batch.resolution, batch.indices)


def _measure_batch(model: ImageModel, batch: Batch, splits: ScaledSplits, measure: _Measure) -> None:
    """The maps of a batch at its own resolution and at all below, and how far they are from the downscaled ones."""
    protocol = splits.protocol
    own = model(batch.images).float()
    for r in (r for r in protocol.resolutions if r <= batch.resolution):
        small = batch.images if r == batch.resolution else downscale(batch.images, r, boundary=protocol.boundary)
        maps = own if r == batch.resolution else model(small).float()
        measure.update(r, maps, batch.labels)
        if r < batch.resolution:
            measure.compare(r, maps, downscale(own, maps.shape[-1], boundary=protocol.boundary))
            if batch.resolution % r == 0:
                step = batch.resolution // r
                measure.strided(r, model, batch.images[..., ::step, ::step], batch.labels[..., ::step, ::step])


class _Measure(abc.ABC):
    """What is measured of either kind of map, by resolution."""

    def __init__(self, splits: ScaledSplits) -> None:
        self.splits = splits
        self.fields = splits.protocol.task == "field"
        self.error = EquivarianceError()

    def targets(self, maps: Tensor, labels: Tensor) -> Tensor:
        return targets_at(labels, maps.shape[-1], self.fields, self.splits.protocol.boundary)

    @abc.abstractmethod
    def update(self, resolution: int, maps: Tensor, labels: Tensor) -> None: ...

    def compare(self, resolution: int, maps: Tensor, shrunk: Tensor) -> None:
        self.error.to(maps.device).update(shrunk, maps)

    def strided(self, resolution: int, model: ImageModel, images: Tensor, labels: Tensor) -> None:  # noqa: B027
        """Masks are not sampled so."""

    def compute(self) -> dict[str, Any]:
        found = self.error.compute()
        count = int(found["count"])
        return {
            "equi_err": float(found["mean"]) if count else None,
            "equi_err_max": float(found["max"]) if count else None,
            "equi_err_pairs": count,
        }


class _Masks(_Measure):
    def __init__(self, splits: ScaledSplits) -> None:
        super().__init__(splits)
        self.scores: dict[int, MaskScores] = {}
        self.losses: dict[int, BatchMean] = {}
        self.agreement: dict[int, BatchMean] = {}

    def update(self, resolution: int, maps: Tensor, labels: Tensor) -> None:
        targets = self.targets(maps, labels)
        scores = self.scores.setdefault(resolution, MaskScores(maps.shape[1]).to(maps.device))
        scores.update(maps.argmax(1), classes_of(targets))
        loss = self.losses.setdefault(resolution, BatchMean().to(maps.device))
        loss.update(map_cross_entropy(maps, targets), len(maps))

    def compare(self, resolution: int, maps: Tensor, shrunk: Tensor) -> None:
        super().compare(resolution, maps, shrunk)
        same = (maps.argmax(1) == shrunk.argmax(1)).float().mean()
        self.agreement.setdefault(resolution, BatchMean().to(maps.device)).update(same, len(maps))

    def compute(self) -> dict[str, Any]:
        classes = self.splits.classes
        found = {r: scores.compute() for r, scores in sorted(self.scores.items())}
        ious = {r: float(scores["iou"]) for r, scores in found.items()}
        agreement = {r: float(mean.compute()) for r, mean in sorted(self.agreement.items())}
        per_class = {
            name: {str(r): _number(scores["per_class"][number]) for r, scores in found.items()}
            for number, name in enumerate(classes)
        }
        measures = {
            "iou": float(np.mean([*ious.values()])),
            "iou_per_resolution": {str(r): value for r, value in ious.items()},
            "iou_per_class": per_class,
            "pixels_per_resolution": {str(r): float(scores["pixels"]) for r, scores in found.items()},
            "boundary": float(np.mean([float(scores["boundary"]) for scores in found.values()])),
            "boundary_per_resolution": {str(r): float(scores["boundary"]) for r, scores in found.items()},
            "agreement": float(np.mean([*agreement.values()])) if agreement else None,
            "agreement_per_resolution": {str(r): value for r, value in agreement.items()},
            "loss_per_resolution": {str(r): float(mean.compute()) for r, mean in sorted(self.losses.items())},
        }
        if len(classes) == 2:  # the second is what is looked for
            measures["foreground_iou"] = float(np.mean([value or 0.0 for value in per_class[classes[1]].values()]))
        return {**measures, **super().compute()}


class _Fields(_Measure):
    def __init__(self, splits: ScaledSplits) -> None:
        super().__init__(splits)
        self.errors: dict[int, BatchMean] = {}
        self.aliased: dict[int, BatchMean] = {}

    def update(self, resolution: int, maps: Tensor, labels: Tensor) -> None:
        error = relative_error(maps, self.targets(maps, labels)).mean()
        self.errors.setdefault(resolution, BatchMean().to(maps.device)).update(error, len(maps))

    def strided(self, resolution: int, model: ImageModel, images: Tensor, labels: Tensor) -> None:
        error = relative_error(model(images).float(), labels).mean()
        self.aliased.setdefault(resolution, BatchMean().to(images.device)).update(error, len(images))

    def compute(self) -> dict[str, Any]:
        ideal = {str(r): float(mean.compute()) for r, mean in sorted(self.errors.items())}
        return {
            "error": float(np.mean([*ideal.values()])),
            "error_per_resolution": ideal,
            "strided_error_per_resolution": {str(r): float(m.compute()) for r, m in sorted(self.aliased.items())},
            **super().compute(),
        }


def _number(value: Tensor) -> float | None:
    number = float(value)
    return None if np.isnan(number) else number
