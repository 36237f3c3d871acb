"""A trained model by the path of its run or the name of weights that ship with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

__all__ = ["Found", "find_model", "folder_settings"]

MODEL_HELP = "A run's folder, a .safetensors file, or the name of weights that ship with the package."


@dataclass(frozen=True)
class Found:
    """A model and what is known about it."""

    model: nn.Module
    info: dict[str, Any]
    folder: Path | None
    """Where results go: the run's folder; None for weights that ship with the package."""

    @property
    def data(self) -> dict[str, Any]:
        """How its images were prepared."""
        from fourierscale.training.errors import CheckpointError

        data = self.info.get("data")
        if not isinstance(data, dict):
            raise CheckpointError("the description of these weights does not say how images are prepared: train again")
        return data


def folder_settings(found: Found, own: bool = True) -> dict[str, Any]:
    """How ``load_protocol`` opens a folder for a model: as in its training, or another folder with the same levels.

    Args:
        found: The model.
        own: Whether it is the folder of the training, with its choices; of another one, bad images are an error.
    """
    about, trained = found.data, found.info.get("config", {}).get("data", {})
    levels = about["resolutions"] if about.get("shape") is not None else None  # those of a folder it was trained on
    return {
        "size": trained.get("size") if levels is None and own else max(levels) if levels else None,
        "lowest": min(levels) if levels else None,
        "shape": about.get("shape"),
        "colour": "grey" if about["channels"] == 1 else "rgb",
        "skip_bad": own and bool(trained.get("skip_bad", False)),
    }


def find_model(name: str) -> Found:
    """Load a model; a name that is nothing is the user's mistake."""
    from fourierscale.models import load_pretrained, pretrained_info
    from fourierscale.training.errors import CheckpointError
    from fourierscale.training.weights import load_model, read_info

    path = Path(name).expanduser()
    if path.exists():
        return Found(load_model(path), read_info(path), path if path.is_dir() else path.parent)
    try:
        return Found(load_pretrained(name), pretrained_info(name), None)
    except (ValueError, OSError) as error:
        reason = str(error) if isinstance(error, ValueError) else "no weights ship with this installation"
        raise CheckpointError(f"{name} is no file or folder, and {reason}") from None
