"""Photographs: exact nets of every size of image and batch beside the plain nets of the same widths, at their best."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.bench.peers import PlainCNN
from fourierscale.lab.bench.suites import Job, Record, Settings, chosen
from fourierscale.models import create_model, model_info

__all__ = ["measure_photos"]

SIZES, BATCHES = (96, 192, 384), (1, 4, 16)
LARGEST = 16 * 96**2
"""Pixels of the largest batch: 16 images of 96 pixels, 4 of 192, one of 384."""
SECONDS = 4.0


@dataclass(frozen=True)
class Pair:
    """An exact net and the plain net of its widths."""

    exact: str
    plain: str | None
    """A name, or None for the residual CNN of the exact net's own options."""
    octaves: bool = False
    """Levels an octave apart, not seven in an octave."""

    def levels(self, side: int) -> list[int]:
        """Resolutions of the exact net whose largest is this one."""
        return [side // 2, side] if self.octaves else list(range(side // 2, side + 1, side // 12))


PAIRS = {
    "scalenet-stl10": Pair("scalenet-stl10", None),
    "scaleresnet-stl10": Pair("scaleresnet-stl10", "resnet-stl10"),
    "scaleresnet-stl10-octaves": Pair("scaleresnet-stl10", "resnet-stl10", octaves=True),
    "scaleresnet-stl10-small": Pair("scaleresnet-stl10-small", "resnet-stl10-small"),
}


def measure_photos(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Time inference and training passes of both nets of a pair in turns; first, how fast products are here.

    Args:
        names: Pairs; all of them if none is given.
        settings: A quick run takes 96 pixels and one batch, of one image if nothing else is said.
    """
    pairs = dict(zip(names or PAIRS, chosen(names, PAIRS), strict=True))
    stem = f"photos-{settings.device.type}"
    yield f"{stem}-rates", _rates(settings)
    batches = (settings.batch,) if settings.batch else (1,) if settings.quick else BATCHES
    for name, pair in pairs.items():
        for side in SIZES[: 1 if settings.quick else None]:
            for batch in (b for b in batches if settings.batch or b * side**2 <= LARGEST):
                for train in (False, True):
                    yield stem, {"pair": name} | _measure(pair, side, batch, train, settings)


def _rates(settings: Settings) -> dict[str, Any]:
    """Billions of operations a second of a product, and of the same as a 1x1 convolution in channels-last layout."""
    dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
    rows, n = 16 * 2304, 96
    x, w = (torch.randn(*size, dtype=dtype, device=settings.device) for size in ((rows, n), (n, n)))
    images, taps = x.view(16, 48, 48, n).permute(0, 3, 1, 2), w[:, :, None, None]
    jobs: list[Job] = [lambda: x @ w, lambda: nn.functional.conv2d(images, taps)]
    with torch.no_grad():
        seconds = [statistics.median(own) for own in settings.times(jobs, 1.0)]
    product, convolution = (2e-9 * rows * n * n / each for each in seconds)
    return {"precision": settings.precision, "product_gflops": product, "convolution_gflops": convolution}


def _measure(pair: Pair, side: int, batch: int, train: bool, settings: Settings) -> dict[str, Any]:
    torch.manual_seed(0)
    levels = pair.levels(side)
    x = torch.randn(batch, 3, side, side, device=settings.device)
    ours, plain = create_model(pair.exact, resolutions=levels), _plain(pair)
    last = x.contiguous(memory_format=torch.channels_last)
    plain = plain.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    jobs = [_job(net.to(settings.device).train(train), image, settings) for net, image in ((ours, x), (plain, last))]
    own, peer = settings.times(jobs, SECONDS)
    times = statistics.median(own), statistics.median(peer)
    return {
        "mode": "train" if train else "infer",
        "size": side,
        "levels": len(levels),
        "batch": batch,
        "precision": settings.precision,
        "ours_ms": 1e3 * times[0],
        "plain_ms": 1e3 * times[1],
        "ratio": times[0] / times[1],
        "repeats": len(own),
    }


def _plain(pair: Pair) -> nn.Module:
    if pair.plain is not None:
        return create_model(pair.plain)
    options = model_info(pair.exact).defaults
    return PlainCNN(3, options["widths"], options["kernel_size"], options["pool"], residual=True)


def _job(net: nn.Module, x: Tensor, settings: Settings) -> Job:
    def forward() -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            logits: Tensor = net(x)
        return logits.float()

    def infer() -> None:
        with torch.inference_mode():
            forward()

    def step() -> None:
        forward().square().mean().backward()  # type: ignore[no-untyped-call]

    return step if net.training else infer
