"""What every layer checks of its arguments and inputs."""

from __future__ import annotations

import difflib
import reprlib
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, coefficient_bands

INSIDE = ("fourierscale.nn", "torch.")


def per_axis(value: int | Sequence[int], axes: int, name: str) -> Box:
    """One positive int per axis; an int counts for every axis."""
    box = (value,) * axes if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else ()
    if len(box) != axes or not all(isinstance(n, int) and 1 <= n < 2**31 for n in box):
        raise ValueError(f"{name} must be a positive int or {axes} of them, got {reprlib.repr(value)}")
    return box


def positive(value: int, name: str) -> int:
    """A positive int, such as a number of channels."""
    if not isinstance(value, int) or not 1 <= value < 2**31:
        raise ValueError(f"{name} must be a positive int, got {reprlib.repr(value)}")
    return value


def choice(value: str, options: Any, name: str) -> None:
    """One of the named options."""
    if value not in options:
        raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(options)}")


def warn_caller(text: str) -> None:
    """Warn of a line outside this package and torch: the one that the reader wrote."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, stacklevel=depth)


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


def check_images(x: Tensor, channels: int, axes: int, dtype: torch.dtype) -> None:
    """Refuse what a net does not take for images ``(B, C, n_1, ..., n_d)`` of its type, with what to do instead.

    >>> check_images(torch.zeros(9, 9), 1, 2, torch.float32)
    Traceback (most recent call last):
    ...
    ValueError: expected images of shape (batch, 1, height, width), got (9, 9): add a batch and a channel axis, ...
    """
    names = {1: "length", 2: "height, width", 3: "depth, height, width"}.get(axes, "...")
    if not isinstance(x, Tensor):
        raise TypeError(
            f"expected images as a tensor (batch, {channels}, {names}), got {type(x).__name__}: "
            "fourierscale.Classifier takes files, pictures and arrays"
        )
    shape = tuple(x.shape)
    if x.ndim != axes + 2 or shape[1] != channels:
        remedy = "convert them to RGB" if channels == 3 else f"give {channels} channel(s)"
        if x.ndim == axes + 1 and shape[0] == channels:
            remedy = "add a batch axis, x[None]"
        elif x.ndim == axes and channels == 1:
            remedy = "add a batch and a channel axis, x[None, None]"
        elif x.ndim == axes + 2 and shape[-1] == channels:
            order = ", ".join(map(str, (0, axes + 1, *range(1, axes + 1))))
            remedy = f"channels go first, x.permute({order})"
        raise ValueError(f"expected images of shape (batch, {channels}, {names}), got {shape}: {remedy}")
    if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        cast = {torch.float32: "x.float()", torch.float64: "x.double()", torch.float16: "x.half()"}
        remedy = cast.get(dtype, f"x.to({dtype})") if x.is_floating_point() else f"{cast.get(dtype, 'x.float()')} / 255"
        raise TypeError(f"expected images of the net's type {dtype}, got {x.dtype}: give {remedy}")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a wrong name: the nearest known one, or all of them.

    >>> nearest("wrap", ["shift", "warp"])
    "did you mean 'warp'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
