"""``fourierscale train``."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fourierscale.cli.folders import check_folder

__all__ = ["train"]

OF_IMAGES = ("classes", "in_channels", "resolutions", "image_resolutions", "reference_size")
"""Options of a model that follow from the images."""
OF_TASKS = {"segmentation": "segmentation", "field": "field"}
CHOSEN = ("folder", "segmentation")  # presets of which some settings follow from the images


def train(
    images: Annotated[
        str | None,
        typer.Argument(
            help="A folder of class folders of images of yours, or for another --task a folder of images/ and masks/, "
            "or arrays; the rest follows from them."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", help="A .toml or .yaml file, or a preset; that of the model if not given."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="Any field of the config, for example optim.lr=3e-3.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification, segmentation (a class for each pixel) or field (an equation's answer)."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of the model; 'fourierscale models' lists them. If not given, a small one. For segmentation and "
            "fields also a function of yours that builds a net, package.module:function."
        ),
    ] = None,
    bare: Annotated[
        bool, typer.Option("--bare", help="For segmentation and fields: the net as it is, without the nested map.")
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Weights to begin with: a run's folder, a .safetensors file, or the name of weights that ship; "
            "classes and levels may be others.",
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Name of a protocol, or a folder of images.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images.")] = None,
    seed: Annotated[int | None, typer.Option(help="Weights, order, augmentation, dropout.")] = None,
    devices: Annotated[str | None, typer.Option(help="How many devices, or their numbers such as 0,1.")] = None,
    num_nodes: Annotated[int | None, typer.Option(help="How many machines.")] = None,
    strategy: Annotated[str | None, typer.Option(help="How processes work together, for example ddp.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on without images of a folder that cannot be used.")
    ] = False,
    onnx: Annotated[
        bool, typer.Option(help="Whether to write model.onnx after training on a folder; takes a minute.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/NAME-TIME if not given.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out from its last checkpoint.")
    ] = False,
) -> None:
    """Train a model into a folder that can be resumed, evaluated and loaded.

    A folder of images is enough (or --data FOLDER): what is not set follows from them and is said.

    Such a run ends with report.html and model.onnx.
    """
    from fourierscale.cli.own_model import make_known
    from fourierscale.data.protocols import folder_path
    from fourierscale.models import load_trained
    from fourierscale.training.config import load_config
    from fourierscale.training.errors import ConfigError

    told = (images, config, settings, model, start, data, data_dir, epochs, seed, devices, num_nodes, strategy, out)
    if not resume and all(value in (None, []) for value in told):
        raise ConfigError(
            "say what to train: a folder of images ('fourierscale train photos'), weights to begin with (--from), or a "
            "recipe ('fourierscale train --config tiny' trains a small net on MNIST)"
        )
    if images is not None and data is not None:
        raise ConfigError(f"give the images once: {images}, or --data {data}")
    data = images if data is None else data
    overrides: dict[str, Any] = {}
    if start is not None and not resume:
        info = load_trained(start)[1]
        if model is None and config is None:  # the model of the weights; what follows from the images is theirs
            model, own = info["model"], info["overrides"]
            overrides = {
                f"model.overrides.{name}": json.dumps(own[name])
                for name in own
                if name not in OF_IMAGES and own[name] is not None
            }
    given: dict[str, Any] = {
        "model.name": model,
        "model.overrides.exact": "false" if bare else None,
        "data.task": task,
        **overrides,
        "model.start": start and json.dumps(start),
        "data.protocol": data and json.dumps(data),  # a folder may have the name of a number
        "data.data_dir": data_dir,
        "train.epochs": epochs,
        "train.seed": seed,
        "train.devices": devices,
        "train.num_nodes": num_nodes,
        "train.strategy": strategy,
    }
    changes = [f"{name}={value}" for name, value in given.items() if value is not None] + (settings or [])
    changes += ["data.skip_bad=true"] if skip_bad else []
    if model is not None and ":" in model:
        make_known(model, task)
    source = config or _preset(model, data, task, bool(overrides))
    if resume:
        if out is None:
            raise ConfigError("--resume needs --out, the folder of the run to continue")
        source = config or str(out / "config.toml")
        if config is None and not (out / "config.toml").is_file():
            raise ConfigError(f"{out} holds no config.toml: there is no run to resume")
    resolved = load_config(source, changes)
    if ":" in resolved.model.name:
        make_known(resolved.model.name, resolved.data.task)

    from fourierscale.cli.folder_run import choose_settings, finish, refuse_preset, survey_of
    from fourierscale.cli.progress import progress_bars
    from fourierscale.cli.show import metrics_table
    from fourierscale.training import load_splits, train
    from fourierscale.training.picture import draw_metrics
    from fourierscale.training.run import is_first_process

    if resolved.train.num_nodes > 1 and out is None:
        raise ConfigError("several machines need one folder for the run that all of them see: give it as --out")
    folder, survey = folder_path(resolved.data.protocol), None
    if images is not None:
        refuse_preset(images)
    check_folder(out or Path("runs"))
    run = out or _run_folder(folder.resolve().name if folder is not None else config or model or source)
    main_process = is_first_process()
    with progress_bars() as report:
        if folder is not None:
            survey = survey_of(resolved, report)
            if survey is not None and source in CHOSEN:  # a config of the user's own stays as it is
                names = [change.partition("=")[0].strip() for change in changes]
                resolved = choose_settings(resolved, survey, names, main_process)
        splits = load_splits(resolved, report, survey)
    with _logging(main_process):
        metrics = train(resolved, run, resume, splits=splits)
    if main_process:
        title = f"{resolved.model.name} on {metrics['protocol']}"
        draw_metrics(metrics, run / "metrics.png", title)
        metrics_table(metrics, resolved.model.name)
        typer.echo(f"trained in {metrics['train_seconds']:.0f} s; everything is in {run}")
        if folder is not None or resolved.data.task != "classification":
            finish(run, splits, onnx and folder is not None)


def _preset(model: str | None, data: str | None, task: str | None, begun: bool) -> str:
    """The preset that a model is trained with; that of the task or the folder where only weights name a model."""
    from fourierscale.data.protocols import folder_path
    from fourierscale.models import model_info
    from fourierscale.training.errors import ConfigError

    free = model is None or begun
    if free and task in OF_TASKS:
        if not data and task == "segmentation":
            raise ConfigError("give the folder of images/ and masks/: fourierscale train --task segmentation FOLDER")
        return OF_TASKS[task]
    if free and data and folder_path(data):
        return "folder"
    try:
        return "tiny" if model is None else model_info(model).recipe
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _run_folder(name: str) -> Path:
    # Processes of one run start moments apart: those that a process starts take over its choice.
    stamp, _, process = os.environ.get("FOURIERSCALE_RUN", "").partition("@")
    if not stamp or process == str(os.getpid()):
        stamp = time.strftime("%Y%m%d-%H%M%S")
        os.environ["FOURIERSCALE_RUN"] = f"{stamp}@{os.getpid()}"
    return Path("runs") / f"{Path(name).stem}-{stamp}"


@contextmanager
def _logging(main_process: bool) -> Iterator[None]:
    """A line per epoch on standard error, of this library alone."""
    logger, handler = logging.getLogger("fourierscale"), logging.StreamHandler(sys.stderr)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if main_process else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
