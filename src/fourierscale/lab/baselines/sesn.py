"""SESN: scale-equivariant steerable networks (Sosnovik, Szmaja and Smeulders, ICLR 2020).

Kernels are combinations of Hermite-Gauss functions, sampled anew at each scale. Its layers are in ``steerable.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from torch import nn

from fourierscale.lab.baselines.frames import MnistFrame, Place, WideResNet
from fourierscale.lab.baselines.hermite import hermite_basis
from fourierscale.lab.baselines.steerable import (
    LiftingConv2d,
    MaxOverScales,
    ScaleConv2d,
    pointwise_scale_conv,
    residual_init,
)
from fourierscale.models.registry import ModelInfo, register
from fourierscale.nn.checks import choice

__all__ = ["SesnVariant", "build_sesn_mnist", "build_sesn_stl10"]

CITATION = "Sosnovik et al., Scale-Equivariant Steerable Networks, ICLR 2020"
SesnVariant: TypeAlias = Literal["A", "B", "C"]
"""How scales meet in the wide residual net; see :func:`build_sesn_stl10`."""


def build_sesn_mnist(
    in_channels: int = 1,
    classes: int = 10,
    widths: Sequence[int] = (32, 63, 95),
    hidden: int = 256,
    dropout: float = 0.7,
    vector: bool = False,
    kernel_size: int = 15,
    scales: Sequence[float] = (1.7, 2.45, 3.54, 5.1),
    mult: float = 1.5,
    max_order: int = 4,
) -> MnistFrame:
    """SESN for digits: 49 functions of Hermite basis B, as many weights as a 7x7 kernel.

    Args:
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the stages.
        hidden: Width of the MLP.
        dropout: Dropout behind the hidden layer.
        vector: Whether the scale axis is kept up to the last stage; else each stage lifts, and takes the maximum.
        kernel_size: Odd side of the kernels.
        scales: Widths of the functions.
        mult: By how much each further width of the basis is smaller.
        max_order: Highest total order of a function.
    """
    basis = hermite_basis(kernel_size, tuple(scales), 49, "B", mult, max_order)

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return ScaleConv2d(inputs, outputs, basis) if vector and stage else LiftingConv2d(inputs, outputs, basis)

    return MnistFrame(conv, in_channels, classes, widths, hidden, dropout, keep_scales=(vector, vector, False))


def build_sesn_stl10(
    in_channels: int = 3,
    classes: int = 10,
    widths: Sequence[int] = (16, 128, 256, 512),
    dropout: float = 0.3,
    variant: SesnVariant = "A",
    kernel_size: int = 7,
    scales: Sequence[float] | None = None,
) -> WideResNet:
    """SESN for photographs: a wide residual net with nine functions of Hermite basis A, as many weights as 3x3 kernels.

    Variant A lifts once and never mixes scales before the end. B takes the maximum over scales at the entries of groups
    2 and 3 and lifts again. C mixes neighbouring scales (extent 2) at the entry of group 1.

    Args:
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the stem and of the three groups.
        dropout: Dropout in the blocks.
        variant: ``"A"``, ``"B"`` or ``"C"``.
        kernel_size: Odd side of the kernels.
        scales: Widths of the functions; default: three, from 0.9 (C: 1.1) by factors of 1.41.
    """
    choice(variant, get_args(SesnVariant), "variant of SESN")
    smallest = 1.1 if variant == "C" else 0.9
    basis = hermite_basis(kernel_size, tuple(scales or (smallest * 1.41**i for i in range(3))), 9)

    def conv(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        if place.group == 0:
            return residual_init(LiftingConv2d(inputs, outputs, basis, stride, bias=False))
        if variant == "B" and place.entry and place.group > 1:
            return nn.Sequential(
                MaxOverScales(), residual_init(LiftingConv2d(inputs, outputs, basis, stride, bias=False))
            )
        extent = 2 if variant == "C" and place.entry and place.group == 1 else 1
        return residual_init(ScaleConv2d(inputs, outputs, basis, extent, stride, bias=False))

    return WideResNet(
        in_channels,
        classes,
        widths,
        dropout,
        conv=conv,
        shortcut=pointwise_scale_conv,
        max_before_norm=True,
    )


register(
    ModelInfo(
        name="sesn-mnist",
        build=build_sesn_mnist,
        description="steerable kernels at four scales, maximum over scales in each stage",
        recipe="mnist-baseline",
        enlarge="zero",
        enlarge_size=28,
        citation=CITATION,
    )
)
register(
    ModelInfo(
        name="sesn-vector-mnist",
        build=build_sesn_mnist,
        defaults={"vector": True, "kernel_size": 13, "scales": (1.5, 2.6, 4.5)},
        description="steerable kernels at three scales, kept to the last stage",
        recipe="mnist-baseline",
        enlarge="zero",
        enlarge_size=28,
        citation=CITATION,
    )
)
register(
    ModelInfo(
        name="sesn-stl10",
        build=build_sesn_stl10,
        description="the wide residual net with steerable kernels at three scales, variant A",
        recipe="stl10-baseline",
        enlarge="zero",
        enlarge_size=96,
        citation=CITATION,
    )
)
