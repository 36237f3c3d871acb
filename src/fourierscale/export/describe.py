"""What a model needs to be exported, checked, and what the file says about itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import fourierscale
from fourierscale.export.deployed import Deployed
from fourierscale.export.errors import ExportError
from fourierscale.functional import upscale
from fourierscale.models.classifier import boundary_of, level_names

__all__ = ["LIMIT", "Plan", "Preparation", "make_plan"]

LIMIT = 1e-4
"""Largest difference between the logits of a model and those of its file."""


@dataclass(frozen=True)
class Plan:
    """A model that is ready to be written."""

    model: nn.Module
    """On the CPU, in float32, in evaluation mode."""
    deployed: Deployed
    about: dict[str, Any]
    """What the file says about itself."""
    preparation: Preparation

    def images(self, n: int, count: int = 2, seed: int = 0) -> Tensor:
        """Random images as the file takes them."""
        return _images(self.about, n, count, seed)

    def reference(self, x: Tensor) -> Tensor:
        """The model's own logits of images as the file takes them."""
        with torch.no_grad():
            logits: Tensor = self.model(self.preparation(x))
        return logits


@dataclass(frozen=True)
class Preparation:
    """What is done to the images of a file before they reach its model, as the data module does it."""

    enlarge: str | None
    enlarge_size: int
    normalise: tuple[Sequence[float], Sequence[float]] | None

    def __call__(self, x: Tensor) -> Tensor:
        """Images as the file takes them to images as the model takes them."""
        if self.enlarge is not None:
            from fourierscale.functional.enlarging import enlarge_to

            x = enlarge_to(x, self.enlarge_size, self.enlarge)  # type: ignore[arg-type]
        if self.normalise is not None:
            mean, std = (torch.tensor(values).view(-1, 1, 1) for values in self.normalise)
            x = (x - mean) / std
        return x


def make_plan(
    model: nn.Module,
    resolutions: Sequence[int] | None,
    about: Mapping[str, Any] | None,
    raw: bool,
    features: bool,
) -> Plan:
    """Check what is asked for and put the model, its normalisation and its sizes together.

    Args:
        model: Maps images to logits.
        resolutions: Sizes of the images; None: the largest the model was made for.
        about: What :func:`fourierscale.models.pretrained_info` or ``model.json`` of a run holds, or its ``data`` alone.
        raw: Whether images are 0..1 pixels.
        features: Whether the file is to give features too.
    """
    info = dict(about or {})
    data: dict[str, Any] = dict(info.get("data", info))
    model = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    sizes = _sizes(model, resolutions, data)
    enlarge, enlarge_size = data.get("fit"), int(data.get("fit_size") or sizes[-1])
    if raw and ("mean" not in data or "std" not in data):
        raise ExportError("raw images need the mean and std of training: pass about=, what describes the weights")
    if sizes[-1] > enlarge_size:
        raise ExportError(f"the model takes images of at most {enlarge_size} x {enlarge_size}, got {sizes[-1]}")
    if enlarge is not None and not raw and sizes != [enlarge_size]:
        raise ExportError(
            f"the model takes images of {enlarge_size} x {enlarge_size} alone and smaller ones are brought to it "
            f"({enlarge}): export it with --raw, which puts that into the file, or at {enlarge_size}"
        )
    if features and not hasattr(model, "features"):
        raise ExportError(f"{type(model).__name__} has no features: export it without them")
    described: dict[str, Any] = {
        "model": info.get("model", type(model).__name__),
        "version": fourierscale.__version__,
        "channels": int(data.get("channels") or _channels(model)),
        "resolutions": sizes,
        "raw": raw,
        "mean": data.get("mean"),
        "std": data.get("std"),
        "fit": None if raw else enlarge,
        "fit_size": enlarge_size if enlarge is not None and not raw else None,
        "shape": data.get("shape"),
        "image_resolutions": sizes if raw or enlarge is None else [n for n in data["resolutions"] if n <= enlarge_size],
        "features": getattr(model, "features_domain", "coefficients") if features else None,
        "boundary": boundary_of(model),
    }
    normalise = (data["mean"], data["std"]) if raw else None
    preparation = Preparation(enlarge if raw else None, enlarge_size, normalise)
    images = {n: preparation(_images(described, n)) for n in sizes}
    logits = {n: _run(model, images[n], n) for n in sizes}
    levels = {n: int(logits[n].shape[1]) for n in sizes if logits[n].ndim == 3}
    if enlarge is None:
        _check_sizes(model, images, logits)
    classes = logits[sizes[-1]].shape[-1]
    described["classes"] = list(data.get("classes") or map(str, range(classes)))
    if len(described["classes"]) != classes:
        raise ExportError(f"the model has {classes} classes, its description names {len(described['classes'])}")
    described["levels"] = {str(n): level_names(model, n)[-levels.get(n, 1) :] for n in sizes}
    sides = {}
    if enlarge is None and described["features"] == "coefficients":
        with torch.no_grad():
            sides = {n: int(model.features(images[n]).shape[-1]) for n in sizes}  # type: ignore[operator]
    deployed = Deployed(
        model, sizes, enlarge_size, enlarge or "upsample", normalise, features, levels, sides, described["boundary"]
    )
    return Plan(model, deployed.eval(), described, preparation)


def _images(about: Mapping[str, Any], n: int, count: int = 2, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand if about["raw"] else torch.randn
    return draw((count, about["channels"], n, n), generator=generator)


def _sizes(model: nn.Module, resolutions: Sequence[int] | None, data: Mapping[str, Any]) -> list[int]:
    if resolutions is None:
        net = getattr(model, "net", None)
        largest = data.get("fit_size") or max(data.get("resolutions", ()), default=None)
        if largest is None and hasattr(net, "levels") and not net.levels.is_open:  # type: ignore[union-attr]
            largest = max(net.levels.highest)  # type: ignore[union-attr]
        if largest is None:
            raise ExportError("say at which resolution to export: the model does not know its own")
        return [int(largest)]
    sizes = sorted({int(n) for n in resolutions})
    if not sizes or sizes[0] < 1:
        raise ExportError(f"resolutions are at least 1 pixel, got {list(resolutions)}")
    return sizes


def _channels(model: nn.Module) -> int:
    for part in (model, getattr(model, "net", None)):
        channels = getattr(part, "in_channels", None)
        if isinstance(channels, int):
            return channels
    raise ExportError("the model does not say how many channels an image has: pass about={'channels': ...}")


def _run(model: nn.Module, x: Tensor, n: int) -> Tensor:
    try:
        with torch.no_grad():
            logits: Tensor = model(x)
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"the model cannot take images of {n} x {n}: {' '.join(str(error).split())[:200]}") from None
    return logits


def _check_sizes(model: nn.Module, images: Mapping[int, Tensor], logits: Mapping[int, Tensor]) -> None:
    """One graph can serve several sizes only if the levels of the largest are those of the smaller images."""
    *smaller, largest = images
    for n in smaller:
        with torch.no_grad():
            many = model(upscale(images[n], largest, boundary_of(model)))
        own = many[:, : logits[n].shape[1]] if many.ndim == 3 else many
        if own.shape != logits[n].shape or not (own - logits[n]).abs().max() <= LIMIT:
            raise ExportError(
                f"{n} and {largest} do not fit into one file: the model is not exactly equivariant between them; "
                f"export {n} into a file of its own, or choose resolutions that are levels of the model"
            )
