"""What results cannot show: features of the shipped net and of a small CNN, both ways round, at every resolution."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fourierscale.auditing import Audit, audit
from fourierscale.data import ScaledSplits, load_protocol
from fourierscale.data.fit import Fit
from fourierscale.demo.cnn import train_cnn
from fourierscale.demo.pictures import BothWays, both_ways, choose_digit
from fourierscale.functional import downscale
from fourierscale.models.registry import load_pretrained

__all__ = ["Figures", "Net", "layer_errors", "make_figures"]

PRETRAINED = "scalenet-mnist"


@dataclass(frozen=True)
class Net:
    """One net's share of the figures.

    Attributes:
        maps: The channel that varies most of the last layer, for each resolution.
        errors: Relative squared error behind each activation, for each resolution; see :func:`fourierscale.audit`.
    """

    maps: list[BothWays]
    errors: list[list[float]]


@dataclass(frozen=True)
class Figures:
    """A digit at every resolution and what two nets make of it.

    Attributes:
        size: The digit's own resolution.
        resolutions: Those below it, coarse to fine.
        digit: The digit at each of them.
        ours: The shipped net.
        cnn: A plain one.
        digits: How many digits the errors are of.
    """

    size: int
    resolutions: list[int]
    digit: list[Tensor]
    ours: Net
    cnn: Net
    digits: int


def make_figures(
    splits: ScaledSplits | None = None, ours: nn.Module | None = None, epochs: int = 2, digits: int = 32
) -> Figures:
    """Compute the figures; a small CNN is trained on the spot.

    Args:
        splits: Digits; those that are there without asking the network if not given.
        ours: A net that gives coefficients; the weights that ship with the package if not given.
        epochs: Of the CNN.
        digits: How many test digits the errors of the layers are measured on.
    """
    splits = splits or load_protocol("mnist-scale", offline=True)
    ours = (ours or load_pretrained(PRETRAINED)).eval()
    size = max(splits.protocol.resolutions)
    cnn = train_cnn(splits.train, len(splits.classes), size, epochs)
    chosen = choose_digit(splits)
    resolutions, kind = [r for r in splits.protocol.resolutions if r < size], splits.protocol.kind
    pixels = splits.test.images[torch.arange(min(digits, len(splits.test)))].float() / 255

    def errors(model: nn.Module, module: str, fit: Fit | None = None) -> list[list[float]]:
        mean, std = (value.flatten().tolist() for value in (splits.test.mean, splits.test.std))
        found = audit(model, pixels, resolutions, kinds=["ideal"], fit=fit, mean=mean, std=std, shifts=())
        return layer_errors(found, module)

    return Figures(
        size,
        resolutions,
        [downscale(chosen, r, kind)[0, 0] for r in resolutions],
        Net(both_ways(ours, splits, chosen, resolutions), errors(ours, "ScaleActivation2d")),
        Net(both_ways(cnn, splits, chosen, resolutions, "zero"), errors(cnn, "ReLU", "zero")),
        len(pixels),
    )


def layer_errors(found: Audit, module: str) -> list[list[float]]:
    """Errors of the layers of one class, layer by resolution."""
    layers = [layer for layer in found.layers if layer.module == module]
    return [[layer.errors[found.kind][r] for r in found.resolutions] for layer in layers]
