"""A trained model by the path of its run or the name of weights that ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from fourierscale.data import FolderOptions
    from fourierscale.data.decode import Colour

__all__ = ["Found", "find_model", "folder_options"]

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
        from fourierscale.data.protocols import bare_name
        from fourierscale.training.errors import CheckpointError

        data = self.info.get("data")
        if not isinstance(data, dict):
            raise CheckpointError("the description of these weights does not say how images are prepared: train again")
        return {**data, "protocol": bare_name(str(data.get("protocol")))}


def folder_options(about: Mapping[str, Any], name: str) -> FolderOptions:
    """How ``load_protocol`` opens a folder of images for a model: as the one that it was trained on.

    Args:
        about: How the model's images were prepared, ``data`` of its description; may be empty.
        name: The images; nothing follows for others than a folder's.
    """
    from fourierscale.data import FolderOptions
    from fourierscale.data.protocols import bare_name, folder_path

    settings: dict[str, Any] = {}
    if folder_path(name) is None or "channels" not in about:
        return FolderOptions()
    if about.get("shape") is not None:
        levels = about["resolutions"]
        settings = {"size": max(levels), "lowest": min(levels), "shape": about["shape"]}
    own = bare_name(name) == bare_name(str(about.get("protocol")))
    colour: Colour = "grey" if about["channels"] == 1 else "rgb"
    return FolderOptions(colour=colour, skip_bad=own and bool(about.get("skip_bad")), **settings)


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
