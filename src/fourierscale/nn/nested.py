"""Non-linearity, pooling and decoders' steps over :mod:`fourierscale.functional.nested`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from fourierscale import kernels
from fourierscale.functional.bands import Box
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import Grid, Pooling, PoolKind, nested_merge, plan_levels
from fourierscale.functional.norms import InstanceNorm, LevelAffine
from fourierscale.nn.checks import check_coefficients, choice, positive
from fourierscale.nn.norms import BatchNorm, LevelBatchNorm

Norm: TypeAlias = Literal["instance", "batch", "none"]
"""Normalisation in front of an activation."""


class _Nested(nn.Module):
    """What the nested layers share: their levels and where these are sampled."""

    axes: int

    def __init__(self, resolutions: Resolutions, grid: Grid, oversample: float) -> None:
        super().__init__()
        self.levels = Levels(resolutions)
        choice(grid, get_args(Grid), "grid")
        if grid == "common" and self.levels.is_open:
            raise ValueError("grid='common' needs a highest resolution: give a list or range instead of 'all'")
        if not oversample >= 1:
            raise ValueError(f"oversample must be at least 1, got {oversample}")
        self.grid: Grid = grid
        self.oversample = oversample

    def extra_repr(self) -> str:
        """Levels and sampling, for ``print(model)``."""
        return f"{self.levels!r}, grid={self.grid!r}, oversample={self.oversample}"


class _ScaleActivation(_Nested):
    """Activations for any number of axes; documented at :class:`ScaleActivation2d`."""

    def __init__(
        self,
        channels: int,
        resolutions: Resolutions,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        norm: Norm | BatchNorm = "instance",
        grid: Grid = "level",
        oversample: float = 1.0,
        pool: int = 1,
        pool_kind: PoolKind = "max",
        eps: float = 1e-5,
    ) -> None:
        super().__init__(resolutions, grid, oversample)
        self.channels = positive(channels, "channels")
        self.pool = positive(pool, "pool")
        options = norm if isinstance(norm, BatchNorm) else BatchNorm(eps=eps)
        kind = "batch" if isinstance(norm, BatchNorm) else norm
        choice(kind, get_args(Norm), "norm")
        choice(pool_kind, get_args(PoolKind), "pooling")
        self.norm: Norm = kind
        self.pool_kind: PoolKind = pool_kind
        self.eps = eps
        self.activation = _checked_activation(activation)
        self.weight, self.bias = _norm_parameters(self.levels, channels, kind)
        self.batch_norm = LevelBatchNorm(len(self.levels), channels, options) if kind == "batch" else None

    def forward(self, coeffs: Tensor) -> Tensor:
        """Coefficients ``(..., C, 2K_1+1, ...)`` to coefficients of band ``K // pool``."""
        box = check_coefficients(coeffs, self.axes, self.channels, type(self).__name__)
        return kernels.nested_activation(
            coeffs,
            self.levels,
            self.activation,
            axes=self.axes,
            norm=self._norm(coeffs, box),
            pool=Pooling(self.pool, self.pool_kind),
            grid=self.grid,
            oversample=self.oversample,
        )

    def _norm(self, coeffs: Tensor, box: Box) -> InstanceNorm | LevelAffine | None:
        if self.batch_norm is None:
            return InstanceNorm(self.weight, self.bias, self.eps) if self.norm == "instance" else None
        if not self.training:
            return self.batch_norm.running()
        plan = plan_levels(self.levels, box, pool=self.pool)
        mean, variance = kernels.level_moments(coeffs, [level.reads for level in plan])
        images = math.prod(coeffs.shape[: -self.axes - 1])
        return self.batch_norm.batch(mean, variance, [level.index for level in plan], images)

    def extra_repr(self) -> str:
        """Channels, levels and options."""
        name = self.activation if isinstance(self.activation, str) else _name(self.activation)
        pool = f", pool={self.pool}, pool_kind={self.pool_kind!r}" if self.pool > 1 else ""
        return f"{self.channels}, {super().extra_repr()}, activation={name}, norm={self.norm!r}{pool}"


def _checked_activation(activation: str | Callable[[Tensor], Tensor]) -> str | Callable[[Tensor], Tensor]:
    if isinstance(activation, str):
        choice(activation, kernels.ACTIVATIONS, "activation")
    elif not callable(activation):
        raise TypeError(f"activation must be a name or a callable, got {activation!r}")
    return activation


def _norm_parameters(levels: Levels, channels: int, norm: Norm) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """Scale and shift per level and channel."""
    if norm != "instance":
        return None, None
    shape = (len(levels), channels)
    return nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))


def _name(function: Callable[[Tensor], Tensor]) -> str:
    return getattr(function, "__name__", type(function).__name__)


class _ScaleMerge(_Nested):
    """Decoders' steps for any number of axes; documented at :class:`ScaleMerge2d`."""

    def __init__(
        self,
        channels: int,
        resolutions: Resolutions,
        rate: int = 2,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        norm: Norm = "instance",
        grid: Grid = "level",
        oversample: float = 1.0,
        eps: float = 1e-5,
    ) -> None:
        super().__init__(resolutions, grid, oversample)
        self.channels, self.rate = positive(channels, "channels"), positive(rate, "rate")
        choice(norm, ("instance", "none"), "norm")
        self.norm: Norm = norm
        self.eps = eps
        self.activation = _checked_activation(activation)
        self.weight, self.bias = _norm_parameters(self.levels, channels, norm)

    def forward(self, fine: Tensor, coarse: Tensor) -> Tensor:
        """Coefficients ``(..., C, 2K_1+1, ...)`` and those of band ``K // rate`` to coefficients of band ``K``."""
        for coeffs in (fine, coarse):
            check_coefficients(coeffs, self.axes, self.channels, type(self).__name__)
        activation = self.activation
        return nested_merge(
            fine,
            coarse,
            self.levels,
            self.rate,
            kernels.ACTIVATIONS[activation].function if isinstance(activation, str) else activation,
            axes=self.axes,
            norm=InstanceNorm(self.weight, self.bias, self.eps) if self.norm == "instance" else None,
            grid=self.grid,
            oversample=self.oversample,
        )

    def extra_repr(self) -> str:
        """Channels, rate, levels and options."""
        name = self.activation if isinstance(self.activation, str) else _name(self.activation)
        return f"{self.channels}, rate={self.rate}, {super().extra_repr()}, activation={name}, norm={self.norm!r}"


