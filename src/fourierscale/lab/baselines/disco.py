"""DISCO: accurate discrete scale convolutions (Sosnovik, Moskalev and Smeulders, BMVC 2021).

SESN's layers over a basis that is fitted on the grid instead of sampled from a formula; ``parts`` has the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from fourierscale.lab.baselines.parts.disco_basis import disco_basis
from fourierscale.lab.baselines.parts.frames import MnistFrame, WideResNet, register_in_frame
from fourierscale.lab.baselines.parts.steerable import DoublingConv2d, PixelMean, ScaleConv2d, steerable_resnet
from fourierscale.lab.baselines.scales import MeanPool2d

__all__ = ["build_disco_mnist", "build_disco_stl10"]

CITATION = "Sosnovik et al., DISCO: accurate Discrete Scale Convolutions, BMVC 2021"


def build_disco_mnist(
    kernel_size: int = 15,
    scales: Sequence[float] = (1.0, 1.26, 1.59, 2.0),
    sigma: float = 1.9,
    mult: float = 1.5,
    max_order: int = 4,
    **frame: Any,
) -> MnistFrame:
    """DISCO for digits: images are doubled by repeating pixels, and the scale axis is kept up to the last stage.

    The first layer reads the images undoubled, with the same result (:class:`DoublingConv2d`).

    Pools are average 2 and average 2, then, behind the maximum over scales, max 7 with stride 1 and average 2 with
    stride 4: 56 x 56 becomes 2 x 2. The final feature map, that of the last ReLU, is on a grid of 14 x 14.

    Args:
        kernel_size: Odd side of the kernels, of 7 x 7 taps at scale 1.
        scales: Scales of the kernels, from 1 upwards.
        sigma: Width of the basis' functions at scale 1.
        mult: By how much each further width is smaller; its authors use 1.9 when they train with random scales.
        max_order: Highest total order of a function.
        frame: Options of :class:`MnistFrame`.
    """
    basis = disco_basis(kernel_size, 7, tuple(scales), "B", sigma, mult, max_order)

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return ScaleConv2d(inputs, outputs, basis) if stage else DoublingConv2d(inputs, outputs, basis)

    pools = (PixelMean(), MeanPool2d(2), nn.Sequential(nn.MaxPool2d(7, 1), nn.AvgPool2d(2, 4)))
    return MnistFrame(conv, keep_scales=(True, True, False), pools=pools, **frame)


def build_disco_stl10(
    kernel_size: int = 5, scales: Sequence[float] = (1.0, 1.41, 2.0), sigma: float = 0.9, **frame: Any
) -> WideResNet:
    """DISCO for photographs: SESN's variant B, with max pooling behind a convolution instead of strides.

    Args:
        kernel_size: Odd side of the kernels, of 3 x 3 taps at scale 1.
        scales: Scales of the kernels, from 1 upwards.
        sigma: Width of the basis' functions at scale 1.
        frame: Options of :class:`WideResNet`.
    """
    return steerable_resnet(disco_basis(kernel_size, 3, tuple(scales), "A", sigma), lift_again=True, pool=True, **frame)


register_in_frame(
    "disco-mnist",
    build_disco_mnist,
    "kernels at four scales in a basis fitted on the grid, on doubled images",
    CITATION,
)
register_in_frame(
    "disco-stl10",
    build_disco_stl10,
    "the wide residual net with kernels at three scales in a fitted basis",
    CITATION,
)
