"""Models by name: presets that can be overridden, and the weights that ship with the package."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from torch import Tensor

from fourierscale.models.classifier import ScaleClassifier, ScaleHead
from fourierscale.models.contract import ImageModel
from fourierscale.models.layers import ExactNet, LayerConfig
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.models.resnet import residual_classifier
from fourierscale.models.scalenet import ScaleNet
from fourierscale.models.scaleresnet import ScaleResNet
from fourierscale.nn.checks import nearest


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A model that :func:`create_model` can build.

    Attributes:
        name: What users ask for.
        build: Builds the model from keyword arguments.
        description: One line for lists.
        recipe: The training preset that ``fourierscale train --model NAME`` takes if it is given no other.
        defaults: The preset; every entry can be overridden.
        small: Overrides that make it small enough for a test to train it.
        enlarge: How images of any size reach a model of one input size (a mode of the data module); None: as they are.
        enlarge_size: The input size of such a model.
        citation: Whom to cite.
    """

    name: str
    build: Callable[..., ImageModel]
    description: str
    recipe: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    enlarge: str | None = None
    enlarge_size: int | None = None
    citation: str = "Rahman and Yeh, Truly Scale-Equivariant Deep Nets with Fourier Layers, NeurIPS 2023"

    @property
    def options(self) -> tuple[str, ...]:
        """Names of everything that can be overridden."""
        return tuple(inspect.signature(self.build).parameters)

    def default(self, option: str) -> Any:
        """The value of an option that is not overridden."""
        return self.defaults.get(option, inspect.signature(self.build).parameters[option].default)

    @property
    def largest_input(self) -> tuple[int, int, int]:
        """Channels, height and width of the largest image it was made for."""
        return self.input_of({})

    def input_of(self, overrides: Mapping[str, Any]) -> tuple[int, int, int]:
        """Channels, height and width of the largest image that it was made for with some options overridden."""
        resolutions = "resolutions" if "resolutions" in self.options else "image_resolutions"

        def value(option: str) -> Any:
            return overrides[option] if option in overrides else self.default(option)

        side = self.enlarge_size or max(value(resolutions))
        return value("in_channels"), side, side


_MODELS: dict[str, ModelInfo] = {}
ELSEWHERE = ("fourierscale.lab.baselines",)
"""Modules that register models when they are imported: when models are listed, or a name is not known without them."""


def register(*models: ModelInfo) -> None:
    """Add models to the registry."""
    _MODELS.update({info.name: info for info in models})


def list_models() -> list[str]:
    """Names that :func:`create_model` knows.

    >>> "scalenet-mnist" in list_models()
    True
    """
    for module in ELSEWHERE:
        importlib.import_module(module)
    return sorted(_MODELS)


def model_info(name: str) -> ModelInfo:
    """What is known about a model; a wrong name is refused with the nearest one."""
    if name not in _MODELS and name not in list_models():
        raise ValueError(f"unknown model {name!r}: {nearest(str(name), list_models())}")
    return _MODELS[name]


def create_model(name: str, **overrides: Any) -> ImageModel:
    """Build a model by name, with random weights; any entry of its preset can be overridden.

    >>> model = create_model("scalenet-tiny", classes=3, head="cumulative")
    >>> sum(p.numel() for p in model.parameters()) < 100_000
    True
    """
    info = model_info(name)
    for option in overrides:
        if option not in info.options:
            raise ValueError(f"{name} has no option {option!r}: {nearest(option, info.options)}")
    parameters = inspect.signature(info.build).parameters
    for option, value in overrides.items():
        _check_kind(option, value, str(parameters[option].annotation))
    return info.build(**{**info.defaults, **overrides})


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a name"),
}


def _check_kind(option: str, value: Any, annotation: str) -> None:
    """Refuse a value of another kind than the option: ``"False"`` from a terminal is a text, and would be true."""
    kinds = [kind.strip() for kind in annotation.split("|")]
    if not all(kind in KINDS or kind == "None" for kind in kinds) or (value is None and "None" in kinds):
        return
    known = [KINDS[kind] for kind in kinds if kind != "None"]
    fits = any(isinstance(value, types) and (bool in types or not isinstance(value, bool)) for types, _ in known)
    if not fits:
        raise ValueError(f"{option} must be {' or '.join(words for _, words in known)}, got {value!r}")


