"""Runs: one training with one seed, known by what it computes and not by the table that asks for it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fourierscale.data.errors import DataError
from fourierscale.data.protocols import find_protocol, folder_path, old_name
from fourierscale.data.registry import find_dataset
from fourierscale.lab.tables.rows import Column, Table, TableRow
from fourierscale.lab.tables.tables import TABLES
from fourierscale.models.registry import model_info
from fourierscale.training.config import Config, load_config
from fourierscale.training.errors import ConfigError
from fourierscale.training.run import resolve_model
from fourierscale.training.typed import plain

__all__ = [
    "Run",
    "RunPlan",
    "cell_key",
    "identity",
    "plan",
    "recipe_key",
    "recipe_names",
    "row_runs",
    "run_columns",
    "train_command",
]

# Where and how fast a run computes, not what.
INCIDENTAL = frozenset(
    {
        *(f"data.{name}" for name in ("data_dir", "offline", "workers", "on_device", "memory_limit")),
        *(f"train.{name}" for name in ("accelerator", "devices", "num_nodes", "strategy", "timeout")),
        *(f"train.{name}" for name in ("compile", "cuda_graphs", "channels_last", "progress", "seed")),
        "eval.batch_size",
        # how exactly the measures are known: a result says over how many pairs and images, and in which precision
        *("eval.sample", "eval.consistency", "eval.precision"),
    }
)


# Names under which fields are hashed that have another one today: results keep their hash.
HASHED_AS = {"data.enlarge": "data.fit"}


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        name: The name of its result; it tells table, row and seed of the first table that has the run.
        key: Hash of what it computes; see :func:`recipe_key`.
        config: Resolved.
        command: What a user types to run it alone.
    """

    name: str
    key: str
    config: Config
    command: str

    @property
    def seed(self) -> int:
        """The seed of initial weights, order, augmentation and dropout."""
        return self.config.train.seed

    @property
    def work(self) -> int:
        """Passes of an image through the net in training; a folder is not read here and counts as one image."""
        data, train = self.config.data, self.config.train
        images = 1
        if folder_path(data.protocol) is None:
            protocol = find_protocol(data.protocol)
            images = data.train_size or protocol.train_size or protocol.sizes[0]
        return train.epochs * images * (2 if self.config.loss.two_passes else 1)

    @property
    def folder(self) -> str:
        """Name of its folder; another recipe under the same name gets another folder."""
        return hashed_name(self.name, self.key).replace("/", "-")


@dataclass
class RunPlan:
    """What a user asked for: runs, each once, and rows that cannot be run, with the reason."""

    runs: list[Run] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def hashed_name(name: str, key: str) -> str:
    """The name of a run with its hash in front of the seed.

    >>> hashed_name("mnist-all/cnn-seed0", "834d2632ee")
    'mnist-all/cnn-834d2632ee-seed0'
    """
    start, _, seed = name.rpartition("-")
    return f"{start}-{key}-{seed}"


def identity(config: Config) -> dict[str, Any]:
    """The fields that decide what a run computes, its seed aside, where they differ from their defaults.

    Equal runs have equal identities: where the images lie, how many devices share the work and options that repeat
    the model's own do not count, and neither does a field that a later version adds.

    >>> identity(Config().replaced(["optim.lr=0.01", "train.devices=4", "model.overrides.hidden=256"]))
    {'optim.lr': 0.01}
    """
    found, usual = _flat(config), _flat(Config())
    options = _model_options(config.model.name)
    if config.data.enlarge is not None and config.data.enlarge == options.get("enlarge"):
        found["data.enlarge"] = None
    found["data.protocol"] = old_name(config.data.protocol)
    if config.train.keep == "last":
        found["train.validate_every"] = usual["train.validate_every"]
    for name, value in config.to_dict()["model"]["overrides"].items():
        if name not in options or options[name] != value:
            found[f"model.overrides.{name}"] = value
    told = {name: value for name, value in found.items() if name not in INCIDENTAL and value != usual.get(name)}
    return dict(sorted((HASHED_AS.get(name, name), value) for name, value in told.items()))


def setting(config: Config, field: str) -> Any:
    """The value of a field by its dotted name, given or default.

    >>> setting(Config(), "optim.lr"), setting(Config(), "model.overrides.head")
    (0.005, 'plain')
    """
    option = field.removeprefix("model.overrides.")
    if option == field:
        return _flat(config)[field]
    return config.to_dict()["model"]["overrides"].get(option, _model_options(config.model.name).get(option))


