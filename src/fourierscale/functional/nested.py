r"""The nested map: non-linearity, pooling and decoders are one operator.

For each level, coarse to fine: crop the input to the level, synthesise it on the level's own grid, apply any function,
analyse, and keep only the rim, the frequencies that the previous level does not hold. What is in the rim of a level
never depends on anything finer, whatever the function, so the map commutes with cropping (the paper's Claim 1).
Grids and parameters depend on the level alone, never on the input's size: every resolution runs the same arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.functional.bands import Boundary, Box, Size, as_size, axis_bands, coefficient_bands, grids
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.norms import InstanceNorm, LevelAffine, normalise
from fourierscale.functional.resample import corner
from fourierscale.functional.transform import analyze, synthesize

Grid: TypeAlias = Literal["level", "common"]
"""Where a level is sampled: on its own smallest grid, or on the grid of the highest resolution of the set."""

PoolKind: TypeAlias = Literal["max", "average"]
"""What pooling takes of each window."""

HeadPool: TypeAlias = Literal["max", "average", "both"]
"""What a classifier's head takes of each window."""


@dataclass(frozen=True)
class Pooling:
    """A pooling in the same pass as an activation, one transform fewer than pooling afterwards."""

    window: int = 1
    """Samples per window and axis; 1 is no pooling."""
    kind: PoolKind = "max"


@dataclass(frozen=True)
class Level:
    """One level of a nested map: what it reads, where it samples, what it writes."""

    index: int
    """Row of the parameters of this level."""
    reads: Box
    """Band read from an input of rate 1."""
    writes: Box
    """Band of the output; its part outside the previous level, the rim, is kept."""
    grid: Box
    """Samples per axis handed to the function."""


LevelFunction: TypeAlias = Callable[..., Tensor]
"""``function(level, x, ...)``: the inputs sampled on ``level.grid``, to a grid that holds ``level.writes``."""


def nested_map(
    inputs: Tensor | Sequence[tuple[Tensor, int]],
    levels: Resolutions,
    function: LevelFunction,
    *,
    axes: int = 2,
    pool: int = 1,
    grid: Grid = "level",
    oversample: float = 1.0,
    size: Size | None = None,
    prepare: Callable[[Level, Tensor], Tensor] | None = None,
) -> Tensor:
    r"""Apply any function level by level so that the whole commutes with ideal downscaling.

    .. math:: Y[k] = \mathcal F\big(\varphi_i \circ \mathcal F^{-1}(X[-wK_i : wK_i])\big)[k]
        \quad\text{for the first level } i \text{ with } |k|_\infty \le K_i

    This is the paper's Eq. 15 for an arbitrary :math:`\varphi_i`, a pooling rate :math:`w`, and several inputs.

    Args:
        inputs: Coefficients ``(..., 2K_1+1, ..., 2K_d+1)``, or pairs ``(coeffs, rate)``: a feature that was pooled by
            ``rate`` may be read only up to ``k // rate`` when frequency ``k`` is written, because its coefficient
            ``j`` has seen image frequencies up to ``rate * j``. With several pairs this is an exact decoder.
        levels: The resolutions of an input of rate 1.
        function: ``function(level, *samples)``, each of ``samples`` being ``(..., *level.grid)``; it returns any grid
            that holds ``level.writes``.
        axes: Number ``d`` of spatial axes.
        pool: Output band ``K // pool``; the function gets ``pool`` times the samples and is to pool them.
        grid: ``"level"`` or ``"common"``, see :data:`Grid`.
        oversample: Samples per axis relative to the smallest grid, at least 1.
        size: Resolution of an input of rate 1, needed only when none is given.
        prepare: ``prepare(level, coeffs)``, applied to what the level reads of each input before it is sampled.

    Returns:
        Coefficients of band ``K // pool`` per axis.
    """
    pairs = [(inputs, 1)] if isinstance(inputs, Tensor) else list(inputs)
    box = _input_band(pairs, axes, size)
    plan = plan_levels(Levels(levels), box, pool=pool, grid=grid, oversample=oversample)

    def prepare_each(level: Level, read: list[Tensor]) -> list[Tensor]:
        return read if prepare is None else [prepare(level, coeffs) for coeffs in read]

    return _map_levels(pairs, plan, function, axes, prepare_each)


