"""Results: one small JSON file per finished run, the description that training writes beside its weights."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fourierscale.lab.tables.runs import Run, hashed_name, recipe_key
from fourierscale.training.config import Config, load_config
from fourierscale.training.errors import CheckpointError, ConfigError
from fourierscale.training.weights import read_info

__all__ = ["Result", "Results", "collect", "is_finished", "read_results"]

# of "local folder PATH", "cache PATH" and "SOURCE, kept in PATH", each with a note in brackets behind or none
PATH = re.compile(r"((?:^local folder|^cache|, kept in)) .*?(?= \(|$)")


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        name: Of its file.
        key: Hash of what it computed.
        config: Everything it depended on.
        metrics: What was measured on the test images.
        versions: Of what computed.
        history: Columns of its log, thinned; empty where none was kept.
    """

    name: str
    key: str
    config: Config
    metrics: Mapping[str, Any]
    versions: Mapping[str, str]
    history: Mapping[str, list[float | None]] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """Of initial weights, order, augmentation and dropout."""
        return self.config.train.seed


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
    """Read ``*.json`` of a folder; a folder that is not there holds none.

    A file that is no result is named in ``problems`` and left out.

    Raises:
        NotADirectoryError: A file has the folder's name.
    """
    if Path(folder).is_file():
        raise NotADirectoryError(f"{os.fspath(folder)} is a file: results are read from a folder")
    found, problems = [], []
    for path in sorted(Path(folder).glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            config = Config.from_dict(data["config"])
            history = data.get("history", {})
            result = Result(path.stem, recipe_key(config), config, data["metrics"], data["versions"], history)
            float(result.metrics["accuracy"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            problems.append(f"{path}: not a result ({type(error).__name__}: {' '.join(str(error).split())[:120]})")
            continue
        found.append(result)
    return Results(tuple(found), tuple(problems))


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
    """Copy the description of finished runs into one folder, ``NAME.json`` each; returns what was written.

    Paths of this machine are left out. A file of that name that holds another recipe, because the row has changed
    since, is kept under a name with its own hash.

    Args:
        runs: Runs and the folders that hold them.
        target: Made if it is not there.
    """
    root, written = Path(target), []
    for run, folder in runs:
        if not is_finished(folder, run):
            continue
        info = without_paths(read_info(folder))
        root.mkdir(parents=True, exist_ok=True)
        path = root / f"{run.name}.json"
        _keep_other(path, run.key)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)
        written.append(path)
    return written


def without_paths(info: dict[str, Any]) -> dict[str, Any]:
    """A description of a run without the paths of the machine that trained it, which help nobody."""
    info["config"]["data"]["data_dir"] = None
    for part in ("data", "metrics"):
        if "source" in info.get(part, {}):
            info[part]["source"] = PATH.sub(r"\1", info[part]["source"]).removesuffix(", kept in")
    return info


def _keep_other(path: Path, key: str) -> None:
    """Move the result of another recipe out of the way."""
    try:
        other = recipe_key(Config.from_dict(json.loads(path.read_text(encoding="utf-8"))["config"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError):
        return
    if other != key:
        os.replace(path, path.with_name(f"{hashed_name(path.stem, other)}.json"))