class _ScalePool(_Nested):
    """Pooling for any number of axes; documented at :class:`ScalePool2d`."""

    def __init__(
        self,
        window: int,
        resolutions: Resolutions,
        kind: PoolKind = "max",
        grid: Grid = "level",
        oversample: float = 1.0,
    ) -> None:
        super().__init__(resolutions, grid, oversample)
        self.window = positive(window, "window")
        choice(kind, get_args(PoolKind), "pooling")
        self.kind: PoolKind = kind

    def forward(self, coeffs: Tensor) -> Tensor:
        """Coefficients of band ``K`` to coefficients of band ``K // window``."""
        check_coefficients(coeffs, self.axes, None, type(self).__name__)
        return kernels.nested_pool(
            coeffs, self.levels, self.window, self.kind, axes=self.axes, grid=self.grid, oversample=self.oversample
        )

    def extra_repr(self) -> str:
        """Window, kind and levels."""
        return f"{self.window}, {super().extra_repr()}, kind={self.kind!r}"


class ScaleActivation1d(_ScaleActivation):
    """:class:`ScaleActivation2d` for signals."""

    axes = 1


class ScaleActivation2d(_ScaleActivation):
    """Scale-equivariant activation: normalise and activate each level on its own grid, keep its rim.

    See :func:`fourierscale.functional.nested_activation`. The layer commutes exactly with ideal downscaling to every
    resolution of the set.

    Args:
        channels: Channels of the input.
        resolutions: A list, a range, ``"all"`` or :class:`fourierscale.Levels`: the resolutions of this layer's input
            at which the net is to be equivariant.
        activation: ``"relu"``, ``"gelu"``, ``"silu"``, ``"tanh"``, ``"leaky_relu"``, ``"identity"`` or a callable.
        norm: ``"instance"``, ``"batch"``, ``"none"`` or a :class:`BatchNorm` with options. A batch norm takes the
            mean and variance of each level over the batch in training
            (:func:`fourierscale.functional.level_moments`), and running averages of them in evaluation: there it is a
            constant scale and shift for each level.
        grid: ``"level"`` samples each level on its own smallest grid: fastest. ``"common"`` samples every level on
            the grid of the highest resolution: less aliasing, and shifts by its samples are exact.
        oversample: Samples per axis relative to that grid; more means less aliasing and better shift-equivariance.
        pool: Pool by this window in the same pass; the output then has band ``K // pool``.
        pool_kind: ``"max"`` or ``"average"``.
        eps: Added to the variance of the norm.

    Parameters (norm ``"instance"``): ``weight`` and ``bias``, one per level and channel, initially 1 and 0. An open
    set (``"all"``) shares one pair per channel among its levels. Those of a batch norm are in ``batch_norm``, with its
    running averages; by default all levels share one pair per channel.
    """

    axes = 2


class ScaleActivation3d(_ScaleActivation):
    """:class:`ScaleActivation2d` for volumes."""

    axes = 3


class ScaleMerge1d(_ScaleMerge):
    """:class:`ScaleMerge2d` for signals."""

    axes = 1


class ScaleMerge2d(_ScaleMerge):
    """A decoder's step that stays exact: norm and activation of a fine feature plus one that was pooled by ``rate``.

    See :func:`fourierscale.functional.nested_merge`. Mixing channels commutes with sampling: bring both features to the
    same channels by Fourier layers in front.

    Args:
        channels: Channels of both inputs.
        resolutions: The resolutions of the fine input.
        rate: By how much the coarse input was pooled relative to the fine one.
        activation: As for :class:`ScaleActivation2d`, as ``norm``, ``grid``, ``oversample``, ``eps``.
        norm: ``"instance"`` or ``"none"``.
        grid: ``"level"`` or ``"common"``.
        oversample: Samples per axis relative to that grid.
        eps: Added to the variance of the norm.

    >>> pool, merge = ScalePool2d(2, range(8, 29)), ScaleMerge2d(4, range(8, 29))
    >>> fine = torch.randn(1, 4, 27, 27)
    >>> merge(fine, pool(fine)).shape
    torch.Size([1, 4, 27, 27])
    """

    axes = 2


class ScaleMerge3d(_ScaleMerge):
    """:class:`ScaleMerge2d` for volumes."""

    axes = 3


class ScalePool1d(_ScalePool):
    """:class:`ScalePool2d` for signals."""

    axes = 1


class ScalePool2d(_ScalePool):
    """Scale-equivariant pooling: output band ``K // window``, exact at every resolution of the set.

    See :func:`fourierscale.functional.nested_pool`. Layers behind it work at the resolutions
    ``Levels(resolutions).pooled(window)``.

    Args:
        window: Samples per window and axis.
        resolutions: The resolutions of this layer's input.
        kind: ``"max"`` or ``"average"``.
        grid: ``"level"`` or ``"common"``, as for the activation.
        oversample: Windows per axis relative to the smallest output grid.
    """

    axes = 2


class ScalePool3d(_ScalePool):
    """:class:`ScalePool2d` for volumes."""

    axes = 3
