"""The tables of ``docs/limits.md``: other downscalings, shifts, and precision, on shipped weights and real digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fourierscale.data import find_protocol, get_dataset
from fourierscale.functional import crop, downscale
from fourierscale.functional.nested import Grid
from fourierscale.functional.resample import Kind
from fourierscale.lab.bench.suites import Record, Settings, chosen
from fourierscale.models import ScaleClassifier, load_pretrained
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import relative_error

__all__ = ["measure_limits"]

RESOLUTIONS = (8, 14, 20, 27)
MOVED = (3, 5)
KINDS: tuple[Kind, ...] = ("ideal", "gaussian", "bicubic")
GRIDS: tuple[tuple[Grid, int], ...] = (("level", 28), ("common", 27), ("common", 28))


@torch.inference_mode()
def measure_limits(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Relative squared errors of ``scalenet-mnist``, and of one layer under shifts; half a minute on one core.

    Args:
        names: ``downscaling``, ``shift``, ``precision``; all of them if none is given.
        settings: A quick run measures a few digits.
    """
    raw, protocol, count = get_dataset("mnist", offline=True), find_protocol("mnist-scale"), 8 if settings.quick else 64
    x = torch.from_numpy(raw.images[:: len(raw) // count][:count]).float() / 255
    x = (x - protocol.mean[0]) / protocol.std[0]
    for part in chosen(names, {"downscaling": downscalings, "shift": shifts, "precision": precisions}):
        yield from part(x)


def _net() -> ScaleClassifier:
    model = load_pretrained("scalenet-mnist")
    assert isinstance(model, ScaleClassifier)
    return model


def downscalings(x: Tensor) -> Iterator[Record]:
    """How far images and features are from ideal ones, and how often the prediction is the same."""
    model = _net()
    features, logits = model.features(x), model(x)
    for kind in KINDS:
        found: dict[str, dict[str, float]] = {"images": {}, "features": {}, "same prediction": {}}
        for r in RESOLUTIONS:
            small, level = downscale(x, r, kind), len(model.level_bands((r, r))) - 1
            same = model(small)[:, -1].argmax(-1) == logits[:, level].argmax(-1)
            found["images"][f"{r} px"] = relative_error(small, downscale(x, r))
            found["features"][f"{r} px"] = relative_error(crop(features, r), model.features(small))
            found["same prediction"][f"{r} px"] = float(same.float().mean())
        for what, values in found.items():
            yield "limits-downscaling", {"downscaling": kind, "of": what, **values}


def shifts(x: Tensor) -> Iterator[Record]:
    """One layer, digits moved by some samples."""
    for grid, size in GRIDS:
        image, errors = downscale(x, size), {}
        for oversample in (1, 2, 4):
            torch.manual_seed(0)
            activation = ScaleActivation2d(8, range(8, 29), grid=grid, oversample=oversample)
            net = ScaleEquivariant(nn.Sequential(LocalFourierConv2d(1, 8, 5, 28), activation))
            moved = torch.roll(net(image), MOVED, (-2, -1))
            errors[f"oversample={oversample}"] = relative_error(net(torch.roll(image, MOVED, (-2, -1))), moved)
        yield "limits-shift", {"grid": grid, "size": size, **errors}


def precisions(x: Tensor) -> Iterator[Record]:
    """28 pixels against 15 in several types."""

    def error(dtype: torch.dtype) -> float:
        net, image = _net().to(dtype), x.to(dtype)
        return relative_error(crop(net.features(image), 15), net.features(downscale(image, 15)))

    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        yield "limits-precision", {"type": str(dtype).removeprefix("torch."), "error": error(dtype)}
    with torch.autocast("cpu", torch.bfloat16):
        yield "limits-precision", {"type": "autocast to bfloat16", "error": error(torch.float32)}
