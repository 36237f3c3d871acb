"""Layers: thin modules over :mod:`fourierscale.functional`, coefficients in, coefficients out."""

from fourierscale.nn.conv import (
    FourierConv1d,
    FourierConv2d,
    FourierConv3d,
    LocalFourierConv1d,
    LocalFourierConv2d,
    LocalFourierConv3d,
)
from fourierscale.nn.nested import (
    ScaleActivation1d,
    ScaleActivation2d,
    ScaleActivation3d,
    ScaleMerge1d,
    ScaleMerge2d,
    ScaleMerge3d,
    ScalePool1d,
    ScalePool2d,
    ScalePool3d,
)
from fourierscale.nn.nested_model import NestedModel, equivariant
from fourierscale.nn.norms import BatchNorm, LevelBatchNorm
from fourierscale.nn.pass_table import PassRow, PassTable
from fourierscale.nn.structure import ScaleDropout, ScaleEquivariant, ScaleResidual, ToCoefficients, ToImage

__all__ = [
    "BatchNorm",
    "FourierConv1d",
    "FourierConv2d",
    "FourierConv3d",
    "LevelBatchNorm",
    "LocalFourierConv1d",
    "LocalFourierConv2d",
    "LocalFourierConv3d",
    "NestedModel",
    "PassRow",
    "PassTable",
    "ScaleActivation1d",
    "ScaleActivation2d",
    "ScaleActivation3d",
    "ScaleDropout",
    "ScaleEquivariant",
    "ScaleMerge1d",
    "ScaleMerge2d",
    "ScaleMerge3d",
    "ScalePool1d",
    "ScalePool2d",
    "ScalePool3d",
    "ScaleResidual",
    "ToCoefficients",
    "ToImage",
    "equivariant",
]
