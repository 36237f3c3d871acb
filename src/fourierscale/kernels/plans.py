"""What a plan of levels needs besides values: how an operator takes it, which coefficients are whose, and its products.

A plan names for each level the band it reads, the band it writes and its grid. :func:`prepare` adds matrices and
slices, :func:`works` makes products of certain shapes of them; :mod:`fourierscale.kernels.nested` runs these.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level, PoolKind
from fourierscale.functional.transform import analysis_matrix, synthesis_matrix
from fourierscale.kernels.products import Block, Product, chain, share_count

ALL = slice(None)

Span: TypeAlias = tuple[tuple[int, int], ...]
"""First and last-plus-one coefficient per axis."""


class Options(NamedTuple):
    """What a nested activation does besides its levels."""

    activation: str
    norm: bool
    eps: float
    pool: int
    pool_kind: PoolKind


def encode(plan: Sequence[Level]) -> list[int]:
    """A plan as the flat list of ints that an operator takes."""
    return [n for level in plan for n in (level.index, *level.reads, *level.writes, *level.grid)]


@functools.lru_cache(1024)
def decode(numbers: tuple[int, ...], axes: int) -> tuple[Level, ...]:
    """Undo :func:`encode`."""
    width = 1 + 3 * axes
    rows = [numbers[i : i + width] for i in range(0, len(numbers), width)]
    return tuple(Level(row[0], row[1 : 1 + axes], row[1 + axes : 1 + 2 * axes], row[1 + 2 * axes :]) for row in rows)


def is_chain(plan: Sequence[Level]) -> bool:
    """Whether every level holds the one before it; only then is its rim the difference of two boxes."""
    pairs = itertools.pairwise(plan)
    return all(a <= b for low, high in pairs for a, b in zip(low.writes, high.writes, strict=True))


def rim(box: Box, inside: Box | None) -> list[Span]:
    """The coefficients of a band outside another one, as blocks that do not overlap.

    >>> rim((3, 3), (2, 2))
    [((5, 7), (0, 7)), ((0, 5), (5, 7))]
    """
    outer = grids(box)
    if inside is None:
        return [tuple((0, n) for n in outer)]
    inner = grids(inside)
    blocks = []
    for axis in range(len(box)):
        if inner[axis] < outer[axis]:
            before, after = inner[:axis], outer[axis + 1 :]
            blocks.append((*((0, n) for n in before), (inner[axis], outer[axis]), *((0, n) for n in after)))
    return blocks


class Step(NamedTuple):
    """A level with the matrices and slices that it needs, looked up once."""

    read: tuple[slice, ...]
    synthesis: tuple[Tensor, ...]
    """Per axis, ``(samples, coefficients)``."""
    shape: Box
    """Samples per axis in front of the pooling."""
    rims: tuple[tuple[tuple[slice, ...], tuple[tuple[int, Tensor], ...]], ...]
    """Place of each block of the rim, and its rows of the analysis, ``(axis, (coefficients, samples))``."""


class Prepared(NamedTuple):
    """What a plan needs besides values."""

    steps: tuple[Step, ...]
    within: tuple[Tensor, ...]
    """Which coefficients of each axis a level reads, ``(levels, n)``, zeros and ones."""
    members: Tensor
    """Which coefficients each level reads, without the mean, ``(levels, n_1 * ... * n_d)``, zeros and ones."""
    rows: Tensor
    """Which row of the parameters each level uses, ``(rows, levels)`` of zeros and ones."""


@forgotten_with_constants
@functools.lru_cache(1024)
def prepare(plan: tuple[Level, ...], size: Box, pool: int, dtype: torch.dtype, device: torch.device) -> Prepared:
    """Everything about a plan that does not depend on values, for coefficients of this size."""
    steps = []
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
            parts = ((a, analysis_matrix(level.grid[a] // pool, level.writes[a], dtype, device)) for a in order)
            rims.append((_slices(block), tuple((a, m[slice(*block[a])]) for a, m in parts)))
        steps.append(Step(_slices(rim(level.reads, None)[0]), tuple(synthesis), level.grid, tuple(rims)))
        writes = level.writes
    members = functools.reduce(lambda a, b: (a[:, :, None] * b[:, None]).flatten(1), within).clone()
    members[:, 0] = 0
    accurate = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    inside_of = tuple(inside.to(device, accurate) for inside in within)
    return Prepared(tuple(steps), inside_of, members.to(device, accurate), rows.to(device, accurate))


class Rim(NamedTuple):
    """A block of the rim of a level."""

    place: tuple[slice, ...]
    shape: tuple[int, ...]
    analysis: tuple[Product, ...]
    adjoint: Block


class Work(NamedTuple):
    """A level as products of certain shapes, ``(S, ..., q)``."""

    read: tuple[slice, ...]
    shares: int
    coefficients: tuple[int, ...]
    samples: tuple[int, ...]
    pooled: tuple[int, ...]
    synthesis: tuple[Product, ...]
    adjoint: tuple[Product, ...]
    rims: tuple[Rim, ...]


def works(
    plan: tuple[Level, ...], size: Box, pool: int, dtype: torch.dtype, device: torch.device, columns: int
) -> tuple[Work, ...]:
    """The products of every level, for a piece of so many images and channels."""
    counts = tuple(share_count(columns, math.prod(level.grid), device) for level in plan)
    return _works(plan, size, pool, dtype, device, columns, counts)


@forgotten_with_constants
@functools.lru_cache(256)
def _works(
    plan: tuple[Level, ...],
    size: Box,
    pool: int,
    dtype: torch.dtype,
    device: torch.device,
    columns: int,
    counts: tuple[int, ...],
) -> tuple[Work, ...]:
    output = []
    for step, count in zip(prepare(plan, size, pool, dtype, device).steps, counts, strict=True):
        q = columns // count
        coefficients = (count, *(matrix.shape[1] for matrix in step.synthesis), q)
        synthesis, samples = chain(list(enumerate(step.synthesis)), coefficients)
        back = [(axis, matrix.mT) for axis, matrix in enumerate(step.synthesis)]
        adjoint, _ = chain(back[::-1], samples)
        pooled = (count, *(n // pool for n in step.shape), q)
        rims: list[Rim] = []
        for place, rows in step.rims:
            analysis, shape = chain(rows, pooled)
            back = [(axis, matrix.mT) for axis, matrix in rows]
            adjoint_block = Block((ALL, *place), shape, chain(back[::-1], shape)[0], bool(rims))
            rims.append(Rim((ALL, *place), shape, analysis, adjoint_block))
        read = (ALL, *step.read)
        output.append(Work(read, count, coefficients, samples, pooled, synthesis, adjoint, tuple(rims)))
    return tuple(output)


def _slices(block: Span) -> tuple[slice, ...]:
    return tuple(slice(*span) for span in block)
