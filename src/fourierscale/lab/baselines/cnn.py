"""Plain convolutions: in both frames, what all the other baselines are measured against; and a small CNN for pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fourierscale.lab.baselines.parts.frames import MnistFrame, WideResNet, register_in_frame
from fourierscale.models.contract import ImageModel
from fourierscale.models.registry import ModelInfo, register
from fourierscale.testing import Domain

__all__ = ["SmallCNN", "build_cnn_mnist"]


def build_cnn_mnist(**frame: Any) -> MnistFrame:
    """The frame for digits with 7x7 convolutions."""
    return MnistFrame(lambda inputs, outputs, stage: nn.Conv2d(inputs, outputs, 7, padding=3), **frame)


class SmallCNN(ImageModel):
    """Three blocks of 5x5 convolution, batch norm and ReLU, one max pooling, and a linear classifier.

    It takes images of one size; smaller ones are padded with black (``enlarge="zero"``). It is no net of the paper: the
    pages of this library show it beside ours, and it is small enough to be trained in a minute or to ship.

    >>> import torch
    >>> SmallCNN(1, 10)(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    domain: Domain = "image"

    def __init__(self, in_channels: int = 1, classes: int = 10, widths: Sequence[int] = (16, 32, 32)) -> None:
        super().__init__()
        first, second, third = widths
        self.body = nn.Sequential(
            *_block(in_channels, first), nn.MaxPool2d(2), *_block(first, second), *_block(second, third)
        )
        self.head = nn.Sequential(nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(4 * third, classes))

    def features(self, x: Tensor) -> Tensor:
        """The final feature map ``(B, C, n / 2, n / 2)``."""
        features: Tensor = self.body(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, n, n)`` to logits ``(B, classes)``."""
        logits: Tensor = self.head(self.features(x))
        return logits


def _block(in_channels: int, out_channels: int) -> list[nn.Module]:
    return [nn.Conv2d(in_channels, out_channels, 5, padding=2), nn.BatchNorm2d(out_channels), nn.ReLU()]


register_in_frame(
    "cnn-mnist",
    build_cnn_mnist,
    "three 7x7 convolutions and an MLP, the CNN of SESN's experiments",
    "Sosnovik et al., Scale-Equivariant Steerable Networks, ICLR 2020",
)
register_in_frame(
    "wrn-stl10", WideResNet, "the wide residual net 16-8", "Zagoruyko and Komodakis, Wide Residual Networks, BMVC 2016"
)
register(
    ModelInfo(
        name="cnn-small",
        build=SmallCNN,
        description="three 5x5 convolutions and a linear classifier, for the demo and fourierscale explore",
        recipe="mnist-baseline",
        enlarge="zero",
        enlarge_size=28,
        citation="none: a plain CNN, not one of the paper's",
    )
)
