"""Plain convolutions in both frames: what all the other baselines are measured against."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from fourierscale.lab.baselines.frames import MnistFrame, WideResNet
from fourierscale.models.registry import ModelInfo, register


def build_cnn_mnist(
    in_channels: int = 1,
    classes: int = 10,
    widths: Sequence[int] = (32, 63, 95),
    hidden: int = 256,
    dropout: float = 0.7,
) -> MnistFrame:
    """The frame for digits with 7x7 convolutions; see :class:`MnistFrame`."""

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return nn.Conv2d(inputs, outputs, 7, padding=3)

    return MnistFrame(conv, in_channels, classes, widths, hidden, dropout)


def build_wrn_stl10(
    in_channels: int = 3,
    classes: int = 10,
    widths: Sequence[int] = (16, 128, 256, 512),
    dropout: float = 0.3,
) -> WideResNet:
    """The wide residual net 16-8 as it is; see :class:`WideResNet`."""
    return WideResNet(in_channels, classes, widths, dropout)


register(
    ModelInfo(
        name="cnn-mnist",
        build=build_cnn_mnist,
        description="three 7x7 convolutions and an MLP, the CNN of SESN's experiments",
        recipe="mnist-baseline",
        enlarge="zero",
        enlarge_size=28,
        citation="Sosnovik et al., Scale-Equivariant Steerable Networks, ICLR 2020",
    )
)
register(
    ModelInfo(
        name="wrn-stl10",
        build=build_wrn_stl10,
        description="the wide residual net 16-8",
        recipe="stl10-baseline",
        enlarge="zero",
        enlarge_size=96,
        citation="Zagoruyko and Komodakis, Wide Residual Networks, BMVC 2016",
    )
)
