"""What every layer checks of its arguments and inputs."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from fourierscale.functional.bands import Box, coefficient_bands


def per_axis(value: int | Sequence[int], axes: int, name: str) -> Box:
    """One positive int per axis; an int counts for every axis."""
    box = (value,) * axes if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else ()
    if len(box) != axes or not all(isinstance(n, int) and 1 <= n < 2**31 for n in box):
        raise ValueError(f"{name} must be a positive int or {axes} of them, got {reprlib.repr(value)}")
    return box


def positive(value: int, name: str) -> int:
    """A positive int, such as a number of channels."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive int, got {value!r}")
    return value


def choice(value: str, options: Any, name: str) -> None:
    """One of the named options."""
    if value not in options:
        raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(options)}")


def check_coefficients(coeffs: Tensor, axes: int, channels: int | None, layer: str) -> Box:
    """Bands of ``coeffs``, after checking that they are what ``layer`` takes: ``(..., channels, frequencies...)``."""
    expected = f"(..., {channels or 'C'}, {', '.join(f'2K_{i}+1' for i in range(1, axes + 1))})"
    if coeffs.ndim < axes + 1:
        raise ValueError(
            f"{layer} takes coefficients {expected}, got shape {tuple(coeffs.shape)}: add the missing axes"
        )
    box = coefficient_bands(coeffs, axes, f"the input of {layer}")
    if channels is not None and coeffs.shape[-axes - 1] != channels:
        raise ValueError(
            f"{layer} takes {channels} channels, got {coeffs.shape[-axes - 1]} in shape {tuple(coeffs.shape)}: "
            f"expected {expected}"
        )
    return box


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a wrong name: the nearest known one, or all of them.

    >>> nearest("wrap", ["shift", "warp"])
    "did you mean 'warp'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
