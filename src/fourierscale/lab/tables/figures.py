"""What results cannot show: features of shipped nets, ours and a small CNN, both ways round, at every resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from fourierscale.auditing import Audit, audit
from fourierscale.data import ScaledSplits, load_protocol
from fourierscale.functional import downscale
from fourierscale.functional.resample import Kind
from fourierscale.metrics import shrink_features
from fourierscale.models import ImageModel, Preprocessing, load_pretrained
from fourierscale.testing import relative_error

__all__ = [
    "BothWays",
    "Figures",
    "NetFigures",
    "both_ways",
    "choose_digit",
    "layer_errors",
    "make_figures",
    "shipped_figures",
]

SHIPPED = {"mnist-scale": "scalenet-mnist", "mnist-scale-gaussian": "scalenet-mnist-gaussian"}
"""Weights for digits that are downscaled ideally and for those that are not, by protocol."""
PLAIN = "cnn-small"


class BothWays(NamedTuple):
    """One channel of a model's last feature map at one resolution.

    Attributes:
        of_small: Features of the downscaled image ``(m, m)``.
        shrunk: Downscaled features of the image, of the same size.
        error: Relative squared difference over all channels.
    """

    of_small: Tensor
    shrunk: Tensor
    error: float


@dataclass(frozen=True)
class NetFigures:
    """One net's share of the figures.

    Attributes:
        model: The net.
        maps: The channel that varies most of the last layer, for each resolution.
        errors: Relative squared error behind each activation, for each resolution; see :func:`fourierscale.audit`.
    """

    model: ImageModel
    maps: list[BothWays]
    errors: list[list[float]]


@dataclass(frozen=True)
class Figures:
    """A digit at every resolution and what two nets make of it.

    Attributes:
        kind: How digits are downscaled.
        original: The digit, normalised, ``(1, C, n, n)``.
        resolutions: Those below it, coarse to fine.
        digit: The digit at each of them, ``(m, m)``.
        ours: The shipped net.
        cnn: A plain one.
        digits: How many digits the errors are of.
    """

    kind: Kind
    original: Tensor
    resolutions: list[int]
    digit: list[Tensor]
    ours: NetFigures
    cnn: NetFigures
    digits: int

    @property
    def size(self) -> int:
        """The digit's own resolution."""
        return int(self.original.shape[-1])


def shipped_figures(tell: Callable[[str], None]) -> list[Figures]:
    """Of the weights that ship with the package, for each kind of downscaling; digits must be on this machine.

    Args:
        tell: Told what is being computed.
    """
    found, cnn = [], load_pretrained(PLAIN)
    for protocol, weights in SHIPPED.items():
        tell(f"feature maps of {weights} and {PLAIN}")
        found.append(make_figures(load_protocol(protocol, offline=True), load_pretrained(weights), cnn))
    return found


def make_figures(splits: ScaledSplits, ours: ImageModel, cnn: ImageModel, digits: int = 32) -> Figures:
    """Compute the figures.

    Args:
        splits: Digits.
        ours: A net that gives coefficients.
        cnn: One of a single input size that gives maps; smaller images are padded with black.
        digits: How many test digits the errors of the layers are measured on.
    """
    ours, cnn = ours.eval(), cnn.eval()
    size = max(splits.protocol.resolutions)
    chosen = choose_digit(splits)
    resolutions, kind = [r for r in splits.protocol.resolutions if r < size], splits.protocol.kind
    pixels = splits.test.images[torch.arange(min(digits, len(splits.test)))].float() / 255

    def net(model: ImageModel, module: str, prepare: Preprocessing) -> NetFigures:
        found = audit(model, pixels, resolutions, kinds=[kind], preprocessing=prepare, shifts=())
        return NetFigures(model, both_ways(model, prepare, chosen, resolutions), layer_errors(found, module))

    prepare = splits.preprocessing
    padded = replace(prepare, enlarge="zero", enlarge_size=size)

    return Figures(
        kind,
        prepare(chosen),
        resolutions,
        [downscale(chosen, r, kind)[0, 0] for r in resolutions],
        net(ours, "ScaleActivation2d", prepare),
        net(cnn, "ReLU", padded),
        len(pixels),
    )


def layer_errors(found: Audit, module: str) -> list[list[float]]:
    """Errors of the layers of one class, layer by resolution."""
    layers = [layer for layer in found.layers if layer.module == module]
    return [[layer.errors[found.kind][r] for r in found.resolutions] for layer in layers]


def choose_digit(splits: ScaledSplits, label: int = 5) -> Tensor:
    """The first test image of a class (of any, if there is none), pixels from 0 to 1, ``(1, C, n, n)``."""
    items = (splits.test.labels == label).nonzero().flatten().tolist() or [0]
    return splits.test.images[torch.tensor(items[:1])].float() / 255


@torch.inference_mode()
def both_ways(
    model: ImageModel, preprocessing: Preprocessing, pixels: Tensor, resolutions: Sequence[int]
) -> list[BothWays]:
    """Features of the downscaled image and downscaled features of the image, for each resolution.

    The channel is the one that varies most over the image.

    Args:
        model: Has ``features``.
        preprocessing: How pixels become its input.
        pixels: One image ``(1, C, n, n)`` from 0 to 1.
        resolutions: Where to look.
    """
    size, x = int(pixels.shape[-1]), pixels.to(next(model.parameters()).device)
    large = model.features(preprocessing(x)).float()
    channel = int(model.feature_maps(large, size)[0].flatten(1).var(1).argmax())
    found = []
    for r in resolutions:
        small = model.features(preprocessing(preprocessing.downscale(x, r))).float()
        shrunk = shrink_features(large, small, r / size, model.domain, preprocessing)
        maps = [model.feature_maps(value, r)[0, channel].cpu() for value in (small, shrunk)]
        found.append(BothWays(maps[0], maps[1], relative_error(shrunk, small)))
    return found
