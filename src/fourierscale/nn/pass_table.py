"""What the passes of a nested model cost, in passes of the highest level."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fourierscale.functional.bands import Box
from fourierscale.nn.level_outputs import LevelPass

__all__ = ["PassRow", "PassTable", "table_of_passes"]


@dataclass(frozen=True)
class PassRow:
    """One pass of a model.

    Attributes:
        level: Size of the images of this level.
        grid: Samples per axis that the model is given.
        share: Its work, as a share of that of the highest level: a convolution's grows with the number of samples.
        answers: Whether ``net(x)`` needs it. A vector is that of the highest level alone, and of levels that write one
            band the coarsest runs.
    """

    level: Box
    grid: Box
    share: float
    answers: bool


@dataclass(frozen=True)
class PassTable:
    """The passes of a model for images of one size, coarse to fine; ``print`` shows a table.

    Attributes:
        rows: The passes.
    """

    rows: tuple[PassRow, ...]

    @property
    def answer(self) -> float:
        """Work of ``net(x)`` in passes of the highest level."""
        return sum(row.share for row in self.rows if row.answers)

    @property
    def every_level(self) -> float:
        """Work of all levels, as of ``net.per_level(x)`` for vectors, in passes of the highest level."""
        return sum(row.share for row in self.rows)

    def __str__(self) -> str:
        """The table, and the sum below it."""
        cells = [("level", "grid", "passes")]
        cells += [(_shown(row.level), _shown(row.grid), f"{row.share:.2f}") for row in self.rows]
        first, second, third = (max(map(len, column)) for column in zip(*cells, strict=True))
        lines = [f"{level:{first}}  {grid:{second}}  {share:>{third}}" for level, grid, share in cells]
        told = f"{self.answer:.2f} passes of the highest level"
        if self.answer < self.every_level:
            told += f" for the answer, {self.every_level:.2f} for every level"
        return "\n".join([*lines, told])


def table_of_passes(passes: Sequence[LevelPass], sides: Sequence[Box], needed: Collection[int]) -> PassTable:
    """The table of some passes.

    Args:
        passes: Coarse to fine.
        sides: Size of the images of each level.
        needed: Numbers of the passes without which there is no answer.
    """
    top = math.prod(passes[-1].grid)
    return PassTable(
        tuple(
            PassRow(tuple(side), one.grid, math.prod(one.grid) / top, number in needed)
            for number, (one, side) in enumerate(zip(passes, sides, strict=True))
        )
    )


def _shown(size: Box) -> str:
    return " x ".join(map(str, size))