def list_pretrained() -> list[str]:
    """Names of the weights that ship; see :func:`load_pretrained`.

    >>> "scalenet-mnist" in list_pretrained()
    True
    """
    folder = resources.files("fourierscale.models") / "weights"
    return sorted(path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json"))


def pretrained_info(name: str) -> dict[str, Any]:
    """Config and metrics of the weights that ship for a model; see :func:`load_pretrained`."""
    path = resources.files("fourierscale.models") / "weights" / f"{name}.json"
    if not path.is_file():
        remedy = f"choose one of {', '.join(list_pretrained())}, or train it"
        if os.path.exists(name):  # a run's folder or a file of weights
            remedy = f"{name} is on this disk, load_model from fourierscale.models reads it"
        raise ValueError(f"there are no weights for {name!r}: {remedy}")
    info: dict[str, Any] = json.loads(path.read_text())
    return info


def load_pretrained(name: str) -> ImageModel:
    """A trained model, in evaluation mode, from the safetensors file that ships with the package.

    Its ``preprocessing`` says what pixels become before they reach it, and which classes its logits stand for.

    >>> model = load_pretrained("scalenet-mnist")
    >>> model.preprocessing.mean, model.preprocessing.classes[:3]
    ((0.0607,), ('0', '1', '2'))
    """
    try:
        from safetensors.torch import load
    except ImportError:
        raise ImportError("loading weights needs safetensors: pip install 'fourierscale[predict]'") from None
    weights = resources.files("fourierscale.models") / "weights" / f"{name}.safetensors"
    return restore_model(pretrained_info(name), load(weights.read_bytes()))


def restore_model(info: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ImageModel:
    """A trained model, in evaluation mode.

    Args:
        info: Names the ``model`` and its ``overrides``, and says how its images are prepared.
        weights: Its state.
    """
    model = create_model(info["model"], **info["overrides"])
    model.load_state_dict(weights)
    if Preprocessing.told(info):
        model.preprocessing = Preprocessing.from_info(info)
    return model.eval()


def _classifier(kind: Callable[..., ExactNet], **options: Any) -> ScaleClassifier:
    """A :class:`ScaleClassifier` from flat options: those of its net, its layers and its head."""
    layers = {name: options.pop(name) for name in LAYER_OPTIONS if name in options}
    head = {"pool_kind" if name == "head_pool" else name: options.pop(name) for name in HEAD_OPTIONS if name in options}
    net = kind(layers=LayerConfig(**layers), **options)
    stages = net.parted() if isinstance(net, ScaleResNet) else None
    return ScaleClassifier(
        net, ScaleHead(net.out_channels, resolutions=net.out_levels, boundary=net.boundary, stages=stages, **head)
    )


def _builder(kind: Callable[..., ExactNet]) -> Callable[..., ScaleClassifier]:
    """What builds a classifier around a net of this kind, with all its options as keywords."""

    def build(**options: Any) -> ScaleClassifier:
        return _classifier(kind, **options)

    build.__signature__ = inspect.Signature([*_parameters(kind, ("layers",)), *_LAYERS, *_HEAD])  # type: ignore[attr-defined]
    return build


def _parameters(function: Callable[..., Any], left_out: Sequence[str], **renamed: str) -> list[inspect.Parameter]:
    """The parameters of a constructor, as keywords, some of them under another name."""
    return [
        parameter.replace(name=renamed.get(parameter.name, parameter.name), kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in left_out
    ]


_LAYERS = _parameters(LayerConfig, ())
_HEAD = _parameters(ScaleHead, ("channels", "resolutions", "boundary", "stages"), pool_kind="head_pool")
LAYER_OPTIONS, HEAD_OPTIONS = ([parameter.name for parameter in part] for part in (_LAYERS, _HEAD))
_SCALENET, _SCALERESNET = _builder(ScaleNet), _builder(ScaleResNet)
DIGITS = {"in_channels": 1, "classes": 10, "widths": (32, 64, 100, 100), "resolutions": range(8, 29)}
PHOTOGRAPHS = {
    "in_channels": 3,
    "classes": 10,
    "resolutions": range(48, 97, 8),
    "norm": "batch",
    "grid": "common",
    "pointwise": False,
    "head": "temperature",
    "head_pool": "both",
    "hidden": 256,
    "dropout": 0.5,
}


register(
    ModelInfo(
        name="scalenet-mnist",
        build=_SCALENET,
        description="the paper's MNIST network: 1-32-64-100-100, 5x5 taps, equivariant at 8 to 28 pixels",
        recipe="mnist-paper",
        defaults=DIGITS,
    ),
    ModelInfo(
        name="scalenet-stl10",
        build=_SCALENET,
        description="the paper's STL-10 network: three residual blocks, two poolings, equivariant at 48 to 96 pixels",
        recipe="stl10-paper",
        defaults={
            **DIGITS,
            "in_channels": 3,
            "widths": (128, 256, 512),
            "resolutions": range(48, 97, 8),
            "kernel_size": (7, 5, 5),
            "pool": (2, 2, 1),
            "residual": True,
        },
    ),
    *(
        ModelInfo(
            name=f"resnet-stl10{end}",
            build=residual_classifier,
            description=f"a residual net of today, {'-'.join(map(str, widths))}: bare, made consistent or made exact",
            recipe="stl10-residual",
            defaults={"widths": widths},
            citation="none: a plain residual net, not one of the paper's",
        )
        for end, widths in (("", (64, 128, 256)), ("-small", (32, 64, 128)))
    ),
    ModelInfo(
        name="scaleresnet-stl10",
        build=_SCALERESNET,
        description="a residual net of today, exact layer by layer: 64-128-256, equivariant at 48 to 96 pixels",
        recipe="stl10-residual",
        defaults={**PHOTOGRAPHS, "widths": (64, 128, 256)},
    ),
    ModelInfo(
        name="scaleresnet-stl10-small",
        build=_SCALERESNET,
        description="the same at half the width, 32-64-128",
        recipe="stl10-residual",
        defaults={**PHOTOGRAPHS, "widths": (32, 64, 128)},
    ),
    ModelInfo(
        name="scalenet-folder",
        build=_SCALENET,
        description="three small residual blocks, for a folder of images of yours: equivariant at 24 to 96 pixels",
        recipe="folder",
        defaults={
            **DIGITS,
            "in_channels": 3,
            "widths": (24, 48, 96),
            "resolutions": (24, 30, 38, 48, 60, 76, 96),
            "pool": (2, 2, 1),
            "residual": True,
            "stem": 16,
            "head": "temperature",
            "hidden": 128,
            "dropout": 0.3,
        },
    ),
    ModelInfo(
        name="scalenet-tiny",
        build=_SCALENET,
        description="two small blocks, for tests and the demo: equivariant at 8, 12, ..., 28 pixels",
        recipe="tiny",
        defaults={
            **DIGITS,
            "widths": (16, 32),
            "resolutions": range(8, 29, 4),
            "pool": (2, 1),
            "hidden": 64,
            "dropout": 0.25,
        },
    ),
)
