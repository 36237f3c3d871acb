"""One training step and one validation, for Lightning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fourierscale.data import Batch
from fourierscale.data.protocols import Protocol
from fourierscale.metrics.mean import BatchMean
from fourierscale.models import ImageModel
from fourierscale.training.classification import Classification
from fourierscale.training.config import Config
from fourierscale.training.errors import NonFiniteLossError
from fourierscale.training.graphs import GraphedTraining
from fourierscale.training.maps import Fields, Segmentation
from fourierscale.training.optim import lr_factor, make_optimizer
from fourierscale.training.tasks import Step, Task

__all__ = ["TASKS", "ScaleModule"]

TASKS: dict[str, type[Task]] = {"classification": Classification, "segmentation": Segmentation, "field": Fields}
"""What can be learned, by the names that protocols give."""

REFRESH = 5  # steps between two looks at the losses; to log one takes as long as a step of a small net on a GPU
REFRESH_GPU = 20  # there a look waits for all steps so far
DROPOUT = 2  # which of the seed's streams; the data module's streams have other lengths


def identity(config: Config, images: dict[str, Any]) -> dict[str, Any]:
    """Which run a checkpoint belongs to, in plain values: another model, seed or set of images is another run."""
    return {"model": config.to_dict()["model"], "seed": config.train.seed, "images": images}


class ScaleModule(pl.LightningModule):
    """A model, its loss, its optimizer and what is measured on validation images.

    What is drawn at random in a step (dropout) depends on ``(seed, epoch, step, process)`` alone, as the batches and
    their augmentation do; so a run that was killed and resumed from the end of an epoch goes on as if nothing
    had happened.

    Args:
        model: What to train.
        config: Loss, optimizer, schedule, seed.
        steps_per_epoch: Batches of this process in an epoch.
        resolutions: Resolutions of the validation images.
        protocol: Says the task, the set R, and how images are downscaled.
    """

    def __init__(
        self,
        model: ImageModel,
        config: Config,
        steps_per_epoch: int,
        resolutions: tuple[int, ...],
        protocol: Protocol,
    ) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.steps_per_epoch = steps_per_epoch
        self.task = TASKS[protocol.task](config, protocol, resolutions)
        decay = config.optim.ema_decay
        self.average: AveragedModel | None = None
        if decay > 0:
            follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
            self.average = AveragedModel(model, multi_avg_fn=follow, use_buffers=True)
            self.average.requires_grad_(False)
        self.train_loss = BatchMean()
        self.total_batches: int | None = None  # of the validation set, in all processes
        self.images: dict[str, Any] = {}  # which images these are, for checkpoints to say
        self.computed: dict[str, Any] = {}  # on what and how exactly this is computed, likewise
        self._losses: list[tuple[Tensor, int, int]] = []  # those nobody has looked at, with images and resolution
        self._graphs: dict[str, GraphedTraining] = {}

    @property
    def final(self) -> ImageModel:
        """The model that is validated, tested and saved: the average of the weights, if there is one."""
        model: Any = self.model if self.average is None else self.average.module
        return model  # type: ignore[no-any-return]

    def configure_optimizers(self) -> Any:
        """Optimizer and schedule of the config."""
        optimizer = make_optimizer(self.model, self.config.optim)
        per_epoch, optim = self.steps_per_epoch, self.config.optim
        steps = per_epoch * self.config.train.epochs
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: lr_factor(step, steps, per_epoch, optim))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        """Let the rates of the config hold in a resumed run too, whose checkpoint brought those of the run before."""
        (optimizer,), (scheduled,) = self.trainer.optimizers, self.trainer.lr_scheduler_configs
        schedule: Any = scheduled.scheduler
        optim = self.config.optim
        for group, wanted in zip(optimizer.param_groups, make_optimizer(self.model, optim).param_groups, strict=True):
            rate = optim.lr * schedule.lr_lambdas[0](schedule.last_epoch)
            group |= {"lr": rate, "initial_lr": optim.lr, "betas": optim.betas, "weight_decay": wanted["weight_decay"]}
        schedule.base_lrs = [optim.lr for _ in optimizer.param_groups]

    def on_train_epoch_start(self) -> None:
        """Start the sums of the epoch."""
        self.train_loss.reset()
        self._losses = []

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed what the step draws: between steps the loader may draw too, and not in a resumed run."""
        self._seed(batch_idx)

    def _seed(self, batch_idx: int) -> None:
        seed = np.random.SeedSequence((*self._words(batch_idx), DROPOUT)).generate_state(1, np.uint64)[0]
        _seed_draws(int(seed) >> 1, self.device)

    def _words(self, batch_idx: int) -> tuple[int, ...]:
        """What all that is drawn in a step depends on."""
        return self.config.train.seed, self.current_epoch, batch_idx, self.global_rank

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of one batch."""
        step = Step(self._forward, self._words(batch_idx), lambda: self._seed(batch_idx))
        loss = self.task.loss(step, batch)
        self._losses.append((loss.detach(), len(batch.labels), batch.resolution))
        if self._looks(batch_idx):
            self._add_up(batch_idx)
        return loss

    def _forward(self, x: Tensor, which: str = "own") -> Any:
        """The training pass; as CUDA graphs where one process trains on one GPU in single precision."""
        train, single = self.config.train, self.trainer.precision == "32-true"
        graphs = train.cuda_graphs and not train.compile and single and self.trainer.world_size == 1
        model = self.task.training_pass(self.model)
        if not (graphs and x.is_cuda):
            return model(x)
        if which not in self._graphs:
            self._graphs[which] = GraphedTraining(model, wait=1)
        return self._graphs[which](x)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Follow the weights with their average."""
        if self.average is not None:
            self.average.update_parameters(self.model)

    def _looks(self, step: int) -> bool:
        """Whether to look at the losses behind a step, which is always done at the end of an epoch."""
        every = REFRESH if self.device.type == "cpu" else REFRESH_GPU
        return (step + 1) % every == 0 or step + 1 == self.steps_per_epoch

    def _add_up(self, step: int) -> None:
        """Add up the losses since the last look, the last that of ``step``, and show it; each has to be finite."""
        losses, images, resolutions = zip(*self._losses, strict=True)
        self._losses = []
        values = torch.stack(losses).tolist()
        for number, value, size in zip(range(step + 2 - len(values), step + 2), values, resolutions, strict=True):
            if not math.isfinite(value):
                where = f"at resolution {size}" if size else "in a batch of several resolutions"
                raise self._not_finite(f"loss became infinite or NaN in epoch {self._epoch}, step {number}, {where}")
        total = math.fsum(value * count for value, count in zip(values, images, strict=True))
        self.train_loss.update(torch.tensor(total / sum(images), dtype=torch.float64), sum(images))
        self.log("loss", values[-1], prog_bar=True, batch_size=images[-1])

    @property
    def _epoch(self) -> int:
        """The epoch as users count them."""
        return self.current_epoch + 1

    def _not_finite(self, what: str) -> NonFiniteLossError:
        return NonFiniteLossError(
            f"the {what}: lower optim.lr (now {self.config.optim.lr:g}) or set optim.grad_clip=1, then continue with "
            "--resume from the last good checkpoint"
        )

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation."""
        self.task.reset()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Measure one batch."""
        if self.total_batches is not None:
            number = self.global_rank + batch_idx * self.trainer.world_size
            if number >= self.total_batches:  # repeated so that every process has equally many
                return
        self.task.update(self.final, batch)

    def on_validation_epoch_end(self) -> None:
        """Log what matters; weights that give no finite loss must not become a checkpoint."""
        found = self.task.compute()
        if not math.isfinite(float(found["val_loss"])):
            raise self._not_finite(f"loss on validation images is infinite or NaN after epoch {self._epoch}")
        for name, value in found.items():
            self.log(name, value, prog_bar=name != "val_loss")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Say which run this is, in plain values, so that a checkpoint loads without unpickling code."""
        checkpoint["fourierscale"] = identity(self.config, self.images) | {"computed": self.computed}


def _seed_draws(seed: int, device: torch.device) -> None:
    """What ``torch.manual_seed`` does, for the processor and this device alone, which takes far less time."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type != "cpu":
        torch.manual_seed(seed)
