"""Where does a matrix product stop being faster than an FFT? Times both, forward and backward."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fourierscale.functional import analyze, band, grid, synthesize, transform
from fourierscale.kernels import products
from fourierscale.lab.bench.suites import Record, Settings, chosen
from fourierscale.nn import ScaleActivation2d

__all__ = ["measure_transforms"]

SIZES = (28, 48, 96, 128, 192, 224, 256, 320, 384, 512, 768, 1024, 1536, 2048)
NUMBERS = 2**22  # samples per image batch: every size moves the same amount of data
CHANNELS = 32


def measure_transforms(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Milliseconds by products and by FFTs for each grid size.

    ``axes``: analysis and synthesis of images; ``FFT_FROM`` of :mod:`fourierscale.functional.transform` is set from
    it. ``nested``: one activation of six levels, 32 channels of one image, by products or as the specification, whose
    large grids take FFTs; ``PRODUCTS_UP_TO`` of :mod:`fourierscale.kernels.products` is set from it.

    Args:
        names: ``axes`` or ``nested``; both if none is given.
        settings: A quick run ends at 256 samples.
    """
    device = settings.device
    makers = {"axes": ("transforms", _axes, transform.FFT_FROM), "nested": ("nested", _nested, products.PRODUCTS_UP_TO)}
    for stem, make, limits in chosen(names, makers):
        for n in (n for n in SIZES if n <= 256 or not settings.quick):
            step, outputs = make(n, device), []
            row: dict[str, float] = {"size": n}
            for route, limit in (("matrix", 10**9), ("fft", 1)):
                with _limited(limits, limit):
                    outputs.append(step())
                    own = [1e3 * t for t in settings.times([step])[0]]
                row |= {f"{route}_ms": statistics.median(own), f"{route}_spread_ms": max(own) - min(own)}
            difference = float((outputs[0] - outputs[1]).norm() / outputs[1].norm())
            yield f"{stem}-{device.type}", row | {"ratio": row["matrix_ms"] / row["fft_ms"], "difference": difference}


@contextmanager
def _limited(limits: dict[str, int], value: int) -> Iterator[None]:
    """Within a ``with`` block, the grid size up to which products are taken."""
    kept = dict(limits)
    limits.update(dict.fromkeys(("cpu", "cuda"), value))
    try:
        yield
    finally:
        limits.clear()
        limits.update(kept)


def _axes(n: int, device: torch.device) -> Callable[[], Tensor]:
    """Analysis and synthesis of both axes of images, with their gradient; gives the coefficients."""
    x = torch.randn(max(1, NUMBERS // n**2), n, n, device=device, requires_grad=True)

    def step() -> Tensor:
        coefficients = analyze(x)
        synthesize(coefficients, n).backward(x.detach())  # type: ignore[no-untyped-call, unused-ignore]
        return coefficients.detach()

    return step


def _nested(n: int, device: torch.device) -> Callable[[], Tensor]:
    """An activation of six levels, with its gradient; gives its output."""
    layer = ScaleActivation2d(CHANNELS, [round(n * share / 10) for share in range(5, 11)]).to(device)
    side = grid(band(n))
    falling = 1 / torch.arange(1, side + 1, device=device)
    x = (torch.randn(1, CHANNELS, side, side, device=device) * falling[:, None] * falling).requires_grad_()

    def step() -> Tensor:
        y: Tensor = layer(x)
        y.backward(x.detach())  # type: ignore[no-untyped-call, unused-ignore]
        return y.detach()

    return step
