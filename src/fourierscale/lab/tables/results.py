"""Results: one small JSON file per finished run, ``TABLE/ROW-seedN.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fourierscale.lab.tables.runs import Run, hashed_name, recipe_key
from fourierscale.models.files import write_whole
from fourierscale.models.saved import read_info
from fourierscale.training.config import Config, load_config
from fourierscale.training.errors import CheckpointError, ConfigError

__all__ = ["Result", "Results", "collect", "is_finished", "read_results", "slim"]

MEASURED = (
    *("accuracy", "accuracy_standard_error", "scale_con", "scale_con_standard_error", "scale_con_images"),
    *("equi_err", "equi_err_max", "equi_err_pairs", "ece", "ece_after_temperature", "level_difference"),
    *("accuracy_over_resolution", "loss_per_level", "levels_from_one_pass", "images"),
    *("precision", "device", "epochs", "train_seconds", "task"),
    *("iou", "iou_per_resolution", "iou_per_class", "boundary", "boundary_per_resolution"),
    *("agreement", "agreement_per_resolution", "error", "error_per_resolution", "strided_error_per_resolution"),
)
MAIN = {"classification": "accuracy", "segmentation": "iou", "field": "error"}
CURVES, POINTS = ("epoch", "loss", "val_acc", "val_iou", "val_error"), 20
WORDS, TABLES = ("precision", "device", "task"), ("accuracy_over_resolution", "loss_per_level")
MISSING = ("level_difference", "train_seconds")  # may be None
NO_RESULT = (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError, ConfigError)


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        name: Its file without the ending, as seen from the folder of results.
        key: Hash of what it computed.
        config: Everything it depended on.
        metrics: What was measured on the test images.
        versions: Versions of the software that computed it.
        history: Training loss and validation accuracy by epoch, thinned; empty where none was kept.
    """

    name: str
    key: str
    config: Config
    metrics: Mapping[str, Any]
    versions: Mapping[str, str]
    history: Mapping[str, list[float | None]] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The seed of initial weights, order, augmentation and dropout."""
        return self.config.train.seed

    def figure(self, metric: str) -> float | None:
        """A measure by its name, with dots where it is one of several: ``"iou_per_class.pet.48"``."""
        value: Any = self.metrics
        for name in metric.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return None if value is None else float(value)


@dataclass(frozen=True)
class Results:
    """All results of a folder, and which of its files are none."""

    all: tuple[Result, ...]
    problems: tuple[str, ...]

    def of(self, key: str | None) -> list[Result]:
        """Results of one recipe by seed; of two with the same seed, the first by name."""
        found: dict[int, Result] = {}
        for result in self.all:
            if result.key == key:
                found.setdefault(result.seed, result)
        return [found[seed] for seed in sorted(found)]

    def has(self, run: Run) -> bool:
        """Whether a run is among them."""
        return any(result.seed == run.seed for result in self.of(run.key))


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Read the ``*.json`` files of a folder and of those in it; a folder that is not there holds none.

    A file that is no result is named in ``problems`` and left out.

    Raises:
        NotADirectoryError: A file has the folder's name.
    """
    root = Path(folder)
    if root.is_file():
        raise NotADirectoryError(f"{os.fspath(folder)} is a file: results are read from a folder")
    found, problems = [], []
    for path in sorted(root.rglob("*.json")):
        try:
            if not path.is_file():
                raise TypeError("a pipe or a device, and no file")
            data = slim(json.loads(path.read_text(encoding="utf-8")))
            config = Config.from_dict(data["config"])
            _check(data, MAIN[config.data.task])
            name = path.relative_to(root).with_suffix("").as_posix()
            result = Result(name, recipe_key(config), config, data["metrics"], data["versions"], data["history"])
        except NO_RESULT as error:
            problems.append(f"{path}: not a result ({type(error).__name__}: {' '.join(str(error).split())[:120]})")
            continue
        found.append(result)
    return Results(tuple(found), tuple(problems))


def _check(data: Mapping[str, Any], main: str) -> None:
    """Refuse, with a ``TypeError``, measures of another kind than pages can show; ``main`` has to be there."""
    metrics, curves = data["metrics"], data["history"]
    for name, value in {main: None, **metrics}.items():
        if name in TABLES or name.endswith("_per_resolution"):
            fine = isinstance(value, Mapping) and all(_is_number(part) or part is None for part in value.values())
            fine = fine and all(_is_number(float(place)) for place in value)
        elif name == "iou_per_class":
            fine = isinstance(value, Mapping) and all(isinstance(part, Mapping) for part in value.values())
        elif name in WORDS:
            fine = isinstance(value, str)
        else:
            fine = _is_number(value) or (value is None and name in MISSING)
        if not fine:
            raise TypeError(f"{name} is {value!r:.40}")
    if curves and not all(map(_is_number, curves["epoch"])):
        raise TypeError("epochs are no numbers")
    for name, curve in curves.items():
        if len(curve) != len(curves["epoch"]) or not all(_is_number(point) or point is None for point in curve):
            raise TypeError(f"{name} has not one number for each epoch")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e300


