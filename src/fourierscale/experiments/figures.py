"""What results cannot show: features of the shipped net and of a small CNN, both ways round, at every resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fourierscale.data import ScaledSplits, load_protocol
from fourierscale.data.fit import Fit, fit_to
from fourierscale.demo.cnn import SmallCNN, train_cnn
from fourierscale.demo.pictures import BothWays, both_ways, choose_digit
from fourierscale.functional import analyze, downscale
from fourierscale.metrics import shrink_features
from fourierscale.models.registry import load_pretrained
from fourierscale.testing import Domain, relative_error

__all__ = ["Figures", "Net", "layer_errors", "make_figures"]

PRETRAINED = "scalenet-mnist"
Layers = Callable[[Tensor], list[Tensor]]


@dataclass(frozen=True)
class Net:
    """One net's share of the figures.

    Attributes:
        maps: The channel that varies most of the last layer, for each resolution.
        errors: Relative squared error, layer by layer, for each resolution.
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
    x = (
        splits.test.images[torch.arange(min(digits, len(splits.test)))].float() / 255 - splits.test.mean
    ) / splits.test.std

    def padded(images: Tensor) -> Tensor:
        mean, std = splits.test.mean, splits.test.std
        return (fit_to(images * std + mean, size, "zero") - mean) / std

    def cnn_layers(images: Tensor) -> list[Tensor]:
        return _after(cnn.body, padded(images), lambda module: isinstance(module, nn.ReLU))

    def our_layers(images: Tensor) -> list[Tensor]:
        blocks = ours.net.blocks  # type: ignore[union-attr]
        return _after(blocks, analyze(images), lambda module: True)  # type: ignore[arg-type]

    return Figures(
        size,
        resolutions,
        [downscale(chosen, r, kind)[0, 0] for r in resolutions],
        Net(both_ways(ours, splits, chosen, resolutions), layer_errors(our_layers, x, resolutions, "coefficients")),
        Net(
            both_ways(cnn, splits, chosen, resolutions, "zero"),
            layer_errors(cnn_layers, x, resolutions, SmallCNN.features_domain, "zero"),
        ),
        len(x),
    )


@torch.inference_mode()
def layer_errors(
    layers: Layers, x: Tensor, resolutions: Sequence[int], domain: Domain, fit: Fit | None = None
) -> list[list[float]]:
    """Relative squared error between features of downscaled images and downscaled features, layer by resolution.

    Args:
        layers: Gives the features behind each layer.
        x: Images ``(B, C, n, n)``.
        resolutions: Below ``n``.
        domain: What the features are.
        fit: How images reach a net of one input size.
    """
    large, errors = layers(x), []
    for r in resolutions:
        small = layers(downscale(x, r))
        pairs = zip(large, small, strict=True)
        errors.append([relative_error(shrink_features(a, b, r / x.shape[-1], domain, fit=fit), b) for a, b in pairs])
    return [list(layer) for layer in zip(*errors, strict=True)]


def _after(modules: nn.Sequential, x: Tensor, kept: Callable[[nn.Module], bool]) -> list[Tensor]:
    """What comes out of some of the modules, one after the other."""
    outputs = []
    for module in modules:
        x = module(x)
        if kept(module):
            outputs.append(x)
    return outputs
