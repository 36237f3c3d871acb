"""Trained models as files: ``model.safetensors`` with the weights and ``model.json`` with everything else."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fourierscale
from fourierscale.models.contract import ImageModel
from fourierscale.models.described import DescriptionError, checked, read_json
from fourierscale.models.files import write_whole
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.models.registry import create_model, load_pretrained, model_info, pretrained_info, restore_model

__all__ = ["WeightsError", "load_model", "load_trained", "read_info", "save_model", "versions"]

WEIGHTS, INFO = "model.safetensors", "model.json"


class WeightsError(ValueError):
    """A file of weights that cannot be used; its text is one sentence for the user."""


@dataclass(frozen=True)
class _Images:
    """What a description says of the images of training."""

    protocol: str = ""
    hashes: dict[str, str] = field(default_factory=dict)
    skip_bad: bool = False


@dataclass(frozen=True)
class _ImageConfig:
    """Of the config of training, what finds its images again."""

    seed: int = 0
    data_dir: str | None = None


@dataclass(frozen=True)
class _RunConfig:
    """The config of training."""

    data: _ImageConfig = field(default_factory=_ImageConfig)


@dataclass(frozen=True)
class _Description:
    """What ``model.json`` must hold, and what is read from it where it is there."""

    model: str
    overrides: dict[str, Any]
    data: _Images = field(default_factory=_Images)
    config: _RunConfig = field(default_factory=_RunConfig)
    preprocessing: dict[str, Any] | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    history: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)


def versions() -> dict[str, str]:
    """Versions of what computes, for the record of a run."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "fourierscale": fourierscale.__version__, "torch": torch.__version__}
    for name in ("pytorch-lightning", "torchmetrics", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def save_model(model: nn.Module, folder: str | os.PathLike[str], info: Mapping[str, Any]) -> Path:
    """Write the weights and their description into a folder; returns the path of the weights.

    Args:
        model: What to save.
        folder: Made if it is not there.
        info: Names the ``model`` and its ``overrides``, from which :func:`load_model` builds it again.
    """
    from safetensors.torch import save

    if "model" not in info or "overrides" not in info:
        raise ValueError("expected the model's name and its overrides in the description of the weights")
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_whole(root / WEIGHTS, save(state))
    write_whole(root / INFO, json.dumps(info, indent=2) + "\n")
    return root / WEIGHTS


def read_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The description of saved weights: model, overrides, preprocessing, data, config, metrics, versions.

    Args:
        path: A run's folder, or a ``.safetensors`` file with its ``.json`` beside it.

    Raises:
        WeightsError: It is not there, or says something that cannot be.
    """
    file = _files(path)[1]
    try:
        info = read_json(file.read_bytes())
        checked(_Description, info)
        for name, told in Preprocessing.told(info).items():
            info[name] = checked(Preprocessing, Preprocessing.values(told)).to_dict()
    except (OSError, DescriptionError) as error:
        raise WeightsError(
            f"{file} does not describe a model of this library ({error}): train again, or mend it"
        ) from None
    return info


def load_model(path: str | os.PathLike[str]) -> ImageModel:
    """A trained model, in evaluation mode, from a run's folder or a ``.safetensors`` file; nothing is unpickled.

    Raises:
        WeightsError: No weights there, or damaged ones, or those of another model.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    weights, about = _files(path)
    info = read_info(path)
    try:
        state = load(weights.read_bytes())
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{weights} is not a whole safetensors file ({error}): copy or train it again") from None
    wild = next((name for name, tensor in state.items() if not bool(tensor.isfinite().all())), None)
    if wild is not None:
        raise WeightsError(f"{weights} holds numbers that are not finite ({wild}): train again, at a lower rate")
    try:
        with torch.device("meta"):  # a description may ask for any size: compared before memory is asked for
            create_model(info["model"], **info["overrides"]).load_state_dict(state, assign=True)
        model = restore_model(info, state)
    except Exception as error:  # of many kinds, for options of many kinds
        reason = " ".join(str(error).split())[:200]
        raise WeightsError(f"{weights} does not hold the weights of {info['model']} ({reason})") from error
    _check_preprocessing(info, model.preprocessing, about)
    return model


def _check_preprocessing(info: Mapping[str, Any], prepare: Preprocessing | None, about: Path) -> None:
    """Refuse a description that prepares images for another model than it names."""
    told, entry = info["overrides"], model_info(info["model"])
    channels, classes = (told.get(name, entry.default(name)) for name in ("in_channels", "classes"))
    if prepare is not None and (prepare.channels != channels or len(prepare.classes) not in (0, classes)):
        raise WeightsError(
            f"{about} is about images of {prepare.channels} channel(s) and {len(prepare.classes)} classes, the model "
            f"takes {channels} channel(s) and knows {classes}: mend it, or train again"
        )


def load_trained(name: str | os.PathLike[str]) -> tuple[ImageModel, dict[str, Any]]:
    """A trained model and its description, from a run's folder, a ``.safetensors`` file, or weights that ship by name.

    Raises:
        WeightsError: As :func:`load_model`, and for a name that is none of these.
    """
    path = Path(name).expanduser()
    if path.exists() or path.suffix == ".safetensors":
        return load_model(path), read_info(path)
    try:
        return load_pretrained(str(name)), pretrained_info(str(name))
    except (ValueError, OSError) as error:
        reason = str(error) if isinstance(error, ValueError) else "no weights ship with this installation"
        raise WeightsError(f"{name} is no file or folder, and {reason}") from None


def _files(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    root = Path(path).expanduser()
    files = (root / WEIGHTS, root / INFO) if root.is_dir() else (root, root.with_suffix(".json"))
    if files[0].suffix != ".safetensors" or not files[0].is_file():
        if root.is_dir():
            raise WeightsError(f"{root} holds no {WEIGHTS}: it is no finished run; finish it with --resume")
        raise WeightsError(f"{root} is neither a run's folder nor a .safetensors file")
    if not files[1].is_file():
        raise WeightsError(f"{files[1]} is missing: it says which model the weights beside it belong to")
    return files
