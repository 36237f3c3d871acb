"""What the pooling of the head has to do, as the text that an operator of torch takes."""

from __future__ import annotations

import ast
import functools
from typing import NamedTuple

from fourierscale.functional.bands import Boundary, Box
from fourierscale.functional.nested import PoolKind


class PoolTask(NamedTuple):
    """The pooling of the head but for its tensors."""

    engine: str
    """``"gemm"`` or ``"triton"``."""
    boxes: tuple[Box, ...]
    """The bands of the levels."""
    window: int
    """Samples per window and axis."""
    cells: int
    """Windows per axis."""
    kind: PoolKind = "max"
    boundary: Boundary = "circular"
    places: bool = True
    """Whether the places of the maxima are wanted, for the backward pass."""

    @property
    def samples(self) -> int:
        """Samples per axis of the grid."""
        return self.window * self.cells


@functools.lru_cache(1024)
def decode(text: str) -> PoolTask:
    """A task from its fields, written as a tuple."""
    return PoolTask(*ast.literal_eval(text))
