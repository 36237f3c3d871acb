"""DISCO: accurate discrete scale convolutions (Sosnovik, Moskalev and Smeulders, BMVC 2021).

SESN's layers over a basis that is fitted on the grid instead of sampled from a formula; ``disco_basis.py`` has the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from fourierscale.lab.baselines.disco_basis import disco_basis
from fourierscale.lab.baselines.frames import MnistFrame, Place, WideResNet
from fourierscale.lab.baselines.scales import MeanPool2d, ScaleMaxPool2d
from fourierscale.lab.baselines.steerable import (
    DoublingConv2d,
    LiftingConv2d,
    MaxOverScales,
    PixelMean,
    ScaleConv2d,
    pointwise_scale_conv,
    residual_init,
)
from fourierscale.models.registry import ModelInfo, register

__all__ = ["build_disco_mnist", "build_disco_stl10"]

CITATION = "Sosnovik et al., DISCO: accurate Discrete Scale Convolutions, BMVC 2021"


def build_disco_mnist(
    in_channels: int = 1,
    classes: int = 10,
    widths: Sequence[int] = (32, 63, 95),
    hidden: int = 256,
    dropout: float = 0.7,
    kernel_size: int = 15,
    scales: Sequence[float] = (1.0, 1.26, 1.59, 2.0),
    sigma: float = 1.9,
    mult: float = 1.5,
    max_order: int = 4,
) -> MnistFrame:
    """DISCO for digits: images are doubled by repeating pixels, and the scale axis is kept up to the last stage.

    The first layer reads the images undoubled, with the same result (:class:`DoublingConv2d`).

    Pools are average 2 and average 2, then, behind the maximum over scales, max 7 with stride 1 and average 2 with
    stride 4: 56 x 56 becomes 2 x 2. The final feature map, that of the last ReLU, is on a grid of 14 x 14.

    Args:
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the stages.
        hidden: Width of the MLP.
        dropout: Dropout behind the hidden layer.
        kernel_size: Odd side of the kernels, of 7 x 7 taps at scale 1.
        scales: From 1 upwards.
        sigma: Width of the basis' functions at scale 1.
        mult: By how much each further width is smaller; its authors use 1.9 when they train with random scales.
        max_order: Highest total order of a function.
    """
    basis = disco_basis(kernel_size, 7, tuple(scales), "B", sigma, mult, max_order)

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return ScaleConv2d(inputs, outputs, basis) if stage else DoublingConv2d(inputs, outputs, basis)

    return MnistFrame(
        conv,
        in_channels,
        classes,
        widths,
        hidden,
        dropout,
        keep_scales=(True, True, False),
        pools=(PixelMean(), MeanPool2d(2), nn.Sequential(nn.MaxPool2d(7, 1), nn.AvgPool2d(2, 4))),
    )


def build_disco_stl10(
    in_channels: int = 3,
    classes: int = 10,
    widths: Sequence[int] = (16, 128, 256, 512),
    dropout: float = 0.3,
    kernel_size: int = 5,
    scales: Sequence[float] = (1.0, 1.41, 2.0),
    sigma: float = 0.9,
) -> WideResNet:
    """DISCO for photographs: SESN's variant B, with max pooling behind a convolution instead of strides.

    Args:
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the stem and of the three groups.
        dropout: Dropout in the blocks.
        kernel_size: Odd side of the kernels, of 3 x 3 taps at scale 1.
        scales: From 1 upwards.
        sigma: Width of the basis' functions at scale 1.
    """
    basis = disco_basis(kernel_size, 3, tuple(scales), "A", sigma)

    def conv(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        if place.group == 0:
            return residual_init(LiftingConv2d(inputs, outputs, basis, bias=False))
        if place.entry and place.group > 1:
            again = residual_init(LiftingConv2d(inputs, outputs, basis, bias=False))
            return nn.Sequential(MaxOverScales(), again, ScaleMaxPool2d(stride))
        return residual_init(ScaleConv2d(inputs, outputs, basis, bias=False))

    def shortcut(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        pool = nn.Identity() if stride == 1 else ScaleMaxPool2d(stride)
        return nn.Sequential(pointwise_scale_conv(inputs, outputs, 1, place), pool)

    return WideResNet(
        in_channels,
        classes,
        widths,
        dropout,
        conv=conv,
        shortcut=shortcut,
        max_before_norm=True,
    )


register(
    ModelInfo(
        name="disco-mnist",
        build=build_disco_mnist,
        description="kernels at four scales in a basis fitted on the grid, on doubled images",
        recipe="mnist-baseline",
        enlarge="zero",
        enlarge_size=28,
        citation=CITATION,
    )
)
register(
    ModelInfo(
        name="disco-stl10",
        build=build_disco_stl10,
        description="the wide residual net with kernels at three scales in a fitted basis",
        recipe="stl10-baseline",
        enlarge="zero",
        enlarge_size=96,
        citation=CITATION,
    )
)
