"""Train a model from a config, into a folder that can be resumed, evaluated and loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging
import os
import re
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from filelock import FileLock, Timeout
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import ModelCheckpoint, TQDMProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.strategies import DDPStrategy
from torch import nn

from fourierscale.data import ScaledSplits
from fourierscale.data.paired import PairedDataset
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.protocols import Protocol
from fourierscale.models import ImageModel, ScaleClassifier, load_trained, transfer_weights
from fourierscale.models.files import write_whole
from fourierscale.models.maps import MapModel
from fourierscale.models.registry import create_model, model_info
from fourierscale.models.saved import save_model, versions
from fourierscale.training.callbacks import EpochLog, read_log, thinned
from fourierscale.training.checkpoints import (
    BEST,
    LAST,
    WholeCheckpoints,
    check_checkpoint,
    find_checkpoint,
    read_checkpoint,
)
from fourierscale.training.config import Config
from fourierscale.training.datamodule import ScaleDataModule, batch_count, check_mixed, load_splits
from fourierscale.training.errors import CheckpointError, ConfigError, LostProcessError, NoMemoryError, StoppedError
from fourierscale.training.evaluation import evaluate
from fourierscale.training.module import REFRESH, TASKS, ScaleModule
from fourierscale.training.precision import processor, resolve_precision

__all__ = ["is_first_process", "resolve_model", "train"]

log = logging.getLogger(__name__)
RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")  # set by whoever starts several processes


def is_first_process() -> bool:
    """Whether this process, of all that share a run on one or more machines, is the one that writes and reports."""
    return all(os.environ.get(name, "0") == "0" for name in RANKS)


def train(
    config: Config,
    run_dir: str | os.PathLike[str],
    resume: bool | str | os.PathLike[str] = False,
    *,
    splits: ScaledSplits | None = None,
    report: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Train, evaluate, and write everything into one folder.

    The folder gets ``config.toml`` (resolved), ``log.csv``, ``checkpoints/best.ckpt`` and ``last.ckpt``,
    ``model.safetensors``, ``model.json`` and ``metrics.json``; with TensorBoard installed, ``tensorboard/``.

    Args:
        config: Everything the run depends on.
        run_dir: The folder; it must not hold a run already, unless it is resumed.
        resume: Continue from ``last.ckpt`` of the folder, or from the checkpoint of this path, to the same result as
            a run that was never interrupted. Where there is no checkpoint yet, the run starts from its beginning.
        splits: The images, if they are there already.
        report: Told about downloads.

    Returns:
        What :func:`evaluate` measures on the test images.

    Raises:
        ConfigError: A setting that cannot be.
        CheckpointError: A checkpoint that cannot be resumed from, or a folder that holds another run.
        NoMemoryError: The GPU has too little memory.
        NonFiniteLossError: The loss became infinite or NaN.
        StoppedError: The user stopped it (Ctrl-C).
    """
    root = Path(run_dir).expanduser()
    checkpoint = find_checkpoint(root, resume)
    if is_first_process() and resume is False and any((root / name).exists() for name in (LAST, "model.safetensors")):
        raise CheckpointError(f"{root} holds a run already: continue it with --resume, or choose another folder")
    splits = load_splits(config, report) if splits is None else splits
    check_mixed(config, splits.train.preprocessing.enlarge)
    config = resolve_model(config, splits.protocol, len(splits.classes), int(splits.train.images.shape[1]))
    theirs = dist.is_available() and dist.is_initialized()
    with _alone(root):
        metrics = _train(config, root, checkpoint, splits)
    if not theirs and dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()  # its threads end with it, and not while the interpreter is going away
    return metrics


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Refuse a folder into which another process trains; the processes of one run share it."""
    root.mkdir(parents=True, exist_ok=True)
    if not is_first_process():
        yield
        return
    lock = FileLock(root / ".train.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise CheckpointError(f"another process trains into {root}: wait for it, or choose another folder") from None
    try:
        yield
    finally:
        lock.release()


def _train(config: Config, root: Path, checkpoint: Path | None, splits: ScaledSplits) -> dict[str, Any]:
    """Train in a folder that no other run writes to."""
    images = {"protocol": splits.protocol.name, "classes": list(splits.classes), "indices": dict(splits.hashes)}
    if checkpoint is not None:
        check_checkpoint(checkpoint, config, images, root)
    if is_first_process():
        write_whole(root / "config.toml", config.to_toml())

    with _quiet(), _products(config.train.matmul):
        pl.seed_everything(config.train.seed, verbose=False)
        model = _create(config)
        if config.model.start is not None and checkpoint is None:
            _begin_with(model, config.model.start)
        if config.loss.two_passes and not isinstance(model, ScaleClassifier):
            raise ConfigError(
                f"loss.real and loss.features need a classifier with levels, and {config.model.name} has none: "
                "set both to 0"
            )
        if isinstance(model, MapModel) and isinstance(splits.train, PairedDataset):
            model.scale.copy_(splits.train.target_scale())
        precision = resolve_precision(config.train)
        trainer = _trainer(config, root, precision)
        device = trainer.strategy.root_device
        computed = _computed(precision, device)
        _tell_changes(computed, checkpoint)
        _lay_out(model, config, device)
        module = ScaleModule(
            model,
            config,
            batch_count(splits.train, config.data.batch_size, trainer.world_size, config.data.mixed),
            splits.val.resolutions,
            splits.protocol,
        )
        module.total_batches = batch_count(splits.val, config.eval.batch_size)
        module.images, module.computed = images, computed
        if config.train.compile:
            # A graph for each resolution, and one in training and one in evaluation, with room for the last batches.
            limit = 4 * len(splits.train.resolutions)
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, limit)
            model.compile(dynamic=False)
        started = time.perf_counter()
        handler = signal.getsignal(signal.SIGINT)
        try:
            with _memory("data", config.data.batch_size), _together(trainer, root):
                trainer.fit(module, datamodule=ScaleDataModule(splits, config), ckpt_path=checkpoint)
        except OverflowError as error:  # a counter of the optimizer that no training has written
            if checkpoint is None:
                raise
            raise CheckpointError(
                f"{checkpoint} holds numbers that no run has written ({error}): start again"
            ) from None
        except SystemExit:  # what Lightning makes of Ctrl-C, which it then ignores
            if not trainer.interrupted:
                raise
            signal.signal(signal.SIGINT, handler)
            raise StoppedError(
                f"stopped in epoch {trainer.current_epoch + 1} of {config.train.epochs}; continue with "
                f"fourierscale train --resume --out {shlex.quote(str(root))}"
            ) from None
        seconds = max(time.perf_counter() - started, sum(float(row["seconds"]) for row in read_log(root / "log.csv")))
        if config.train.keep == "best":
            with _together(trainer, root):
                _load_best(module, trainer, root)
    final = _create(config)
    final.load_state_dict(module.final.state_dict())
    final.preprocessing = splits.preprocessing
    _lay_out(final, config, device)
    with _memory("eval", config.eval.batch_size), _together(trainer, root):
        metrics = evaluate(final.to(device), splits, config.eval, device=device, workers=config.data.workers)
    metrics |= {"train_seconds": round(seconds, 2), "epochs": trainer.current_epoch, "steps": trainer.global_step}
    metrics |= {"computed": computed}
    if trainer.is_global_zero:
        save_model(final, root, describe(config, splits, metrics, thinned(read_log(root / "log.csv"))))
        write_whole(root / "metrics.json", json.dumps(metrics, indent=2) + "\n")
    return metrics


def _computed(precision: str, device: torch.device) -> dict[str, Any]:
    """On what and how exactly a run computes: it decides the last digits, and how long it takes."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": name, "precision": precision, "threads": torch.get_num_threads()}


