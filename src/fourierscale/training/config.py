"""Everything a run depends on, typed, as data: read from TOML or YAML, overridable field by field, saved as TOML."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, Strict
from pydantic.dataclasses import dataclass

from fourierscale.data.protocols import TaskName, bare_name
from fourierscale.data.survey import FolderOptions
from fourierscale.functional.enlarging import Enlarging
from fourierscale.functional.resample import Kind
from fourierscale.models.described import DescriptionError, checked
from fourierscale.models.files import check_regular
from fourierscale.nn.checks import nearest
from fourierscale.training.errors import ConfigError
from fourierscale.training.losses import Hinge, LevelSum
from fourierscale.training.typed import (
    WORD,
    Count,
    Flag,
    Limit,
    Positive,
    Seed,
    Settings,
    Share,
    Weight,
    parse_value,
    parse_yaml,
    plain,
    to_toml,
)

__all__ = [
    "Config",
    "DataConfig",
    "EvalConfig",
    "LossConfig",
    "ModelConfig",
    "OptimConfig",
    "Precision",
    "TrainConfig",
    "list_presets",
    "load_config",
]

EXACT = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
Precision: TypeAlias = Annotated[Literal["32", "bf16"], WORD]
"""Single precision, or bfloat16 where torch finds it safe and single precision elsewhere."""
WantedPrecision: TypeAlias = Annotated[Literal["32", "bf16", "auto"], WORD]
Schedule: TypeAlias = Literal["step", "onecycle", "cosine", "constant"]


@dataclass(frozen=True, config=EXACT)
class ModelConfig:
    """Which network.

    Attributes:
        name: A name that ``create_model`` knows.
        overrides: Options of the model that differ from its preset.
        start: Weights to begin with: a run's folder, a ``.safetensors`` file, or the name of weights that ship.
    """

    name: str = "scalenet-mnist"
    overrides: Settings = field(default_factory=dict)
    start: str | None = None


@dataclass(frozen=True, config=EXACT)
class DataConfig(FolderOptions):
    """Which images; of those of a folder also what :class:`FolderOptions` says.

    Attributes:
        protocol: A protocol's name, or the path of a folder of images.
        data_dir: A folder that may hold the files; looked at first.
        offline: Try neither mirrors nor npm.
        seed: Decides splits and resolutions; the published splits have seed 0.
        kind: How to downscale, if not as the protocol says.
        boundary: What lies beyond the images' edge when they are downscaled, if not what the model says.
        train_size: Use only so many training images.
        augment: Name of the augmentation of the training images.
        augment_settings: Settings of its steps that differ from their defaults.
        batch_size: Images in a batch, all of one resolution.
        mixed: Whether a batch of training images may hold several resolutions, for models of one input size; batches
            that are measured hold one.
        workers: Processes that decode images of a folder too large for memory.
        enlarge: How images reach a model of one input size, if not as the model says.
        on_device: Keep the images on the GPU if they fit.
        task: What is learned: the class of each image, the class of each pixel, or another field.
        ignore: Of masks, pixels of this number count for nothing.
    """

    protocol: str = "mnist-scale"
    data_dir: str | None = None
    offline: Flag = False
    seed: Seed = 0
    kind: Kind | None = None
    boundary: str | None = None
    train_size: Count | None = None
    augment: Annotated[str, WORD] = "none"
    augment_settings: Settings = field(default_factory=dict)
    batch_size: Count = 128
    mixed: Flag = False
    workers: Limit = 0
    enlarge: Enlarging | None = None
    on_device: Flag = True
    task: TaskName = "classification"
    ignore: Limit | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "protocol", bare_name(self.protocol))


@dataclass(frozen=True, config=EXACT)
class LossConfig:
    """What is minimised; see ``scale_loss`` and, for the last two, ``fourierscale.training.real``.

    Attributes:
        hinge: Penalty on levels that do worse than coarser ones.
        weight: Its weight.
        margin: By how much a level has to be ahead.
        levels: Whether what the levels add to the loss is summed or averaged.
        smoothing: Share of the label that is spread over all classes in training.
        follow: Weight of the divergence of each level's prediction from that of the next coarser one; for levels that
            know nearly the same.
        real: If above 0, batches are also passed downscaled as the data are, and this is the weight of the hinge
            between the two passes: for downscaling that is not ideal, where levels are not what downscaled images give.
        features: Weight of the equivariance error between the features of the two passes.
        maps: Of tasks whose answer is a map, whether a step's loss is the mean over the maps of every level, or that of
            the batch downscaled to one level, drawn for each step.
        dice: Of segmentation, weight of the Dice loss beside the cross entropy.
    """

    hinge: Annotated[Hinge, WORD] = "none"
    weight: Weight = 0.1
    margin: Weight = 0.5
    levels: LevelSum = "sum"
    smoothing: Share = 0.0
    follow: Weight = 0.0
    real: Weight = 0.0
    features: Weight = 0.0
    maps: Literal["every", "one"] = "every"
    dice: Weight = 0.0

    @property
    def two_passes(self) -> bool:
        """Whether batches are also passed downscaled."""
        return self.real > 0 or self.features > 0


@dataclass(frozen=True, config=EXACT)
class OptimConfig:
    """How it is minimised.

    Attributes:
        name: ``"adamw"`` or ``"adam"``.
        lr: Highest learning rate.
        betas: Decay rates of Adam's averages.
        weight_decay: On matrices alone: weights of two axes or more, not norms, biases or steps.
        schedule: ``"step"``: times ``gamma`` every ``step_size`` epochs; ``"onecycle"``: up over 30 % of the steps,
            down to almost nothing; ``"cosine"``: linear warm-up, then a cosine to 0; ``"constant"``.
        step_size: Epochs between two steps.
        gamma: Factor of a step.
        warmup: Share of all steps in which the rate of ``"cosine"`` rises.
        grad_clip: Largest norm of the gradient; 0 means no clipping.
        ema_decay: If above 0, weights are averaged exponentially with this decay, and the average is what is
            validated, tested and saved.
    """

    name: Literal["adamw", "adam"] = "adamw"
    lr: Positive = 5e-3
    betas: tuple[Share, Share] = (0.9, 0.99)
    weight_decay: Weight = 0.03
    schedule: Schedule = "cosine"
    step_size: Count = 20
    gamma: Annotated[float, Strict(), Field(gt=0, le=1, allow_inf_nan=False)] = 0.1
    warmup: Share = 0.15
    grad_clip: Weight = 0.0
    ema_decay: Share = 0.0


@dataclass(frozen=True, config=EXACT)
class TrainConfig:
    """How long, how exactly, and where.

    Attributes:
        epochs: Passes over the training images.
        seed: Decides initial weights, order of the batches, augmentation and dropout.
        precision: ``"32"``, ``"bf16"`` (mixed), or ``"auto"``: bfloat16 where the processor is faster in it.
        accelerator: As Lightning's Trainer takes it, as ``devices``, ``num_nodes`` and ``strategy``.
        devices: How many devices, a list of their numbers such as ``"0,1"``, or ``"auto"``.
        num_nodes: Number of machines.
        strategy: How processes work together, for example ``"ddp"``.
        timeout: Seconds after which a process that does not hear from the others ends.
        compile: Whether to compile the model with ``torch.compile``.
        cuda_graphs: On a GPU, replay the passes of each shape of a batch as CUDA graphs: the same numbers, sooner.
        channels_last: Keep weights and images of ordinary convolutions channels last, which tensor cores prefer.
        validate_every: Epochs between two validations.
        keep: Which weights become ``model.safetensors``: the ``"last"``, or the ``"best"`` on validation images.
        progress: Show a progress bar; ``None`` means where there is a terminal.
        matmul: Precision of float32 products on GPUs in training, as ``torch.set_float32_matmul_precision`` takes it;
            what was trained is tested in full.
    """

    epochs: Count = 60
    seed: Seed = 0
    precision: WantedPrecision = "32"
    accelerator: str = "auto"
    devices: str = "1"
    num_nodes: Count = 1
    strategy: str = "auto"
    timeout: Count = 1800
    compile: Flag = False
    cuda_graphs: Flag = True
    channels_last: Flag = False
    validate_every: Count = 1
    keep: Literal["last", "best"] = "last"
    progress: Flag | None = None
    matmul: Literal["highest", "high", "medium"] = "highest"


@dataclass(frozen=True, config=EXACT)
class EvalConfig:
    """What is measured when training ends.

    Attributes:
        limit: At most so many test images, drawn by the seed; 0 means all.
        sample: Images whose real downscaled passes give Equi-Err and check the levels.
        consistency: At most so many images for Scale-Con where it takes real passes; 0 means all.
        batch_size: Images in a batch.
        precision: ``"32"``, or ``"bf16"`` (mixed) for models that are not exact anyway.
    """

    limit: Limit = 0
    sample: Count = 256
    consistency: Limit = 0
    batch_size: Count = 256
    precision: Precision = "32"


@dataclass(frozen=True, config=EXACT)
class Config:
    """A whole run: six sections, each a table of the config file.

    >>> config = Config().replaced(["optim.lr=3e-3", "model.overrides.head=cumulative"])
    >>> config.optim.lr, config.model.overrides
    (0.003, {'head': 'cumulative'})
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)

    def __post_init__(self) -> None:
        task = self.data.task
        if self.loss.two_passes and task != "classification":
            raise ConfigError(f"loss.real and loss.features are for classification: set both to 0 for {task}")
        if self.train.compile and self.loss.two_passes:
            raise ConfigError("the second pass of loss.real and loss.features is not compiled: set train.compile=false")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """The config that :meth:`to_dict` described; a field that is left out has its default.

        Raises:
            ConfigError: A field that does not exist, with the nearest name, or a value of the wrong type.
        """
        try:
            return checked(cls, _today(data))
        except DescriptionError as error:
            raise ConfigError(str(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Plain names, numbers and lists."""
        return typing.cast("dict[str, Any]", plain(dataclasses.asdict(self)))

    def replaced(self, settings: Iterable[str]) -> Config:
        """With fields replaced by settings such as ``"optim.lr=3e-3"``; values are written as in TOML."""
        data = self.to_dict()
        for setting in settings:
            path, separator, text = setting.partition("=")
            keys = [key.strip() for key in path.split(".")]
            if not separator or not all(keys):
                raise ConfigError(f"expected a setting such as optim.lr=3e-3, got {setting!r}")
            table: Any = data
            for depth, key in enumerate(keys[:-1]):
                if not isinstance(table, dict) or (key not in table and depth == 0):
                    raise ConfigError(f"no section {key!r}: {nearest(key, data)}")
                table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{'.'.join(keys[:-1])} is a single value and has no field {keys[-1]!r}")
            table[keys[-1]] = parse_value(text.strip())
        return type(self).from_dict(data)

    def to_toml(self) -> str:
        """The config as the text of a TOML file that :func:`load_config` reads back."""
        return to_toml(self.to_dict())


RENAMED = {("data", "fit"): "enlarge"}
"""Fields that had another name in configs of earlier versions."""


def _today(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same config with the names that fields have today."""
    for (section, before), name in RENAMED.items():
        table = data.get(section) if isinstance(data, Mapping) else None
        if isinstance(table, Mapping) and before in table:
            data = {**data, section: {name if key == before else key: value for key, value in table.items()}}
    return data


def list_presets() -> list[str]:
    """Names of the configs that ship with the package.

    >>> {"mnist-best", "mnist-paper", "tiny"} <= set(list_presets())
    True
    """
    folder = resources.files("fourierscale.training") / "presets"
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir() if path.name.endswith(".toml"))


def load_config(source: str | Path, settings: Iterable[str] = ()) -> Config:
    """Read a config.

    Args:
        source: A file that ends in ``.toml``, ``.yaml`` or ``.yml``, or the name of a preset (:func:`list_presets`).
        settings: Fields to replace; see :meth:`Config.replaced`.

    Raises:
        ConfigError: No such file or preset, a file that cannot be read, an unknown field, or a wrong value.

    >>> load_config("mnist-paper", ["train.epochs=2"]).train.epochs
    2
    """
    name = str(source)
    if name in list_presets():
        text = (resources.files("fourierscale.training") / "presets" / f"{name}.toml").read_text()
        return Config.from_dict(_parse(text, f"{name}.toml")).replaced(settings)
    path = Path(source).expanduser()
    if path.suffix not in (".toml", ".yaml", ".yml"):
        raise ConfigError(f"no preset {name!r}, and not a .toml or .yaml file: {nearest(name, list_presets())}")
    try:
        check_regular(path)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"cannot read the config {name}: {reason}") from None
    try:
        return Config.from_dict(_parse(text, name)).replaced(settings)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _parse(text: str, name: str) -> dict[str, Any]:
    if name.endswith(".toml"):
        try:
            return tomllib.loads(text)
        except ValueError as error:  # also a number of too many digits
            raise ConfigError(f"not TOML: {error}") from None
        except RecursionError:
            raise ConfigError("not TOML: nested too deeply") from None
    data = parse_yaml(text)
    if not isinstance(data, dict):
        raise ConfigError("expected tables such as model, data and optim at the top of the file")
    return data
