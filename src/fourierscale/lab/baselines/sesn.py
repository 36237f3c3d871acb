"""SESN: scale-equivariant steerable networks (Sosnovik, Szmaja and Smeulders, ICLR 2020).

Kernels are combinations of Hermite-Gauss functions, sampled anew at each scale. Its layers are in ``parts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from torch import nn

from fourierscale.lab.baselines.parts.frames import MnistFrame, WideResNet, register_in_frame
from fourierscale.lab.baselines.parts.hermite import hermite_basis
from fourierscale.lab.baselines.parts.steerable import LiftingConv2d, ScaleConv2d, steerable_resnet
from fourierscale.nn.checks import choice

__all__ = ["SesnVariant", "build_sesn_mnist", "build_sesn_stl10"]

CITATION = "Sosnovik et al., Scale-Equivariant Steerable Networks, ICLR 2020"
SesnVariant: TypeAlias = Literal["A", "B", "C"]
"""How scales meet in the wide residual net; see :func:`build_sesn_stl10`."""


def build_sesn_mnist(
    vector: bool = False,
    kernel_size: int = 15,
    scales: Sequence[float] = (1.7, 2.45, 3.54, 5.1),
    mult: float = 1.5,
    max_order: int = 4,
    **frame: Any,
) -> MnistFrame:
    """SESN for digits: 49 functions of Hermite basis B, as many weights as a 7x7 kernel.

    Args:
        vector: Whether the scale axis is kept up to the last stage; else each stage lifts, and takes the maximum.
        kernel_size: Odd side of the kernels.
        scales: Widths of the functions.
        mult: Factor by which each further width of the basis is smaller.
        max_order: Highest total order of a function.
        frame: Options of :class:`MnistFrame`.
    """
    basis = hermite_basis(kernel_size, tuple(scales), 49, "B", mult, max_order)

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return ScaleConv2d(inputs, outputs, basis) if vector and stage else LiftingConv2d(inputs, outputs, basis)

    return MnistFrame(conv, keep_scales=(vector, vector, False), **frame)


def build_sesn_stl10(
    variant: SesnVariant = "A", kernel_size: int = 7, scales: Sequence[float] | None = None, **frame: Any
) -> WideResNet:
    """SESN for photographs: a wide residual net with nine functions of Hermite basis A, as many weights as 3x3 kernels.

    Variant A lifts once and never mixes scales before the end. B takes the maximum over scales at the entries of groups
    2 and 3 and lifts again. C mixes neighbouring scales (extent 2) at the entry of group 1.

    Args:
        variant: ``"A"``, ``"B"`` or ``"C"``.
        kernel_size: Odd side of the kernels.
        scales: Widths of the functions; default: three, from 0.9 (C: 1.1) by factors of 1.41.
        frame: Options of :class:`WideResNet`.
    """
    choice(variant, get_args(SesnVariant), "variant of SESN")
    smallest = 1.1 if variant == "C" else 0.9
    basis = hermite_basis(kernel_size, tuple(scales or (smallest * 1.41**i for i in range(3))), 9)
    return steerable_resnet(basis, lift_again=variant == "B", mix_scales=variant == "C", **frame)


register_in_frame(
    "sesn-mnist", build_sesn_mnist, "steerable kernels at four scales, maximum over scales in each stage", CITATION
)
register_in_frame(
    "sesn-vector-mnist",
    build_sesn_mnist,
    "steerable kernels at three scales, kept to the last stage",
    CITATION,
    vector=True,
    kernel_size=13,
    scales=(1.5, 2.6, 4.5),
)
register_in_frame(
    "sesn-stl10", build_sesn_stl10, "the wide residual net with steerable kernels at three scales, variant A", CITATION
)