def _tell_changes(computed: dict[str, Any], checkpoint: Path | None) -> None:
    """Say how this run computes, and what is other than where it was interrupted: then last digits differ."""
    before = {} if checkpoint is None else read_checkpoint(checkpoint)["fourierscale"].get("computed", {})
    log.info("training on %s in precision %s, %d threads", *computed.values())
    for name, value in before.items():
        if computed.get(name) != value:
            log.warning("this run began with %s %s and goes on with %s: digits may differ", name, value, computed[name])


def _load_best(module: ScaleModule, trainer: pl.Trainer, root: Path) -> None:
    """Give every process the best weights, which only the first one has saved; its disk may be its own."""
    there = trainer.is_global_zero and (root / BEST).is_file()
    best = trainer.strategy.broadcast(read_checkpoint(root / BEST)["state_dict"] if there else None)
    if best is not None:
        module.load_state_dict(best)


@contextmanager
def _memory(section: str, batch_size: int) -> Iterator[None]:
    """Too little memory of the GPU, as one sentence."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise NoMemoryError(
            f"the GPU has too little memory: lower {section}.batch_size (now {batch_size}), or run less beside it"
        ) from None


LOST = "another process of this run has ended, or has not answered for {} s (train.timeout)"
OBSERVER = "lightning_fabric.strategies.launchers.subprocess_script"
BROKEN = re.compile(r"gloo|nccl|connection (closed|reset|refused)|timed out|timeout", re.IGNORECASE)


@contextmanager
def _together(trainer: pl.Trainer, root: Path) -> Iterator[None]:
    """The loss of another process of the run, as one sentence; the processes that this one started end with it."""
    if trainer.world_size == 1:
        yield
        return
    wait = getattr(trainer.strategy, "_timeout", None)
    seconds = "too many" if wait is None else f"{wait.total_seconds():.0f}"
    told = f"{LOST.format(seconds)}; continue with fourierscale train --resume --out {shlex.quote(str(root))}"
    observer, handler = logging.getLogger(OBSERVER), _Told(told)
    observer.addHandler(handler)
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.distributed.DistError) and not BROKEN.search(str(error)):
            raise
        log.debug("lost: %s", error)
        for process in getattr(trainer.strategy.launcher, "procs", ()):
            process.kill()  # it may be stopped, and hear of nothing else
        raise LostProcessError(told) from None
    finally:
        observer.removeHandler(handler)


class _Told(logging.Handler):
    """Says one sentence where Lightning says, unheard, that it kills this process because another has ended."""

    def __init__(self, told: str) -> None:
        super().__init__()
        self.told = told

    def emit(self, record: logging.LogRecord) -> None:
        """Say it; the process is killed right after."""
        log.error(self.told)


def resolve_model(config: Config, protocol: Protocol, classes: int, channels: int) -> Config:
    """The config with the model's options that follow from the data: classes, channels, resolutions.

    Options that the config names stay as they are. Resolutions (those of R, or all that images have) are the data's
    only where the model's own end at another size, and those of a folder always.

    Args:
        config: What the user asked for.
        protocol: Names the resolutions.
        classes: How many the data has.
        channels: Of its images.
    """
    info, overrides = model_info(config.model.name), dict(config.model.overrides)
    for option, value in (("classes", classes), ("in_channels", channels)):
        if option in info.options and option not in overrides and info.default(option) != value:
            overrides[option] = value
    for option, values in (("resolutions", protocol.equivariance), ("image_resolutions", protocol.resolutions)):
        free = option in info.options and option not in overrides
        if free and protocol.task != "classification" and list(info.default(option)) != list(values):
            overrides[option] = list(values)
            continue
        if free and (protocol.shape is not None or max(info.default(option)) != max(protocol.resolutions)):
            overrides[option] = list(values)
    return dataclasses.replace(config, model=dataclasses.replace(config.model, overrides=overrides))


def describe(
    config: Config, splits: ScaledSplits, metrics: dict[str, Any], history: dict[str, list[float | None]]
) -> dict[str, Any]:
    """What stands beside the weights: enough to build the model, prepare images, and judge it."""
    protocol = splits.protocol
    return {
        "model": config.model.name,
        "overrides": config.to_dict()["model"]["overrides"],
        "data": {
            "protocol": protocol.name,
            "source": splits.source,
            "note": splits.note,
            "hashes": dict(splits.hashes),
            "equivariance": list(protocol.equivariance),
            "skip_bad": config.data.skip_bad,
        },
        "preprocessing": splits.preprocessing.to_dict(),
        "config": config.to_dict(),
        "metrics": metrics,
        "history": history,
        "versions": versions(),
    }


def _lay_out(model: nn.Module, config: Config, device: torch.device) -> None:
    """Channels last, if the config says so.

    Not where a model has strided 1x1 convolutions, in bfloat16 on CPUs: those of torch 2.13 then write beyond their
    memory in the backward pass.
    """
    strided = any(isinstance(m, nn.Conv2d) and max(m.stride) > 1 and max(m.kernel_size) == 1 for m in model.modules())
    unsafe = strided and device.type == "cpu" and config.train.precision != "32"
    if config.train.channels_last and not unsafe:
        _store_channels_last(model)


def _store_channels_last(model: nn.Module) -> None:
    """Of weights with four dimensions alone: ``model.to`` refuses models that have some with five."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.ndim == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)


