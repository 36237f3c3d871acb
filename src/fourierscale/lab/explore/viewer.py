"""What the page asks for: one image at one resolution, through every net, as numbers that JSON can carry."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional import downscale
from fourierscale.metrics import shrink_features
from fourierscale.models import ImageModel, Preprocessing
from fourierscale.models.preprocessing import LIGHT
from fourierscale.predicting.levels import looks
from fourierscale.testing import relative_error

__all__ = ["LookError", "Net", "Viewer"]

MAX_SIDE = 512  # of an image that is sent; the page makes larger ones smaller


class LookError(ValueError):
    """Something that cannot be looked at; its text is one sentence for the user."""


@dataclass(frozen=True)
class Net:
    """A net to look through.

    Attributes:
        key: ``"ours"``, ``"cnn"`` or ``"tiny"``: its colour on the page; each net has another.
        name: For captions.
        model: In evaluation mode.
        preprocessing: How pixels become its input.
    """

    key: str
    name: str
    model: ImageModel
    preprocessing: Preprocessing

    @property
    def resolutions(self) -> list[int]:
        """The resolutions at which it can be looked through: its levels', or those of its images if it has none."""
        levels = self.model.levels
        named = self.preprocessing.sizes if levels is None else levels.resolutions
        return sorted(n for n in named if isinstance(n, int))


@dataclass(frozen=True)
class _Seen:
    features: Tensor
    probabilities: Tensor  # (levels, classes)