def _map_levels(
    pairs: Sequence[tuple[Tensor, int]],
    plan: Sequence[Level],
    function: LevelFunction,
    axes: int,
    prepare: Callable[[Level, list[Tensor]], list[Tensor]],
) -> Tensor:
    output: Tensor | None = None
    # Fine to coarse: each coarser level overwrites its own corner, which leaves every level its rim.
    for level in reversed(plan):
        read = [coeffs[corner(tuple(k // rate for k in level.reads))] for coeffs, rate in pairs]
        samples = [synthesize(coeffs, level.grid) for coeffs in prepare(level, read)]
        written = analyze(function(level, *samples), axes, grids(level.writes))
        if output is None:
            output = written
        else:
            output[corner(level.writes)] = written
    assert output is not None
    return output


def keep_rims(written: Sequence[Tensor], axes: int = 2) -> Tensor:
    r"""Put levels together: each keeps its rim, the frequencies that no level before it holds.

    Args:
        written: What each level writes, ``(..., 2K_1+1, ..., 2K_d+1)``, coarse to fine.
        axes: Number ``d`` of spatial axes.

    >>> keep_rims([torch.zeros(1, 3, 3), torch.ones(1, 5, 5)]).sum().item()  # 25 coefficients, 9 of them the coarser
    16.0
    """
    output = written[-1].clone()
    for coarser in reversed(written[:-1]):
        output[corner(coefficient_bands(coarser, axes))] = coarser
    return output


def plan_levels(
    levels: Levels, box: Box, *, pool: int = 1, grid: Grid = "level", oversample: float = 1.0
) -> list[Level]:
    """The levels of an input of band ``box``, coarse to fine.

    >>> for level in plan_levels(Levels([8, 12, 16]), (7, 7), pool=2):
    ...     print(level.reads, level.writes, level.grid)
    (2, 2) (1, 1) (6, 6)
    (4, 4) (2, 2) (10, 10)
    (6, 6) (3, 3) (14, 14)
    """
    if grid not in get_args(Grid):
        raise ValueError(f"unknown grid {grid!r}: choose one of {', '.join(get_args(Grid))}")
    if pool < 1 or oversample < 1:
        raise ValueError(f"pool and oversample must be at least 1, got {pool} and {oversample}")
    plan = []
    # Two levels with the same output band are one level, the coarser: it reads what both can see.
    for writes in dict.fromkeys(tuple(k // pool for k in level) for level in levels.of_input(box)):
        reads = tuple(pool * k for k in writes)
        samples = grids(writes)
        if grid == "common":
            highest = levels.pooled(pool).highest
            common = highest * len(box) if len(highest) == 1 else highest
            samples = tuple(max(n, m) for n, m in zip(samples, common, strict=True))
        size = tuple(pool * math.ceil(oversample * n) for n in samples)
        plan.append(Level(levels.index(reads), reads, writes, size))
    return plan


def nested_activation(
    coeffs: Tensor,
    levels: Resolutions,
    activation: Callable[[Tensor], Tensor],
    *,
    axes: int = 2,
    norm: InstanceNorm | LevelAffine | None = None,
    pool: Pooling | None = None,
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    r"""The scale-equivariant non-linearity :math:`\sigma_s` (the paper's Eqs. 14 and 15), with a norm in front of it.

    Per level: the norm, then :math:`\sigma`, then pooling. The statistics of an instance norm are those of the level,
    from the coefficients by Parseval: the mean is ``C[0]``, the variance the sum of the other squares.

    Args:
        coeffs: ``(..., C, 2K_1+1, ..., 2K_d+1)``.
        levels: The resolutions at which the result is equivariant.
        activation: Element-wise function on samples.
        axes: Number ``d`` of spatial axes.
        norm: The norm in front of it; none by default.
        pool: The pooling behind it; none by default.
        grid: ``"level"`` or ``"common"``.
        oversample: Samples per axis relative to the smallest grid; more means less aliasing.

    >>> x = torch.randn(1, 2, 27, 27)
    >>> y = nested_activation(x, range(8, 29), torch.relu)
    >>> torch.allclose(nested_activation(x[..., :15, :15], range(8, 29), torch.relu), y[..., :15, :15], atol=1e-6)
    True
    """
    pool = pool or Pooling()
    box = coefficient_bands(coeffs, axes)
    plan = plan_levels(Levels(levels), box, pool=pool.window, grid=grid, oversample=oversample)
    return activate_levels(coeffs, plan, activation, norm, pool)


def activate_levels(
    coeffs: Tensor,
    plan: Sequence[Level],
    activation: Callable[[Tensor], Tensor],
    norm: InstanceNorm | LevelAffine | None,
    pool: Pooling,
) -> Tensor:
    """:func:`nested_activation` with its levels planned."""
    axes = len(plan[0].grid)
    if norm is not None and coeffs.ndim <= axes:
        raise ValueError(f"coefficients need a channel axis before {axes} frequency axes, got {tuple(coeffs.shape)}")

    def normalise_each(level: Level, read: list[Tensor]) -> list[Tensor]:
        return [normalise(coeffs, axes, level.index, norm) for coeffs in read]

    def activate(level: Level, x: Tensor) -> Tensor:
        x = activation(x)
        return pool_samples(x, pool.window, pool.kind, axes) if pool.window > 1 else x

    return _map_levels([(coeffs, 1)], plan, activate, axes, normalise_each)


def nested_merge(
    fine: Tensor,
    coarse: Tensor,
    levels: Resolutions,
    rate: int,
    activation: Callable[[Tensor], Tensor],
    *,
    axes: int = 2,
    norm: InstanceNorm | None = None,
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    r"""A decoder's step: norm and activation of the sum of a feature and of one that was pooled by ``rate``.

    .. math:: Y[k] = \mathcal F\big(\sigma(\mathcal F^{-1}(X[-K_i : K_i] + Z[-\lfloor K_i / w \rfloor :
        \lfloor K_i / w \rfloor]))\big)[k] \quad\text{for the first level } i \text{ with } |k|_\infty \le K_i

    Frequency ``j`` of the pooled feature :math:`Z` has seen image frequencies up to ``rate * j``, so level ``i``
    reads it up to ``K_i // rate`` only. Ordinary upsampling would read all of it, and would not be equivariant.

    Args:
        fine: :math:`X`, ``(..., C, 2K_1+1, ..., 2K_d+1)``.
        coarse: :math:`Z`, with as many channels and band ``K // rate`` per axis.
        levels: The resolutions of ``fine``.
        rate: By how much ``coarse`` was pooled in all, relative to ``fine``.
        activation: Element-wise function on samples.
        axes: Number ``d`` of spatial axes.
        norm: The norm of the sum; none by default.
        grid: ``"level"`` or ``"common"``.
        oversample: Samples per axis relative to the smallest grid.

    Returns:
        Coefficients of the band of ``fine``.

    >>> fine, coarse = torch.randn(1, 2, 27, 27), torch.randn(1, 2, 13, 13)
    >>> y = nested_merge(fine, coarse, range(8, 29), 2, torch.relu)
    >>> small = nested_merge(fine[..., :15, :15], coarse[..., :7, :7], range(8, 29), 2, torch.relu)
    >>> torch.allclose(small, y[..., :15, :15], atol=1e-6)
    True
    """
    pairs = [(fine, 1), (coarse, rate)]
    plan = plan_levels(Levels(levels), _input_band(pairs, axes, None), grid=grid, oversample=oversample)

    def add_up(level: Level, read: list[Tensor]) -> list[Tensor]:
        total, pooled = read[0].clone(), read[1]
        total[corner(coefficient_bands(pooled, axes))] += pooled
        return [normalise(total, axes, level.index, norm)]

    return _map_levels(pairs, plan, lambda level, x: activation(x), axes, add_up)


def nested_pool(
    coeffs: Tensor,
    levels: Resolutions,
    window: int,
    kind: PoolKind = "max",
    *,
    axes: int = 2,
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    r"""Scale-equivariant pooling (the paper's Eq. 16), exact at every resolution.

    .. math:: Y[k] = \mathcal F\big(\mathrm{Pool}^w(\mathcal F^{-1}(X[-wK_i : wK_i]))\big)[k]

    Output band ``K // window``, which is the band of a grid of ``ceil(n / window)`` samples for every ``n``. The paper
    is exact at multiples of the window alone.

    Args:
        coeffs: ``(..., 2K_1+1, ..., 2K_d+1)``.
        levels: The resolutions of the input.
        window: Samples per window and axis.
        kind: ``"max"`` or ``"average"``.
        axes: Number ``d`` of spatial axes.
        grid: ``"level"`` or ``"common"``.
        oversample: Windows per axis relative to the smallest output grid.

    >>> nested_pool(torch.randn(1, 1, 27, 27), range(8, 29), 2).shape
    torch.Size([1, 1, 13, 13])
    """
    return nested_map(
        coeffs,
        levels,
        lambda level, x: pool_samples(x, window, kind, axes),
        axes=axes,
        pool=window,
        grid=grid,
        oversample=oversample,
    )


def level_pool(
    coeffs: Tensor,
    boxes: Sequence[Box],
    window: int,
    cells: int,
    kind: HeadPool = "max",
    boundary: Boundary = "circular",
) -> Tensor:
    """What the classifier's head sees of each level: its samples on one grid for all levels, pooled.

    Args:
        coeffs: ``(B, C, 2K_1+1, 2K_2+1)``.
        boxes: The bands of the levels.
        window: Samples per window and axis.
        cells: Windows per axis.
        kind: ``"max"``, ``"average"``, or ``"both"``: the maxima of all channels, then their means.
        boundary: What lies beyond the image's edge: the windows lie on the image alone.

    Returns:
        ``(B, levels, C * cells^2)``, twice as many numbers for both.

    >>> level_pool(torch.randn(2, 3, 7, 7), [(1, 1), (3, 3)], 4, 2).shape
    torch.Size([2, 2, 12])
    """
    samples = [synthesize(coeffs[corner(box)], window * cells, boundary) for box in boxes]
    return torch.stack([pool_cells(x, window, kind) for x in samples], dim=1)


def pool_cells(x: Tensor, window: int, kind: HeadPool) -> Tensor:
    """Samples ``(..., C, n_1, n_2)`` pooled, ``(..., C * cells)``; for both, maxima of all channels, then means."""
    kinds: tuple[PoolKind, ...] = ("max", "average") if kind == "both" else (kind,)
    return torch.cat([pool_samples(x, window, each).flatten(-3) for each in kinds], -1)


def pool_samples(x: Tensor, window: int, kind: PoolKind, axes: int = 2) -> Tensor:
    """Ordinary pooling of windows that do not overlap, on any number of axes.

    >>> pool_samples(torch.arange(6.0), 2, "max", axes=1)
    tensor([1., 3., 5.])
    """
    if kind not in get_args(PoolKind):
        raise ValueError(f"unknown pooling {kind!r}: choose one of {', '.join(get_args(PoolKind))}")
    for axis in range(-axes, 0):
        windows = torch.unflatten(x, axis, (x.shape[axis] // window, window))
        x = windows.amax(axis) if kind == "max" else windows.mean(axis)
    return x


def _input_band(pairs: Sequence[tuple[Tensor, int]], axes: int, size: Size | None) -> Box:
    """Band of an input of rate 1, after checking that all inputs belong to it."""
    if not pairs:
        raise ValueError("a nested map needs at least one input, got none")
    have = [(coefficient_bands(coeffs, axes), rate) for coeffs, rate in pairs]
    if size is not None:
        box = axis_bands(as_size(size))
    else:
        full = [box for box, rate in have if rate == 1]
        if not full:
            raise ValueError("no input has rate 1: pass size, the resolution that the output is to have")
        box = full[0]
    for own, rate in have:
        if own != tuple(k // rate for k in box):
            raise ValueError(
                f"an input of rate {rate} must have band {tuple(k // rate for k in box)} beside band {box}, got {own}: "
                "all inputs must come from the same image"
            )
    return box
