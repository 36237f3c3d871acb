"""Trained models as files: ``model.safetensors`` with the weights and ``model.json`` with everything else."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fourierscale
from fourierscale.models.contract import ImageModel
from fourierscale.models.files import write_whole
from fourierscale.models.registry import load_pretrained, pretrained_info, restore_model

__all__ = ["WeightsError", "load_model", "load_trained", "read_info", "save_model", "versions"]

WEIGHTS, INFO = "model.safetensors", "model.json"


class WeightsError(ValueError):
    """A file of weights that cannot be used; its text is one sentence for the user."""


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
    """The description of saved weights: model, overrides, data, config, metrics, versions.

    Args:
        path: A run's folder, or a ``.safetensors`` file with its ``.json`` beside it.
    """
    file = _files(path)[1]
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(info["model"], str) or not isinstance(info["overrides"], dict):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError):
        raise WeightsError(f"{file} does not describe a model of this library: train again, or mend it") from None
    return dict(info)


def load_model(path: str | os.PathLike[str]) -> ImageModel:
    """A trained model, in evaluation mode, from a run's folder or a ``.safetensors`` file; nothing is unpickled.

    Raises:
        WeightsError: No weights there, or damaged ones, or those of another model.
    """
    from safetensors import SafetensorError

    weights, _ = _files(path)
    info = read_info(path)
    try:
        return restore_model(info, weights.read_bytes())
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{weights} is not a whole safetensors file ({error}): copy or train it again") from None
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise WeightsError(f"{weights} does not hold the weights of {info['model']} ({reason})") from None


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
