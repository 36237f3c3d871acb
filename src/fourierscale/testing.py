"""Check that something commutes with downscaling. Works on any callable, not on this library's layers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.functional.bands import Boundary, Size, as_size
from fourierscale.functional.resample import Kind, crop, downscale

__all__ = ["TOLERANCE", "assert_scale_equivariant", "equivariance_error", "relative_error"]

TOLERANCE = {torch.float64: 1e-25, torch.float32: 1e-11, torch.bfloat16: 1e-3, torch.float16: 1e-5}
"""Largest relative squared error that still counts as equal, per dtype."""

Domain: TypeAlias = Literal["image", "coefficients"]
"""What a function takes and gives: samples on a grid, or real Fourier coefficients."""


def relative_error(value: Tensor, expected: Tensor) -> float:
    """Relative squared error ``|value - expected|^2 / |expected|^2``, summed in double precision."""
    value, expected = value.detach().double(), expected.detach().double()
    norm = expected.square().sum().clamp(min=torch.finfo(torch.float64).tiny)
    return float((value - expected).square().sum() / norm)


def equivariance_error(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    resolution: Size,
    *,
    domain: Domain = "image",
    kind: Kind = "ideal",
    boundary: Boundary = "circular",
) -> float:
    r"""How far ``function`` is from commuting with downscaling to one resolution (the paper's Equi-Err of one pair).

    .. math:: \frac{\lVert g(\mathcal D_r x) - \mathcal D_r g(x) \rVert^2}{\lVert g(\mathcal D_r x) \rVert^2}

    A function that pools gives a smaller output for the downscaled input; the other output is downscaled to that.

    Args:
        function: Images to images, or coefficients to coefficients.
        x: Input ``(..., n_1, ..., n_d)``.
        resolution: Grid ``r`` to downscale to; an int means a square two-dimensional grid.
        domain: ``"image"`` or ``"coefficients"``.
        kind: How images are downscaled.
        boundary: What lies beyond the edge of the images that are downscaled.

    >>> x = torch.rand(1, 1, 28, 28)
    >>> equivariance_error(torch.tanh, x, 14) > 1e-5
    True
    """
    return _error(function, x, function(x), as_size(resolution), domain, kind, boundary)


def assert_scale_equivariant(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    resolutions: Iterable[Size],
    *,
    domain: Domain = "image",
    kind: Kind = "ideal",
    boundary: Boundary = "circular",
    tolerance: float | None = None,
    name: str | None = None,
) -> float:
    """Assert that ``function`` commutes with downscaling to each resolution; returns the largest error.

    The message names the function, the sizes and the error, and lists every resolution that fails.

    Args:
        function: Images to images, or coefficients to coefficients.
        x: Input ``(..., n_1, ..., n_d)``.
        resolutions: Grids to downscale to.
        domain: ``"image"`` or ``"coefficients"``.
        kind: How images are downscaled.
        boundary: What lies beyond the edge of the images that are downscaled.
        tolerance: Largest relative squared error; default from :data:`TOLERANCE` for the dtype of ``x``.
        name: What to call the function in the message.

    >>> from fourierscale.nn import ScaleActivation2d, ScaleEquivariant
    >>> layer = ScaleEquivariant(ScaleActivation2d(1, range(8, 29)))
    >>> assert_scale_equivariant(layer, torch.rand(1, 1, 28, 28), [8, 15, 20]) < 1e-11
    True
    """
    limit = TOLERANCE[x.dtype] if tolerance is None else tolerance
    large = function(x)
    errors = {(size := as_size(r)): _error(function, x, large, size, domain, kind, boundary) for r in resolutions}
    if not errors:
        raise ValueError("no resolution was given to check")
    failed = {size: error for size, error in errors.items() if not error <= limit}
    if failed:
        name = name or getattr(function, "__name__", type(function).__name__)
        shown = ", ".join(f"{'x'.join(map(str, size))}: {error:.1e}" for size, error in list(failed.items())[:6])
        more = f" and {len(failed) - 6} more" if len(failed) > 6 else ""
        raise AssertionError(
            f"{name} is not scale-equivariant on {x.dtype} input of shape {tuple(x.shape)}: relative squared error "
            f"above {limit:.0e} at {len(failed)} of {len(errors)} resolutions ({shown}{more})"
        )
    return max(errors.values())


def _error(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    large: Tensor,
    size: tuple[int, ...],
    domain: Domain,
    kind: Kind,
    boundary: Boundary,
) -> float:
    """:func:`equivariance_error` with ``large = function(x)`` already there."""
    if domain not in get_args(Domain):
        raise ValueError(f"unknown domain {domain!r}: choose one of {', '.join(get_args(Domain))}")

    images = domain == "image"
    small = function(downscale(x, size, kind, boundary=boundary) if images else crop(x, size, boundary))
    to = tuple(small.shape[-len(size) :])
    if any(m > n for m, n in zip(to, large.shape[-len(size) :], strict=True)):
        raise ValueError(f"the output for resolution {size} is larger, {to}, than the one for the full input")
    return relative_error(downscale(large, to, kind, boundary=boundary) if images else crop(large, to), small)
