"""A model to audit, by whatever the user calls it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.auditing import AuditError, open_file
from fourierscale.auditing.files import SUFFIXES

__all__ = ["Opened", "open_model"]


@dataclass(frozen=True)
class Opened:
    """A model and what is known about its images.

    Attributes:
        name: What to call it.
        model: Takes images.
        note: What the user must know about it, in words; empty if nothing.
        channels: Of its images; None if nobody says.
        side: Of the largest images that it was made for; None if nobody says.
        enlarge: How images reach a model of one input size.
        data: How its images were prepared, as a run's ``model.json`` says; empty if it has none.
        loading: How its images were loaded (``data_dir``, ``seed``), as the run's config says.
        trained: Whether its answers may mean something.
    """

    name: str
    model: Callable[[Tensor], Any]
    note: str = ""
    channels: int | None = None
    side: int | None = None
    enlarge: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    loading: dict[str, Any] = field(default_factory=dict)
    trained: bool = True


def open_model(name: str, seed: int = 0) -> Opened:
    """Find a model; a name that is nothing is the user's mistake.

    Args:
        name: A model's name, the path of a run or of a file, or ``module:function``.
        seed: Draws the weights of a model that has none.
    """
    path = Path(name).expanduser()
    if path.suffix in SUFFIXES:
        file = open_file(path)
        fixed = file.side is not None
        return Opened(path.name, file, "", file.channels, file.side, "zero" if fixed else None)
    if path.exists() or path.suffix == ".safetensors":
        return _trained(name)
    if ":" in name:
        return _built(name, seed)
    return _named(name, seed)


def _trained(name: str) -> Opened:
    from fourierscale.cli.found import find_model

    found = find_model(name)
    data = found.data
    side = data["fit_size"] if data["fit"] else max(data["resolutions"])
    config = found.info.get("config", {}).get("data", {})
    loading = {key: config[key] for key in ("data_dir", "seed") if config.get(key) is not None}
    return Opened(str(found.info["model"]), found.model, "", int(data["channels"]), side, data["fit"], data, loading)


def _named(name: str, seed: int) -> Opened:
    """Weights that ship with the package; else a model of the registry, with random weights."""
    from fourierscale.models import list_models
    from fourierscale.models.registry import model_info, pretrained_info

    try:
        pretrained_info(name)
    except ValueError:
        if name not in list_models():
            try:
                model_info(name)
            except ValueError as error:
                raise AuditError(f"{name} is no file or folder, and {error}") from None
    else:
        return _trained(name)
    info = model_info(name)
    channels, side, _ = info.largest_input
    note = (
        f"{name} has random weights (seed {seed}), since none ship for it, so its answers are not shown: give a run's "
        "folder for trained ones"
    )
    model = _seeded(lambda: info.build(**info.defaults), seed)
    return Opened(name, model, note, channels, side, info.enlarge, trained=False)


def _built(name: str, seed: int) -> Opened:
    """What a function of the user's returns."""
    module, _, function = name.partition(":")
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        build = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise AuditError(f"{name}: cannot import {module} from here ({error})") from None
    finally:
        if added:
            sys.path.remove(here)
    if not callable(build):
        raise AuditError(f"{name}: {module} has no function {function}")
    try:
        model = build if isinstance(build, nn.Module) else _seeded(build, seed)
    except TypeError as error:
        raise AuditError(f"{name}: expected a function that builds a model without arguments ({error})") from None
    if not callable(model):
        raise AuditError(f"{name}: expected a function that builds a module, it gives {type(model).__name__}")
    convs = (m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)) if isinstance(model, nn.Module) else ()
    return Opened(function, model, "", next(iter(convs), None))


def _seeded(build: Callable[[], Any], seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()
