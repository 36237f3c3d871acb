"""A model by whatever the user calls it: a run, a file, a name, or a function that builds it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fourierscale.models import ImageModel, Preprocessing, WeightsError, load_trained, read_info

if TYPE_CHECKING:
    from fourierscale.data import FolderOptions

__all__ = ["MODEL_HELP", "Found", "Trained", "find_model", "find_trained", "folder_options", "named_function"]

MODEL_HELP = "A run's folder, a .safetensors file, or the name of weights that ship with the package."


@dataclass(frozen=True)
class Found:
    """A model to audit, and what is known about its images.

    Attributes:
        name: What to call it.
        model: Takes images.
        note: What the user must know about it, in words; empty if nothing.
        channels: Channels of its images; None if nobody says.
        side: Side of the largest images that it was made for; None if nobody says.
        enlarge: How smaller images reach a model of one input size.
        info: The description beside its weights; empty if it has none.
        trained: Whether its answers may mean something.
    """

    name: str
    model: Callable[[Tensor], Any]
    note: str = ""
    channels: int | None = None
    side: int | None = None
    enlarge: Any = None
    info: dict[str, Any] = field(default_factory=dict)
    trained: bool = True

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How pixels become its input; None if nobody says."""
        return self.model.preprocessing if isinstance(self.model, ImageModel) else None

    @property
    def protocol(self) -> str:
        """The images it was trained on; empty if nobody says."""
        return _protocol(self.info)


@dataclass(frozen=True)
class Trained:
    """A trained model of this library.

    Attributes:
        model: In evaluation mode.
        info: The description beside its weights.
        folder: Where results go: the run's folder; None for weights that ship with the package.
    """

    model: ImageModel
    info: dict[str, Any]
    folder: Path | None

    @property
    def name(self) -> str:
        """What the model is called."""
        return str(self.info["model"])

    @property
    def task(self) -> str:
        """What it was trained for."""
        return str(self.info.get("config", {}).get("data", {}).get("task", "classification"))

    @property
    def protocol(self) -> str:
        """The images it was trained on."""
        return _protocol(self.info)

    @property
    def preprocessing(self) -> Preprocessing:
        """How pixels become its input."""
        from fourierscale.models import WeightsError

        if self.model.preprocessing is None:
            raise WeightsError("the description of these weights does not say how images are prepared: train again")
        return self.model.preprocessing


def find_trained(name: str, factory: str | None = None) -> Trained:
    """Load a trained model; a name that is nothing is the user's mistake.

    Args:
        name: A run's folder, a file of weights, or the name of weights that ship.
        factory: The function that built a net of the user's own; without it such a net is refused, since a file of
            weights must not choose what code is run.
    """
    from fourierscale.cli.own_model import make_known

    path = Path(name).expanduser()
    if not path.exists():
        return Trained(*load_trained(name), None)
    info = read_info(path)
    if ":" in info["model"]:
        if factory is None or factory != info["model"]:
            raise WeightsError(f"{name} is a net of yours: give --factory {info['model']}, which built it")
        make_known(factory, str(info.get("config", {}).get("data", {}).get("task")))
    return Trained(*load_trained(name), path if path.is_dir() else path.parent)


def find_model(name: str, seed: int = 0, trust: bool = False) -> Found:
    """Find any model; a name that is nothing is the user's mistake.

    Args:
        name: A model's name, the path of a run or of a file, or ``module:function``.
        seed: Draws the weights of a model that has none.
        trust: Whether the program in a file may run; see :func:`~fourierscale.auditing.open_file`.
    """
    from fourierscale.auditing import open_file
    from fourierscale.auditing.files import SUFFIXES

    path = Path(name).expanduser()
    if path.suffix in SUFFIXES:
        file = open_file(path, trust)
        return Found(file.name, file, "", file.channels, file.side, None if file.side is None else "zero")
    if path.exists() or path.suffix == ".safetensors":
        return _trained(name)
    return _built(name, seed) if ":" in name else _named(name, seed)


def _trained(name: str) -> Found:
    found = find_trained(name)
    prepare = found.preprocessing
    return Found(found.name, found.model, "", prepare.channels, prepare.largest, prepare.enlarge, found.info)


def _named(name: str, seed: int) -> Found:
    """Weights that ship with the package; else a model of the registry, with random weights."""
    from fourierscale.auditing import AuditError
    from fourierscale.models import model_info, pretrained_info

    try:
        pretrained_info(name)
    except ValueError:
        try:
            info = model_info(name)
        except ValueError as error:
            raise AuditError(f"{name} is no file or folder, and {error}") from None
    else:
        return _trained(name)
    channels, side, _ = info.largest_input
    note = (
        f"{name} has random weights (seed {seed}), since none ship for it, so its answers are not shown: give a run's "
        "folder for trained ones"
    )
    model = _seeded(lambda: info.build(**info.defaults), seed)
    return Found(name, model, note, channels, side, info.enlarge, trained=False)


def _built(name: str, seed: int) -> Found:
    """What a function of the user's returns."""
    from torch import nn

    from fourierscale.auditing import AuditError

    build = named_function(name)
    try:
        model = build if isinstance(build, nn.Module) else _seeded(build, seed)
    except Exception as error:  # a function of the user's
        raise AuditError(
            f"{name}: expected a function that builds a model without arguments, it fails ({_cause(error)}): call it "
            "from a function of yours, or see where with fourierscale --debug"
        ) from error
    if not callable(model):
        raise AuditError(f"{name}: expected a function that builds a module, it gives {type(model).__name__}")
    convs = (m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)) if isinstance(model, nn.Module) else ()
    return Found(name.partition(":")[2], model, "", next(iter(convs), None))


def named_function(name: str) -> Any:
    """What ``module:function`` names, imported from the working folder if it is there.

    Raises:
        AuditError: There is no such module, or nothing in it that can be called.
    """
    from fourierscale.auditing import AuditError

    module, _, function = name.partition(":")
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        build = getattr(importlib.import_module(module), function, None)
    except Exception as error:  # a module runs code of its own when it is imported
        raise AuditError(f"{name}: cannot import {module} from here ({_cause(error)})") from error
    finally:
        if added:
            sys.path.remove(here)
    if not callable(build):
        raise AuditError(f"{name}: {module} has no function {function}")
    return build


def _cause(error: Exception) -> str:
    """What happened in code of the user's, in a line."""
    text = " ".join(str(error).split())[:200]
    return text if isinstance(error, ImportError) else f"{type(error).__name__}: {text}"


def _seeded(build: Callable[[], Any], seed: int) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def folder_options(found: Found | Trained, name: str) -> FolderOptions:
    """How ``load_protocol`` opens a folder of images for a model: as the one that it was trained on.

    Args:
        found: The model.
        name: The images; nothing follows for others than a folder's.
    """
    from fourierscale.data import FolderOptions
    from fourierscale.data.protocols import bare_name, folder_path

    prepare = found.preprocessing
    if folder_path(name) is None or prepare is None:
        return FolderOptions()
    settings: dict[str, Any] = {}
    if prepare.shape is not None:
        settings = {"size": max(prepare.sizes), "lowest": min(prepare.sizes), "shape": prepare.shape}
    skip_bad = bare_name(name) == found.protocol and bool(found.info.get("data", {}).get("skip_bad"))
    return FolderOptions(colour="grey" if prepare.channels == 1 else "rgb", skip_bad=skip_bad, **settings)


def _protocol(info: Mapping[str, Any]) -> str:
    from fourierscale.data.protocols import bare_name

    return bare_name(str(info.get("data", {}).get("protocol", "")))
