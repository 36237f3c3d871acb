"""What a model needs to be exported, checked, and what the file says about itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import fourierscale
from fourierscale.export.deployed import Deployed
from fourierscale.export.errors import ExportError
from fourierscale.functional import upscale
from fourierscale.models import ExactNet, ImageModel, Preprocessing, as_image_model

__all__ = ["LIMIT", "ExportPlan", "make_plan"]

LIMIT = 1e-4
"""Largest difference between the logits of a model and those of its file."""


@dataclass(frozen=True)
class ExportPlan:
    """A model that is ready to be written.

    Attributes:
        model: On the CPU, in float32, in evaluation mode.
        deployed: The model with what the file does besides.
        inside: What the file does to images before they reach its model; None: nothing.
        outside: What whoever runs the file has to do to pixels first.
        about: What the file says about itself.
    """

    model: ImageModel
    deployed: Deployed
    inside: Preprocessing | None
    outside: Preprocessing
    about: dict[str, Any]

    @property
    def sizes(self) -> list[int]:
        """Sides of the images that the file takes, increasing."""
        return list(self.about["resolutions"])

    def images(self, n: int, count: int = 2, seed: int = 0) -> Tensor:
        """Random images as the file takes them."""
        return _images(self.outside.channels, self.inside is not None, n, count, seed)

    def prepared(self, x: Tensor) -> Tensor:
        """Images as the file takes them, as its model takes them."""
        return x if self.inside is None else self.inside(x)

    def reference(self, x: Tensor) -> Tensor:
        """The model's own logits of images as the file takes them."""
        with torch.no_grad():
            logits: Tensor = self.model(self.prepared(x))
        return logits


def make_plan(
    model: nn.Module, resolutions: Sequence[int] | None, name: str | None, raw: bool, features: bool
) -> ExportPlan:
    """Check what is asked for and put the model, its preprocessing and its sizes together.

    Args:
        model: Maps images to logits; its ``preprocessing`` says how images are prepared and names the classes.
        resolutions: Sizes of the images; None: the largest the model was made for.
        name: What the file calls the model; its class if not given.
        raw: Whether images are 0..1 pixels.
        features: Whether the file is to give features too.
    """
    model = copy.deepcopy(as_image_model(model)).cpu().float().eval().requires_grad_(False)
    own = model.preprocessing
    if raw and own is None:
        raise ExportError("raw images need the mean and std of training: set model.preprocessing first")
    prepare = own or _unknown(model)
    sizes = _sizes(model, resolutions, prepare)
    reach = prepare.enlarge_size or sizes[-1]
    if sizes[-1] > reach:
        raise ExportError(f"the model takes images of at most {reach} x {reach}, got {sizes[-1]}")
    if prepare.enlarge is not None and not raw and sizes != [reach]:
        raise ExportError(
            f"the model takes images of {reach} x {reach} alone and smaller ones are brought to it "
            f"({prepare.enlarge}): export it with --raw, which puts that into the file, or at {reach}"
        )
    if features and not model.has_features:
        raise ExportError(f"{type(model).__name__} has no features: export it without them")
    images = {n: _images(prepare.channels, raw, n) for n in sizes}
    images = {n: prepare(x) for n, x in images.items()} if raw else images
    logits = {n: _run(model, images[n], n) for n in sizes}
    maps = logits[sizes[-1]].ndim == 4
    if maps and len(sizes) > 1:
        raise ExportError(f"maps are exported for images of one size, got {len(sizes)}: write a file for each")
    if prepare.enlarge is None:
        _check_sizes(model, images, logits)
    count = logits[sizes[-1]].shape[1 if maps else -1]
    classes = prepare.classes or tuple(map(str, range(count)))
    if len(classes) != count:
        raise ExportError(f"the model has {count} classes, its description names {len(classes)}")
    levels = {n: int(logits[n].shape[1]) for n in sizes if logits[n].ndim == 3}
    sides = {}
    if features and prepare.enlarge is None and model.domain == "coefficients":
        with torch.no_grad():
            sides = {n: int(model.features(images[n]).shape[-1]) for n in sizes}
    outside = replace(prepare, classes=classes)
    if raw:
        ones = (1.0,) * prepare.channels
        outside = replace(outside, mean=tuple(0.0 for _ in ones), std=ones, enlarge=None, enlarge_size=None)
    if outside.enlarge is None:
        outside = replace(outside, sizes=tuple(sizes), only_sizes=True)
    about = {
        "model": name or type(model).__name__,
        "version": fourierscale.__version__,
        "resolutions": sizes,
        "raw": raw,
        "features": model.domain if features else None,
        "levels": {str(n): model.level_names(n)[-levels.get(n, 1) :] for n in sizes},
        "preprocessing": outside.to_dict(),
    }
    normalise = (prepare.mean, prepare.std) if raw else None
    deployed = Deployed(
        model, sizes, reach, prepare.enlarge or "upsample", normalise, features, levels, sides, model.boundary
    )
    return ExportPlan(model, deployed.eval(), prepare if raw else None, outside, about)


def _unknown(model: ImageModel) -> Preprocessing:
    """What is known of a model that says nothing: how many channels it takes."""
    convolutions = (part.in_channels for part in model.modules() if isinstance(part, (nn.Conv2d, ExactNet)))
    channels = next(convolutions, None)
    if channels is None:
        raise ExportError("the model does not say how many channels an image has: set model.preprocessing")
    return Preprocessing(mean=(0.0,) * channels, std=(1.0,) * channels, boundary=model.boundary)


def _images(channels: int, raw: bool, n: int, count: int = 2, seed: int = 0) -> Tensor:
    draw = torch.rand if raw else torch.randn
    return draw((count, channels, n, n), generator=torch.Generator().manual_seed(seed))


def _sizes(model: ImageModel, resolutions: Sequence[int] | None, prepare: Preprocessing) -> list[int]:
    if resolutions is None:
        largest = prepare.largest
        if largest is None and model.levels is not None and not model.levels.is_open:
            largest = max(model.levels.highest)
        if largest is None:
            raise ExportError("say at which resolution to export: the model does not know its own")
        return [int(largest)]
    sizes = sorted({int(n) for n in resolutions})
    if not sizes or sizes[0] < 1:
        raise ExportError(f"resolutions are at least 1 pixel, got {list(resolutions)}")
    return sizes


def _run(model: nn.Module, x: Tensor, n: int) -> Tensor:
    try:
        with torch.no_grad():
            logits: Tensor = model(x)
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"the model cannot take images of {n} x {n}: {' '.join(str(error).split())[:200]}") from None
    return logits


def _check_sizes(model: ImageModel, images: Mapping[int, Tensor], logits: Mapping[int, Tensor]) -> None:
    """One graph can serve several sizes only if the levels of the largest are those of the smaller images."""
    *smaller, largest = images
    for n in smaller:
        with torch.no_grad():
            many = model(upscale(images[n], largest, model.boundary))
        own = many[:, : logits[n].shape[1]] if many.ndim == 3 else many
        if own.shape != logits[n].shape or not (own - logits[n]).abs().max() <= LIMIT:
            raise ExportError(
                f"{n} and {largest} do not fit into one file: the model is not exactly equivariant between them; "
                f"export {n} into a file of its own, or choose resolutions that are levels of the model"
            )
