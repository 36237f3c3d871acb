"""The matrices and products of every level of a task, made once for a size, a device and a number of channels.

:func:`make_factors` holds what belongs to the levels alone, matrices and slices; :func:`level_products` makes of these
products of certain shapes, which :mod:`.products` runs.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import kept
from fourierscale.functional.transform import analysis_matrix, synthesis_matrix
from fourierscale.kernels.layout import Span, rim
from fourierscale.kernels.nested.task import Task
from fourierscale.kernels.products import Block, Product, chain, share_count

ALL = slice(None)


class LevelFactors(NamedTuple):
    """A level with the matrices and slices that it needs, looked up once."""

    read: tuple[slice, ...]
    synthesis: tuple[Tensor, ...]
    """Per axis, ``(samples, coefficients)``."""
    shape: Box
    """Samples per axis in front of the pooling."""
    rims: tuple[tuple[tuple[slice, ...], tuple[tuple[int, Tensor], ...]], ...]
    """Place of each block of the rim, and its rows of the analysis, ``(axis, (coefficients, samples))``."""


class Factors(NamedTuple):
    """What the levels of a task need besides values."""

    levels: tuple[LevelFactors, ...]
    within: tuple[Tensor, ...]
    """Which coefficients of each axis a level reads, ``(levels, n)``, zeros and ones."""
    members: Tensor
    """Which coefficients each level reads, without the mean, ``(levels, n_1 * ... * n_d)``, zeros and ones."""
    rows: Tensor
    """Which row of the parameters each level uses, ``(rows, levels)`` of zeros and ones."""


@kept
def make_factors(task: Task, size: Box, dtype: torch.dtype, device: torch.device) -> Factors:
    """Everything about a task that does not depend on values, for coefficients of this size."""
    plan, window = task.levels, task.pool.window
    levels = []
    writes: Box | None = None
    within = [torch.zeros(len(plan), n) for n in size]
    rows = torch.zeros(1 + max(level.index for level in plan), len(plan))
    for i, level in enumerate(plan):
        for inside, n in zip(within, grids(level.reads), strict=True):
            inside[i, :n] = 1
        rows[level.index, i] = 1
        synthesis = (synthesis_matrix(n, k, dtype, device) for n, k in zip(level.grid, level.reads, strict=True))
        rims = []
        for block in rim(level.writes, writes):
            # The axis with the fewest coefficients first: it shrinks the work of the others.
            order = sorted(range(len(block)), key=lambda axis: block[axis][1] - block[axis][0])
            parts = ((a, analysis_matrix(level.grid[a] // window, level.writes[a], dtype, device)) for a in order)
            rims.append((_slices(block), tuple((a, m[slice(*block[a])]) for a, m in parts)))
        levels.append(LevelFactors(_slices(rim(level.reads, None)[0]), tuple(synthesis), level.grid, tuple(rims)))
        writes = level.writes
    members = functools.reduce(lambda a, b: (a[:, :, None] * b[:, None]).flatten(1), within).clone()
    members[:, 0] = 0
    accurate = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    inside_of = tuple(inside.to(device, accurate) for inside in within)
    return Factors(tuple(levels), inside_of, members.to(device, accurate), rows.to(device, accurate))


class RimProducts(NamedTuple):
    """A block of the rim of a level."""

    place: tuple[slice, ...]
    shape: tuple[int, ...]
    analysis: tuple[Product, ...]
    adjoint: Block


class LevelProducts(NamedTuple):
    """A level as products of certain shapes, ``(S, ..., q)``."""

    read: tuple[slice, ...]
    shares: int
    coefficients: tuple[int, ...]
    samples: tuple[int, ...]
    pooled: tuple[int, ...]
    synthesis: tuple[Product, ...]
    adjoint: tuple[Product, ...]
    rims: tuple[RimProducts, ...]


def level_products(
    task: Task, size: Box, dtype: torch.dtype, device: torch.device, columns: int
) -> tuple[LevelProducts, ...]:
    """The products of every level, for a piece of so many images and channels."""
    counts = tuple(share_count(columns, math.prod(level.grid), device) for level in task.levels)
    return _level_products(task, size, dtype, device, columns, counts)


@kept
def _level_products(
    task: Task, size: Box, dtype: torch.dtype, device: torch.device, columns: int, counts: tuple[int, ...]
) -> tuple[LevelProducts, ...]:
    output = []
    for level, count in zip(make_factors(task, size, dtype, device).levels, counts, strict=True):
        q = columns // count
        coefficients = (count, *(matrix.shape[1] for matrix in level.synthesis), q)
        synthesis, samples = chain(list(enumerate(level.synthesis)), coefficients)
        back = [(axis, matrix.mT) for axis, matrix in enumerate(level.synthesis)]
        adjoint, _ = chain(back[::-1], samples)
        pooled = (count, *(n // task.pool.window for n in level.shape), q)
        rims: list[RimProducts] = []
        for place, rows in level.rims:
            analysis, shape = chain(rows, pooled)
            back = [(axis, matrix.mT) for axis, matrix in rows]
            adjoint_block = Block((ALL, *place), shape, chain(back[::-1], shape)[0], bool(rims))
            rims.append(RimProducts((ALL, *place), shape, analysis, adjoint_block))
        read = (ALL, *level.read)
        output.append(LevelProducts(read, count, coefficients, samples, pooled, synthesis, adjoint, tuple(rims)))
    return tuple(output)


def _slices(block: Span) -> tuple[slice, ...]:
    return tuple(slice(*span) for span in block)