def is_finished(folder: Path, run: Run) -> bool:
    """Whether a folder holds this run, measured: a ``metrics.json``, and a config of the same hash and seed."""
    try:
        json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        config = load_config(folder / "config.toml")
        read_info(folder)
    except (OSError, ValueError, ConfigError, CheckpointError):
        return False
    return recipe_key(config) == run.key and config.train.seed == run.seed


def collect(runs: Iterable[tuple[Run, Path]], target: str | os.PathLike[str]) -> list[Path]:
    """Write the results of finished runs into one folder, ``TABLE/ROW-seedN.json``; returns what was written.

    A file of that name that holds another recipe, because the row has changed since, is kept under a name with its
    own hash.

    Args:
        runs: Runs and the folders that hold them.
        target: Made if it is not there.
    """
    written = []
    for run, folder in runs:
        if is_finished(folder, run):
            path = Path(target) / f"{run.name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            _keep_other(path, run.key)
            write_whole(path, to_json(slim(read_info(folder))))
            written.append(path)
    return written


def slim(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a result keeps of the description that training writes beside its weights.

    These are the fields of the config that are not at their defaults, without the folder of the images, the measures
    that pages show, in six digits, the versions, and a training curve of a few points.
    """
    usual, given = Config().to_dict(), Config.from_dict(info["config"]).to_dict()
    given["data"]["data_dir"] = None
    config = {
        section: {name: value for name, value in fields.items() if value != usual[section][name]}
        for section, fields in given.items()
    }
    measured = dict(info["metrics"])
    if "accuracy_per_resolution" in measured:
        measured["accuracy_over_resolution"] = over_resolution(measured)
    if not measured.get("levels_from_one_pass"):  # then it has one answer, at the image's own resolution
        measured.pop("loss_per_level", None)
    return {
        "config": {section: fields for section, fields in config.items() if fields},
        "metrics": _rounded({name: measured[name] for name in MEASURED if name in measured}, 6),
        "versions": {name: info["versions"][name] for name in ("torch", "fourierscale") if name in info["versions"]},
        "history": _thinned(info.get("history") or {}),
    }


def to_json(result: Mapping[str, Any]) -> str:
    """A result as text, one line for each of its parts."""
    parts = (f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in result.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def over_resolution(metrics: Mapping[str, Any], least: int = 100) -> dict[str, float]:
    """Accuracy over resolution; neighbours are taken together until a point stands for so many images.

    >>> counts, accuracy = {"8": 60, "9": 40, "10": 100}, {"8": 1.0, "9": 0.5, "10": 0.9}
    >>> over_resolution({"images_per_resolution": counts, "accuracy_per_resolution": accuracy})
    {'8.4': 0.8, '10': 0.9}
    """
    accuracy = {place: value for place, value in metrics["accuracy_per_resolution"].items() if value is not None}
    counts = metrics.get("images_per_resolution") or dict.fromkeys(accuracy, least)
    points, group = {}, []
    for place in accuracy:
        group.append(place)
        images = sum(counts[g] for g in group)
        if images >= least or place == [*accuracy][-1]:
            middle = sum(float(g) * counts[g] for g in group) / images
            points[f"{middle:.4g}"] = sum(accuracy[g] * counts[g] for g in group) / images
            group = []
    return points


def _thinned(history: Mapping[str, list[float | None]]) -> dict[str, Any]:
    """A few points of the curves that the report draws, validated epochs where there are some."""
    epochs = range(len(history.get("epoch", ())))
    scores = next((history[name] for name in CURVES[2:] if history.get(name)), ())
    validated = [row for row in epochs if scores and scores[row] is not None]
    rows = validated or list(epochs)
    step = max(1.0, (len(rows) - 1) / (POINTS - 1))
    rows = [rows[round(step * number)] for number in range(min(len(rows), POINTS))]
    return {name: _rounded([history[name][row] for row in rows], 4) for name in CURVES if history.get(name)}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part, digits) for name, part in value.items()}
    return [_rounded(part, digits) for part in value] if isinstance(value, list) else value


def _keep_other(path: Path, key: str) -> None:
    """Move the result of another recipe out of the way."""
    try:
        other = recipe_key(Config.from_dict(json.loads(path.read_text(encoding="utf-8"))["config"]))
    except NO_RESULT:
        return
    if other != key:
        os.replace(path, path.with_name(f"{hashed_name(path.stem, other)}.json"))