def _create(config: Config) -> ImageModel:
    try:
        return create_model(config.model.name, **config.model.overrides)
    except (ValueError, TypeError, RuntimeError) as error:  # RuntimeError: there is not so much memory
        raise ConfigError(f"cannot build {config.model.name}: {' '.join(str(error).split())[:300]}") from None


def _begin_with(model: ImageModel, start: str) -> None:
    """Weights of another training, as far as they fit."""
    copied, left = transfer_weights(model, load_trained(start)[0])
    if not copied:
        raise ConfigError(f"nothing of {start} fits into this model: train the model that it is of, see --model")
    shown = ", ".join(left[:4]) + f" and {len(left) - 4} more" * (len(left) > 4)
    log.info("begin with %d tensors of %s%s", len(copied), start, f"; new: {shown}" if left else "")


def _trainer(config: Config, root: Path, precision: str) -> pl.Trainer:
    train, task = config.train, TASKS[config.data.task]
    progress = sys.stderr.isatty() if train.progress is None else train.progress
    callbacks: list[pl.Callback] = [
        EpochLog(root / "log.csv"),
        ModelCheckpoint(
            root / BEST.parent,
            "best",
            monitor=task.score,
            mode=task.best,
            enable_version_counter=False,
            save_weights_only=True,
        ),
        ModelCheckpoint(
            root / LAST.parent, "last", every_n_epochs=1, save_on_train_epoch_end=True, enable_version_counter=False
        ),
    ]
    if progress:
        callbacks.append(TQDMProgressBar(refresh_rate=REFRESH))
    devices: Any = train.devices
    try:
        if devices.isdigit():
            devices = int(devices)
        trainer = pl.Trainer(
            accelerator=train.accelerator,
            devices=devices,
            num_nodes=train.num_nodes,
            strategy=train.strategy,
            precision="bf16-mixed" if precision == "bf16" else "32-true",
            max_epochs=train.epochs,
            gradient_clip_val=config.optim.grad_clip or None,
            check_val_every_n_epoch=train.validate_every,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            logger=_logger(root),
            callbacks=callbacks,
            plugins=[WholeCheckpoints()],
            enable_progress_bar=progress,
            enable_model_summary=False,
            log_every_n_steps=20,
            default_root_dir=str(root),
        )
    except (MisconfigurationException, ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(" ".join(str(error).split())) from None
    if isinstance(trainer.strategy, DDPStrategy):  # which Lightning chooses; its constructor is the only public way
        trainer.strategy._timeout = timedelta(seconds=train.timeout)
    return trainer


def _logger(root: Path) -> TensorBoardLogger | bool:
    if importlib.util.find_spec("tensorboard") is None:
        log.info("tensorboard is not installed: metrics go to log.csv alone")
        return False
    return TensorBoardLogger(str(root), name="", version="tensorboard")


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """Multiply float32 matrices in this precision, within a ``with`` block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's notes on hardware, workers and folders that hold files already.

    Of a thread that cannot write, for TensorBoard on a full disk, one line is told instead of a traceback.
    """
    loggers = [
        logging.getLogger(f"pytorch_lightning.{name}") for name in ("utilities.rank_zero", "callbacks", "trainer")
    ]
    levels = [logger.level for logger in loggers]
    thread_hook = threading.excepthook
    threading.excepthook = lambda given: _tell_thread(given, thread_hook)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            threading.excepthook = thread_hook
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _tell_thread(given: threading.ExceptHookArgs, otherwise: Callable[[threading.ExceptHookArgs], Any]) -> None:
    """A file that a thread could not write, TensorBoard's for example where the disk is full, as one line."""
    if isinstance(given.exc_value, OSError):
        log.warning("%s: %s", given.exc_value.filename or "tensorboard", given.exc_value.strerror or given.exc_value)
    else:
        otherwise(given)
