"""What a nested activation has to do, and by which route: decided here, once, before the operator is called."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.levels import Levels
from fourierscale.functional.nested import Grid, Level, Pooling, plan_levels
from fourierscale.functional.norms import InstanceNorm, LevelAffine
from fourierscale.kernels.choice import COMMON_GRID, OWN_GRID, fits_tiles, implementation
from fourierscale.kernels.layout import is_chain
from fourierscale.kernels.nested.activations import ACTIVATIONS
from fourierscale.kernels.products import by_products

Route: TypeAlias = Literal["specification", "plain", "products", "level grids", "common grid"]
"""The specification, plain operators, matrix products, or fused kernels with grids of the levels' own or with one."""


class Plan(NamedTuple):
    """The levels of an input, and what a route asks about them."""

    levels: tuple[Level, ...]
    text: str
    """The levels as :func:`decode` reads them."""
    is_chain: bool
    """Whether every level holds the one before it."""
    is_common: bool
    """Whether all levels have the same grid."""
    longest: int
    """Samples of the longest axis of a grid."""
    side: int
    """Side of the tiles that fused kernels need; on a common grid, lines of coefficients begin with a line of zeros."""


@functools.lru_cache(4096)
def make_plan(levels: Levels, box: Box, window: int, grid: Grid, oversample: float) -> Plan:
    """The levels of an input of band ``box``; see :func:`fourierscale.functional.plan_levels`."""
    plan = tuple(plan_levels(levels, box, pool=window, grid=grid, oversample=oversample))
    is_common = len({level.grid for level in plan}) == 1
    longest = max(n for level in plan for n in level.grid)
    side = max(longest, *(is_common + n for level in plan for n in grids(level.reads)))
    text = repr([(level.index, level.reads, level.writes, level.grid) for level in plan])
    return Plan(plan, text, is_chain(level.writes for level in plan), is_common, longest, side)


def choose_route(x: Tensor, plan: Plan, activation: str | None, window: int, affine: bool = False) -> Route:
    """How an activation, by its name in the table, runs on coefficients ``(..., C, n_1, ..., n_d)``.

    ``affine``: whether a scale and a shift stand in front of it, which fused kernels do not have.
    """
    axes = len(plan.levels[0].grid)
    if activation is None or x.ndim <= axes or not plan.is_chain or not by_products(plan.longest, x):
        return "specification"
    entry, image = ACTIVATIONS[activation], axes == 2
    limit, widest = (COMMON_GRID, 2) if plan.is_common else (OWN_GRID, 1)
    fused = image and not affine and entry.triton is not None and window <= widest and fits_tiles(x, plan.side, limit)
    engine = implementation(x, fused=fused, plain=image)
    if engine == "plain":
        return "plain"
    if engine == "torch" or entry.backward is None:
        return "specification"
    if engine == "gemm":
        return "products"
    return "common grid" if plan.is_common else "level grids"


@dataclass(frozen=True, eq=False)
class Task:
    """A nested activation but for its tensors. Constants are kept for a task by its identity."""

    route: Route
    activation: str
    eps: float | None
    """Added to the variance of an instance norm; None where there is none."""
    pool: Pooling
    levels: tuple[Level, ...]
    affine: bool = False
    """Whether there is a scale and a shift per level and channel instead."""

    @functools.cached_property
    def one_grid(self) -> bool:
        """Whether all levels have the same grid."""
        return len({level.grid for level in self.levels}) == 1

    @property
    def norm(self) -> bool:
        """Whether there is an instance norm."""
        return self.eps is not None


def encode(route: Route, activation: str, norm: InstanceNorm | LevelAffine | None, pool: Pooling, plan: Plan) -> str:
    """A task as the text that an operator of torch takes."""
    eps, affine = (norm.eps if isinstance(norm, InstanceNorm) else None), isinstance(norm, LevelAffine)
    return f"({route!r}, {activation!r}, {eps!r}, {affine!r}, {pool.window!r}, {pool.kind!r}, {plan.text})"


@functools.lru_cache(1024)
def decode(text: str) -> Task:
    """Undo :func:`encode`; the same text gives the same task."""
    route, activation, eps, affine, window, kind, levels = ast.literal_eval(text)
    return Task(route, activation, eps, Pooling(window, kind), tuple(Level(*level) for level in levels), affine)
