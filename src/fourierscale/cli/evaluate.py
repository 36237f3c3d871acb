"""``fourierscale evaluate``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fourierscale.cli.found import MODEL_HELP, Trained, find_trained, folder_options
from fourierscale.models.files import write_whole

if TYPE_CHECKING:
    from fourierscale.data import ProgressCallback, ScaledSplits

__all__ = ["evaluate"]


def evaluate(
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    data: Annotated[
        str | None, typer.Option(help="Protocol, or folder of images; that of its training if not given.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Try neither mirrors nor npm.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="At most so many test images; 0 means all.")] = 0,
    sample: Annotated[int, typer.Option(min=1, help="Images that are really downscaled, for Equi-Err.")] = 256,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Images in a batch; 256, or 64 with --anytime, if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    factory: Annotated[
        str | None, typer.Option(help="The function that built a net of yours, package.module:function.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on without images of a folder that cannot be used.")
    ] = False,
    mean: Annotated[str | None, typer.Option(help="Subtracted from each channel, if not what the model says.")] = None,
    std: Annotated[str | None, typer.Option(help="Each channel is divided by it, if not what the model says.")] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="Measure coarse answers first instead: accuracy against time.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for metrics.json and metrics.png.")] = None,
) -> None:
    """Measure a trained model: accuracy, Scale-Con, Equi-Err, accuracy per resolution; beside the paper's rows.

    With --anytime: what thresholds of 'predict --sure' cost and save, as anytime.json and anytime.png.
    """
    from fourierscale.cli.audit import numbers, with_normalisation
    from fourierscale.cli.progress import progress_bars
    from fourierscale.cli.show import metrics_table
    from fourierscale.data import Scaling, load_protocol
    from fourierscale.data.protocols import bare_name, folder_path
    from fourierscale.predicting import find_device
    from fourierscale.training.config import EvalConfig
    from fourierscale.training.errors import ConfigError
    from fourierscale.training.evaluation import evaluate as measure
    from fourierscale.training.picture import draw_metrics

    try:
        where = find_device(device)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    found = find_trained(model, factory)
    folder = out or found.folder or Path()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder to write the results in")
    prepare = with_normalisation(found.preprocessing, numbers("--mean", mean), numbers("--std", std))
    trained = found.info.get("config", {}).get("data", {})
    name = found.protocol if data is None else bare_name(data)
    own, of_folder = name == found.protocol, folder_path(name) is not None
    data_dir = data_dir or (trained.get("data_dir") if own else None)
    options = folder_options(found, name)
    with progress_bars() as report:
        splits = _pairs(found, name, data_dir, report) or load_protocol(
            name,
            data_dir=data_dir,
            offline=offline,
            seed=trained.get("seed", 0) if own else 0,
            scaling=Scaling(kind=prepare.kind if own else None, boundary=prepare.boundary),
            folder=replace(options, skip_bad=True) if skip_bad else options,
            report=report,
        )
    channels, known = int(splits.test.images.shape[1]), prepare.classes
    if channels != prepare.channels or len(splits.classes) != len(known):
        raise ConfigError(
            f"the model takes {prepare.channels} channel(s) and {len(known)} classes, {splits.protocol.name} has "
            f"{channels} and {len(splits.classes)}"
        )
    if of_folder and splits.classes != known:
        raise ConfigError(
            f"the model knows the classes {', '.join(known[:5])}, ..., {name} has "
            f"{', '.join(splits.classes[:5])}, ...: name its folders as the model's classes"
        )
    if own and splits.hashes != found.info.get("data", {}).get("hashes") and of_folder:
        typer.echo("the folder has changed since training: some test images may have been trained on", err=True)
    if anytime:
        _anytime(found, splits, folder, device, limit, 64 if batch_size is None else batch_size)
        return
    config = EvalConfig(batch_size=batch_size or 256, limit=limit, sample=sample)
    with progress_bars() as report:
        metrics = measure(found.model, splits, config, preprocessing=prepare, device=where, report=report)
    named = [] if found.folder is not None else [found.name]
    named += [] if found.folder is not None and own and not limit else [name]
    # beside a run's own metrics.json, or among a user's files, only what is named after itself
    stem = "metrics" if out is not None else _file_stem("metrics", *named, *([str(limit)] if limit else []))
    table, picture = folder / f"{stem}.json", folder / f"{stem}.png"
    write_whole(table, json.dumps(metrics, indent=2) + "\n")
    draw_metrics(metrics, picture, f"{found.name} on {splits.protocol.name}")
    metrics_table(metrics, found.name)
    typer.echo(f"wrote {table} and {picture}")


def _pairs(found: Trained, name: str, data_dir: Path | None, report: ProgressCallback) -> ScaledSplits | None:
    """Images with masks or pairs of fields, for a model of them, opened as in training."""
    from fourierscale.training import Config, load_splits

    if found.task == "classification":
        return None
    changes = [f"data.protocol={json.dumps(name)}", *([] if data_dir is None else [f"data.data_dir={data_dir}"])]
    return load_splits(Config.from_dict(found.info["config"]).replaced(changes), report)


def _anytime(found: Trained, splits: ScaledSplits, folder: Path, device: str, limit: int, batch_size: int) -> None:
    """Accuracy against time as a table, JSON and a picture."""
    from dataclasses import asdict

    from fourierscale.cli.progress import progress_bars
    from fourierscale.cli.show import anytime_table
    from fourierscale.predicting import Classifier
    from fourierscale.predicting.anytime import largest_images, measure_anytime
    from fourierscale.training.picture import draw_anytime

    classifier = Classifier(found.model, device=device, batch_size=batch_size)
    test, validation = (largest_images(part, classifier.preprocessing, limit) for part in (splits.test, splits.val))
    with progress_bars() as report:
        measured = measure_anytime(classifier, test, validation, report=report)
    table, picture = folder / "anytime.json", folder / "anytime.png"
    about = {"protocol": splits.protocol.name, "images": len(test[1]), "batch_size": batch_size}
    write_whole(table, json.dumps(about | asdict(measured), indent=2) + "\n")
    draw_anytime(measured, picture, f"{found.name} on {splits.protocol.name}")
    anytime_table(measured, f"{len(test[1]):,} images of {test[0].shape[-1]} px, batches of {batch_size}")
    typer.echo(f"wrote {table} and {picture}")


def _file_stem(*parts: str) -> str:
    """Parts of a name as a file may be called.

    >>> _file_stem("metrics", "my photos", "20")
    'metrics-my-photos-20'
    """
    return "-".join(re.sub(r"[^\w.-]+", "-", part).strip("-") for part in parts)