class Viewer:
    """Looks at one image after the other through the same nets; what was computed for the last image is kept.

    Args:
        nets: The first decides sizes and classes; those behind it take the same images.

    >>> from fourierscale.models import create_model
    >>> prepare = Preprocessing(mean=(0.1,), std=(0.3,), classes=tuple("0123456789"))
    >>> viewer = Viewer([Net("ours", "ours", create_model("scalenet-tiny").eval(), prepare)])
    >>> look = viewer.look(bytes(range(196)) * 4, 28, 12)
    >>> look["size"], look["resolution"], len(look["levels"]), look["nets"]["ours"]["small"]["side"]
    (28, 12, 6, 12)
    """

    def __init__(self, nets: Sequence[Net]) -> None:
        self.nets = list(nets)
        self.prepare, self.resolutions = self.nets[0].preprocessing, self.nets[0].resolutions
        self.lowest, self.highest = self.resolutions[0], self.resolutions[-1]
        self._lock = threading.Lock()
        self._image: str | None = None
        self._seen: dict[tuple[str, int], _Seen] = {}

    def about(self) -> dict[str, Any]:
        """What the page must know before the first image."""
        return {
            "size": self.highest,
            "channels": self.prepare.channels,
            "classes": list(self.prepare.classes),
            "resolutions": self.resolutions,
            "levels": self.levels(),
            "looks": self.looks(),
            "nets": [
                {"key": net.key, "name": net.name, "parameters": sum(p.numel() for p in net.model.parameters())}
                for net in self.nets
            ],
            "light": LIGHT if self.prepare.polarity == "light on dark" else None,
            "maxSide": MAX_SIDE,
        }

    def levels(self) -> dict[int, int]:
        """Which level of the first net answers for each resolution; 0 everywhere if it has no levels."""
        return {r: len(self.nets[0].model.level_bands((r, r))) - 1 for r in self.resolutions}

    def looks(self) -> dict[int, list[tuple[int, float]]]:
        """For each size where the first net would look, coarse to fine, and the work up to there, 1 being the whole."""
        net, found = self.nets[0], {}
        for size in self.resolutions if net.model.levels is not None else ():
            steps = looks(net.model, net.preprocessing, size)
            work = itertools.accumulate((step.size / size) ** 2 for step in steps)
            found[size] = [(step.resolution, share) for step, share in zip(steps, work, strict=True)]
        return found

    def warm(self) -> None:
        """Look once, so that the first look of the page is as quick as the others."""
        count = self.highest**2 * self.prepare.channels
        self.look(bytes(i % 251 for i in range(count)), self.highest, self.lowest)

    @torch.inference_mode()
    def look(self, pixels: bytes, side: int, resolution: int, rank: int = 0) -> dict[str, Any]:
        """Features both ways round, their difference, and probabilities.

        Args:
            pixels: One byte per sample, rows of the square image one after the other, channels last.
            side: Of the image; a larger one than the net's images is ideally downscaled to their size.
            resolution: To downscale the image to.
            rank: Which channel: 0 is the one that varies most over the image, 1 the next.
        """
        started = time.perf_counter()
        with self._lock:
            x = self._open(pixels, side)
            size = int(x.shape[-1])
            if not self.lowest <= resolution <= size:
                raise LookError(f"expected a resolution from {self.lowest} to {size} pixels, got {resolution}")
            small = self.prepare.downscale(x, resolution)
            nets = {net.key: self._both_ways(net, x, small, rank) for net in self.nets}
            levels = self._see(self.nets[0], x).probabilities
        return {
            "size": size,
            "resolution": resolution,
            "image": _grid(small[0].movedim(0, -1), 0.0, 1.0),
            "nets": nets,
            "levels": levels.tolist(),
            "seconds": time.perf_counter() - started,
        }

    def _open(self, pixels: bytes, side: int) -> Tensor:
        channels = self.prepare.channels
        if not self.lowest <= side <= MAX_SIDE:
            raise LookError(f"expected an image of {self.lowest} to {MAX_SIDE} pixels a side, got {side}")
        if len(pixels) != side * side * channels:
            raise LookError(f"expected {side} x {side} x {channels} bytes of pixels, got {len(pixels)}")
        digest = hashlib.sha256(pixels).hexdigest()
        if digest != self._image:
            self._image = digest
            self._seen.clear()
        x = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(1, side, side, channels).movedim(-1, 1)
        x = x.float() / 255
        if any(self.prepare.faults(x)):
            raise LookError("the image is blank: draw something, or choose another")
        return downscale(x, self.highest, boundary=self.prepare.boundary) if side > self.highest else x

    def _see(self, net: Net, x: Tensor) -> _Seen:
        key = net.key, int(x.shape[-1])
        if key not in self._seen:
            device = next(net.model.parameters()).device
            features, logits = net.model.features_and_logits(net.preprocessing(x.to(device)))
            (answer,) = net.preprocessing.answers(logits, net.model.level_names(key[1]))
            self._seen[key] = _Seen(features.float(), answer.probabilities)
        return self._seen[key]

    def _both_ways(self, net: Net, x: Tensor, x_small: Tensor, rank: int) -> dict[str, Any]:
        model, size, resolution = net.model, int(x.shape[-1]), int(x_small.shape[-1])
        large, small = self._see(net, x), self._see(net, x_small)
        ratio = resolution / size
        shrunk = shrink_features(large.features, small.features, ratio, model.domain, net.preprocessing)
        order = model.feature_maps(large.features, size)[0].flatten(1).var(1).argsort(descending=True)
        channel = int(order[max(0, min(rank, len(order) - 1))])
        maps = [model.feature_maps(value[:, channel], resolution)[0].cpu() for value in (small.features, shrunk)]
        low, high = min(float(m.min()) for m in maps), max(float(m.max()) for m in maps)
        return {
            "small": _grid(maps[0], low, high),
            "shrunk": _grid(maps[1], low, high),
            "error": relative_error(shrunk, small.features),
            "channel": channel,
            "channels": len(order),
            "probabilities": small.probabilities[-1].tolist(),
        }


def _grid(values: Tensor, low: float, high: float) -> dict[str, Any]:
    """A picture ``(m, m)`` or ``(m, m, C)`` as whole numbers from 0 (``low``) to 255 (``high``)."""
    scaled = (values - low) * (255 / max(high - low, 1e-12))
    return {"side": values.shape[0], "values": scaled.round().clamp(0, 255).int().flatten().tolist()}
