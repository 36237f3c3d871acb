"""How features lie while operators work on them: frequency first, rims in blocks, in a precision of their own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids

Span: TypeAlias = tuple[tuple[int, int], ...]
"""First and last-plus-one coefficient per axis."""


def frequency_first(coeffs: Tensor, axes: int) -> Tensor:
    """``(..., C, n_1, ..., n_d)`` as contiguous ``(n_1, ..., n_d, B, C)``: no copy if it is stored like that."""
    lead = coeffs.shape[: -axes - 1]
    moved = coeffs.permute(*range(coeffs.ndim - axes, coeffs.ndim), *range(coeffs.ndim - axes))
    return moved.reshape(*coeffs.shape[-axes:], math.prod(lead), coeffs.shape[-axes - 1]).contiguous()


def channel_first(x: Tensor, lead: Sequence[int]) -> Tensor:
    """``(n_1, ..., n_d, B, C)`` as a view ``(..., C, n_1, ..., n_d)``."""
    axes = x.ndim - 2
    x = x.reshape(*x.shape[:axes], *lead, x.shape[-1])
    return x.permute(*range(axes, x.ndim), *range(axes))


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


def is_chain(boxes: Iterable[Box]) -> bool:
    """Whether every band holds the one before it; only then is each rim the difference of two boxes."""
    return all(a <= b for low, high in itertools.pairwise(boxes) for a, b in zip(low, high, strict=True))


class NoAutocast:
    """Operators choose their precision themselves; gives the type that features have here."""

    def __init__(self, x: Tensor) -> None:
        kind = x.device.type
        known = kind in ("cpu", "cuda", "mps", "xpu")  # the meta device has no autocast
        self.active = known and torch.is_autocast_enabled(kind) and x.dtype is not torch.float64
        self.dtype = torch.get_autocast_dtype(kind) if self.active else x.dtype
        self.off = torch.autocast(kind, enabled=False) if self.active else None

    def __enter__(self) -> torch.dtype:
        if self.off is not None:
            self.off.__enter__()  # type: ignore[no-untyped-call]
        return self.dtype

    def __exit__(self, *error: object) -> None:
        if self.off is not None:
            self.off.__exit__(*error)