def recipe_key(config: Config) -> str:
    """Ten hexadecimal digits that stand for everything but the seed."""
    text = json.dumps(identity(resolved(config)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def resolved(config: Config) -> Config:
    """With the options of the model that follow from the data, as training will write them down."""
    if folder_path(config.data.protocol) is not None:
        return config
    try:
        protocol = find_protocol(config.data.protocol)
        if protocol.task != "classification":
            return resolve_model(config, protocol, len(protocol.classes), len(protocol.mean))
        dataset = find_dataset(protocol.dataset)
        return resolve_model(config, protocol, len(dataset.classes), dataset.shape[0])
    except (DataError, ValueError) as error:  # a protocol or a model that does not exist
        raise ConfigError(str(error)) from None


def plan(
    wanted: Iterable[tuple[Table, Sequence[TableRow]]], seeds: Sequence[int] = (), settings: Sequence[str] = ()
) -> RunPlan:
    """The runs behind rows of tables, each once however many of them ask for it.

    Args:
        wanted: Tables and the rows of each.
        seeds: The tables' own if none is given.
        settings: Fields of every config to change, as ``train --set`` takes them; a run that then computes something
            else than its row is named after its own hash.
    """
    found, known, names = RunPlan(), set(), recipe_names()
    for table, rows in wanted:
        for row in rows:
            try:
                runs = row_runs(table, row, seeds or table.seeds, settings, names)
            except ConfigError as error:
                found.refused[f"{table.name} {row.key}"] = str(error)
                continue
            found.runs += [run for run in runs if (run.key, run.seed) not in known]
            known |= {(run.key, run.seed) for run in runs}
    return found


def run_columns(table: Table, row: TableRow) -> list[Column]:
    """One column for each run of a row: the first of those that it stands behind."""
    return list({row.settings_in(column): column for column in reversed(table.columns)}.values())[::-1]


def row_runs(
    table: Table, row: TableRow, seeds: Sequence[int], settings: Sequence[str], names: Mapping[str, str]
) -> list[Run]:
    """The runs behind one row.

    Args:
        table: Its table.
        row: The row.
        seeds: One run for each, and for each kind of column.
        settings: Fields of the config to change.
        names: Names of recipes, by hash; see :func:`recipe_names`.

    Raises:
        ConfigError: A model or preset that is not there, or settings that cannot be.
    """
    runs = []
    for column in run_columns(table, row):
        config = resolved(load_config(row.preset, (*row.settings_in(column), *settings)))
        key = recipe_key(config)
        name = names.get(key) or f"{_name(table, row, column)}-{key}"
        for seed in seeds:
            seeded = config.replaced([f"train.seed={seed}"])
            runs.append(Run(f"{name}-seed{seed}", key, seeded, train_command(row, column, seed, settings)))
    return runs


def cell_key(row: TableRow, column: Column) -> str | None:
    """The hash of the run behind a figure; ``None`` for a row that this installation cannot train."""
    try:
        return _preset_key(row.preset, row.settings_in(column))
    except ConfigError:
        return None


@functools.cache
def _preset_key(preset: str, settings: tuple[str, ...]) -> str:
    """Asked for again and again by a report; what cannot be configured raises and is not remembered."""
    return recipe_key(load_config(preset, settings))


def train_command(row: TableRow, column: Column, seed: int, settings: Sequence[str] = ()) -> str:
    """What a user types to train a row alone.

    >>> row, column = TABLES["mnist-consistency"].rows[-2], TABLES["mnist-consistency"].columns[-1]
    >>> print(train_command(row, column, 0).replace(" --set", " ..."))
    fourierscale train --config mnist-paper ... data.protocol=mnist-scale-1000 ... loss.hinge=none --seed 0
    """
    changes = [f" --set {shlex.quote(setting)}" for setting in (*row.settings_in(column), *settings)]
    return f"fourierscale train --config {row.preset}{''.join(changes)} --seed {seed}"


def _name(table: Table, row: TableRow, column: Column) -> str:
    return f"{table.name}/{'-'.join(part for part in (row.key, column.variant) if part)}"


def recipe_names() -> dict[str, str]:
    """Names of all recipes by their hash, after the first table that has them."""
    names: dict[str, str] = {}
    for table in TABLES.values():
        for row in table.rows:
            for column in run_columns(table, row):
                key = cell_key(row, column)
                if key is not None:
                    names.setdefault(key, _name(table, row, column))
    return names


def _flat(config: Config) -> dict[str, Any]:
    """Every field but the options of the model, by its dotted name."""
    fields = {
        f"{section}.{name}": value for section, table in config.to_dict().items() for name, value in table.items()
    }
    del fields["model.overrides"]
    return fields


def _model_options(name: str) -> dict[str, Any]:
    """The options that a model has if none is overridden, as a config writes them, and how images reach it."""
    try:
        info = model_info(name)
    except ValueError:
        return {}
    usual = {
        option: parameter.default
        for option, parameter in inspect.signature(info.build).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    return {**plain({**usual, **info.defaults}), "enlarge": info.enlarge}
