"""The images of a run, for Lightning: batches of one resolution, or mixed ones, dealt to the processes."""

from __future__ import annotations

import logging
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from fourierscale.data import (
    ResolutionBatchSampler,
    ScaledDataset,
    ScaledSplits,
    Scaling,
    Survey,
    get_augmentation,
    load_protocol,
    make_loader,
)
from fourierscale.data.errors import DataError
from fourierscale.data.mask_folder import MaskSurvey
from fourierscale.data.pair_loading import load_fields, load_masks
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.stored import SizedImages
from fourierscale.models.registry import model_info
from fourierscale.training.config import Config
from fourierscale.training.errors import ConfigError

__all__ = ["ScaleDataModule", "load_splits"]

log = logging.getLogger(__name__)


def load_splits(
    config: Config, report: ProgressCallback | None = None, survey: Survey | MaskSurvey | None = None
) -> ScaledSplits:
    """The three sets of a config, augmented and enlarged as it says.

    Args:
        config: What to load.
        report: Told what happens.
        survey: The config's folder, if it was looked at already.
    """
    data = config.data
    if data.task != "classification":
        return _load_pairs(config, report, survey)
    try:
        info, augment = model_info(config.model.name), get_augmentation(data.augment, **data.augment_settings)
        check_mixed(config, data.enlarge or info.enlarge)
        splits = load_protocol(
            survey if isinstance(survey, Survey) else data.protocol,
            data_dir=data.data_dir,
            offline=data.offline,
            seed=data.seed,
            train_size=data.train_size,
            augment=augment,
            scaling=Scaling(
                kind=data.kind,
                boundary=data.boundary or model_boundary(config),
                enlarge=data.enlarge or info.enlarge,  # type: ignore[arg-type]
                enlarge_size=info.enlarge_size,
            ),
            folder=data,
            report=report,
        )
    except (ValueError, TypeError) as error:  # settings that the model or the data refuse
        raise ConfigError(str(error)) from None
    if splits.protocol.shape is not None and splits.train.item_resolutions.max() < splits.protocol.resolutions[-1]:
        raise ConfigError(
            f"data.size {splits.protocol.resolutions[-1]} is larger than every training image: the largest has level "
            f"{splits.train.item_resolutions.max()}, set data.size to that"
        )
    splits.train.seed = config.train.seed  # draws augmentation; splits and resolutions keep the seed of the data
    return splits


def _load_pairs(config: Config, report: ProgressCallback | None, survey: Survey | MaskSurvey | None) -> ScaledSplits:
    """Images with masks, or pairs of fields."""
    data = config.data
    try:
        augment = get_augmentation(data.augment, **data.augment_settings)
    except (ValueError, TypeError, DataError) as error:
        raise ConfigError(str(error)) from None
    still = [step.name for step in augment.steps if not step.takes_masks]
    if still:
        raise ConfigError(f"augmentation {data.augment!r} cannot move a mask with its image ({', '.join(still)})")
    if data.mixed or data.enlarge is not None:
        raise ConfigError("data.mixed and data.enlarge are for models that classify images of one size: leave them out")
    if data.task == "field":
        if augment.steps:
            raise ConfigError("an equation may look another way once its fields are turned: set data.augment=none")
        splits = load_fields(
            data.protocol,
            data_dir=data.data_dir,
            folder=data,
            seed=data.seed,
            train_size=data.train_size,
            report=report,
        )
    else:
        splits = load_masks(
            survey if isinstance(survey, MaskSurvey) else data.protocol,
            data_dir=data.data_dir,
            folder=data,
            ignore=data.ignore,
            seed=data.seed,
            train_size=data.train_size,
            augment=augment,
            boundary=data.boundary or model_boundary(config),
            report=report,
        )
    splits.train.seed = config.train.seed
    return splits


def check_mixed(config: Config, enlarge: str | None) -> None:
    """Refuse batches of several resolutions of images that are not brought to one size."""
    if config.data.mixed and enlarge is None:
        raise ConfigError(
            f"only images that are brought to one size make batches of several resolutions, and {config.model.name} is "
            "given each at its own: set data.mixed=false"
        )


def model_boundary(config: Config) -> str | None:
    """The boundary of a config's model, with which its images are downscaled; None for a model that has none."""
    info = model_info(config.model.name)
    if "boundary" not in info.options:
        return None
    return str(config.model.overrides.get("boundary", info.default("boundary")))


class ScaleDataModule(pl.LightningDataModule):
    """Training and validation batches.

    The order of the batches depends on ``(train.seed, epoch)`` alone. With several processes each gets its share of
    the same batches. On a GPU the images live there, if they fit, and batches are made there.

    Args:
        splits: The images.
        config: Batch size, seed, workers.
    """

    def __init__(self, splits: ScaledSplits, config: Config) -> None:
        super().__init__()
        self.splits, self.config = splits, config

    def setup(self, stage: str) -> None:
        """Move the images to the GPU if they fit into a quarter of what is free there."""
        if self.trainer is None or not self.config.data.on_device:
            return
        for dataset in (self.splits.train, self.splits.val):
            move_if_it_fits(dataset, self.trainer.strategy.root_device)

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches, equally many for every process."""
        return self._loader(self.splits.train, self.config.data.batch_size, shuffle=True, mixed=self.config.data.mixed)

    def val_dataloader(self) -> DataLoader[Any]:
        """Batches in order, equally many for every process; the module skips the repeated ones."""
        return self._loader(self.splits.val, self.config.eval.batch_size, shuffle=False)

    def _loader(self, dataset: ScaledDataset, batch_size: int, shuffle: bool, mixed: bool = False) -> DataLoader[Any]:
        rank = 0 if self.trainer is None else self.trainer.global_rank
        world = 1 if self.trainer is None else self.trainer.world_size
        workers = self.config.data.workers if dataset.device.type == "cpu" else 0
        seed = self.config.train.seed
        return make_loader(dataset, batch_size, shuffle, seed, rank, world, workers, even=True, mixed=mixed)


def batch_count(dataset: ScaledDataset, batch_size: int, world_size: int = 1, mixed: bool = False) -> int:
    """Batches of an epoch for each of so many processes."""
    resolutions = dataset.item_resolutions
    return len(ResolutionBatchSampler(resolutions, batch_size, world_size=world_size, even=True, mixed=mixed))


def move_if_it_fits(dataset: ScaledDataset, device: torch.device) -> None:
    """Move images to a GPU if they need no more than a quarter of what is free there."""
    images = dataset.images
    if device.type != "cuda" or not isinstance(images, (Tensor, SizedImages)) or images.device == device:
        return
    if images.numel() <= torch.cuda.mem_get_info(device)[0] // 4:
        dataset.to(device)
    else:
        log.info("%d images of %s stay in main memory: too large for the GPU", len(images), tuple(images.shape[1:]))
