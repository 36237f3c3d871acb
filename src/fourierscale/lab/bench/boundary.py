"""What does each boundary do to equivariance and to the edges? Circular, mirror and canvas side by side.

Nets have random weights. Photographs come from a folder of class folders; without one, digits alone are measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierscale.data import load_protocol
from fourierscale.data.decode import decode_image
from fourierscale.data.folder import ImageFolder
from fourierscale.data.protocols import IMAGENET
from fourierscale.functional import analyze, crop, downscale, synthesize
from fourierscale.functional.bands import Boundary
from fourierscale.lab.bench.suites import Record, Settings, chosen
from fourierscale.models import ScaleClassifier, create_model
from fourierscale.testing import relative_error

__all__ = ["measure_boundary"]

BOUNDARIES: tuple[Boundary, ...] = ("circular", "mirror", "canvas:0.5:edge", "canvas:0.5:fade", "canvas:0.5:zero")
CANVASES = [f"canvas:{pad}:{fill}" for fill in ("edge", "fade", "zero") for pad in (0.125, 0.25, 0.5, 1.0)]


@dataclass(frozen=True)
class Images:
    """Normalised images ``(B, C, n, n)`` and the options of a net for them."""

    name: str
    x: Tensor
    options: Mapping[str, Any]


@torch.no_grad()
def measure_boundary(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Measure on 16 images of a kind.

    Args:
        names: ``errors``, ``proportion``, ``leakage``, ``shift``, ``cost``; all of them if none is given.
        settings: ``images`` are the photographs, without which the three about edges measure nothing: those of digits
            are black. A quick run takes 4 images.
    """
    count = 4 if settings.quick else 16
    sets = [_digits(count), *([] if settings.images is None else [_photographs(settings.images, count)])]
    parts = {"errors": errors, "proportion": proportion, "leakage": leakage, "shift": shift}
    for name in chosen(names, {name: name for name in (*parts, "cost")}):
        if name == "cost":
            yield from cost(settings)
            continue
        for images in sets if name == "errors" else sets[1:]:
            yield from ((f"boundary-{name}", {"data": images.name, **row}) for row in parts[name](images))


def _digits(count: int) -> Images:
    test = load_protocol("mnist-scale", offline=True).test
    x = test.preprocessing(test.images[torch.arange(count)].float() / 255)
    return Images("digits", x, {"in_channels": 1, "resolutions": range(8, 29, 4)})


def _photographs(folder: Path, count: int) -> Images:
    paths = ImageFolder(folder).paths
    drawn = torch.randperm(len(paths), generator=torch.Generator().manual_seed(0))[:count].tolist()
    x = torch.stack([torch.from_numpy(decode_image(paths[i], colour="rgb", size=96)) for i in drawn]).float() / 255
    mean, std = (torch.tensor(IMAGENET[name]).view(-1, 1, 1) for name in ("mean", "std"))
    return Images("natural", (x - mean) / std, {"in_channels": 3, "resolutions": range(48, 97, 16)})


def _net(boundary: str, **options: Any) -> ScaleClassifier:
    torch.manual_seed(0)
    model = create_model("scalenet-tiny", head="temperature", boundary=boundary, **options).eval()
    assert isinstance(model, ScaleClassifier)
    return model


def errors(images: Images) -> Iterator[dict[str, Any]]:
    """Features and logits of every net with every downscaling; then canvases of every pad and fill with their own."""
    below = list(images.options["resolutions"])[:-1]
    ways = [(net, other) for net in BOUNDARIES for other in (*BOUNDARIES, "bicubic")]
    for net, other in [*ways, *((canvas, canvas) for canvas in CANVASES)]:
        model, found = _net(net, **images.options), []
        features = model.features(images.x)
        logits = model.head(features)
        for r in below:
            ideal = other != "bicubic"
            small = downscale(images.x, r, "ideal" if ideal else "bicubic", boundary=other if ideal else "circular")
            of_small = model.features(small)
            level = model.head(of_small)
            shrunk = crop(features, tuple(of_small.shape[-2:]))
            of_logits = relative_error(logits[:, level.shape[1] - 1], level[:, -1])
            found.append((relative_error(shrunk, of_small), of_logits))
        means = (statistics.mean(column) for column in zip(*found, strict=True))
        yield {"net": net, "downscaling": other, **dict(zip(("features", "logits"), means, strict=True))}


def proportion(images: Images) -> Iterator[dict[str, Any]]:
    """Coefficients on canvases whose sides are in proportion (64 of 96 pixels) and are not (60: 67.5 become 68)."""
    for boundary in ("mirror", *(f"canvas:0.125:{fill}" for fill in ("edge", "fade", "zero"))):
        for r in (60, 64):
            small = analyze(downscale(images.x, r, boundary=boundary), boundary=boundary)
            error = relative_error(crop(analyze(images.x, boundary=boundary), r, boundary), small)
            yield {"boundary": boundary, "resolution": r, "coefficients": error}


def leakage(images: Images) -> Iterator[dict[str, Any]]:
    """Change the right eighth of the image: which share of the features' change is in the left eighth?"""
    x, n = images.x, images.x.shape[-1]
    changed = x.clone()
    changed[..., -n // 8 :] = x.roll(1, 0)[..., -n // 8 :]
    for norm in ("none", "instance"):
        for boundary in BOUNDARIES:
            model = _net(boundary, **images.options, norm=norm, grid="common")
            change = synthesize(model.features(changed) - model.features(x), n, boundary).square().mean((0, 1, 2))
            yield {"norm": norm, "net": boundary, "left_share": float(change[: n // 8].sum() / change.sum())}


def shift(images: Images) -> Iterator[dict[str, Any]]:
    """Move a window over the image by an eighth of its side: do features move with it, inside and at the edges?"""
    n, step = 64, 8
    windows = [images.x[..., 16 : 16 + n, start : start + n] for start in (8, 8 + step)]
    rows, columns = slice(16, -16), slice(12, -12)  # the same distance from all edges of the windows
    for boundary in BOUNDARIES:
        model = _net(boundary, **{**images.options, "resolutions": [32, 48, 64]}, grid="common", norm="none")
        first, second = (synthesize(model.features(window), n, boundary) for window in windows)
        first, second = first[..., step:], second[..., :-step]  # the same places
        middle = relative_error(first[..., rows, columns], second[..., rows, columns])
        edge = relative_error(first[..., -4:], second[..., -4:])  # what is the edge of the first window
        yield {"net": boundary, "middle": middle, "edge": edge}


@torch.enable_grad()
def cost(settings: Settings) -> Iterator[Record]:
    """A forward and backward pass of the tiny net on digits, and how many levels the paper's resolutions are."""
    x = torch.rand(settings.batch or 64, 1, 28, 28)
    boundaries = (*BOUNDARIES[:3], "canvas:1:edge")
    models = [_net(boundary).train() for boundary in boundaries]
    jobs = [lambda model=model: model(x).sum().backward() for model in models]
    for boundary, own in zip(boundaries, settings.times(jobs), strict=True):
        whole = create_model("scalenet-mnist", boundary=boundary)
        assert isinstance(whole, ScaleClassifier)
        row = {"net": boundary, "step_ms": 1e3 * statistics.median(own)}
        yield "boundary-cost", row | {"levels_8_to_28": len(whole.level_bands((28, 28)))}
