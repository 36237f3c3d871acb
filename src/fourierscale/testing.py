"""Check that something commutes with downscaling, or says the same of every level. Works on any callable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from fourierscale.functional.bands import Boundary, Size, as_size
from fourierscale.functional.resample import Kind, crop, downscale

__all__ = [
    "TOLERANCE",
    "assert_scale_consistent",
    "assert_scale_equivariant",
    "consistency_error",
    "equivariance_error",
    "relative_error",
]

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
    large = function(x)
    errors = {(size := as_size(r)): _error(function, x, large, size, domain, kind, boundary) for r in resolutions}
    name = name or getattr(function, "__name__", type(function).__name__)
    return _largest(errors, x, tolerance, f"{name} is not scale-equivariant")


def consistency_error(
    net: Callable[[Tensor], Any], x: Tensor, resolution: Size, *, kind: Kind = "ideal", boundary: Boundary = "circular"
) -> float:
    r"""How far what is said of an image, level by level, is from what the downscaled image is told.

    With :math:`f_k` for what is said of level ``k``, coarse to fine, the largest over the levels that the downscaled
    image has of

    .. math:: \frac{\lVert f_k(\mathcal D_r x) - f_k(x) \rVert^2}{\lVert f_k(\mathcal D_r x) \rVert^2}

    Args:
        net: Images to one answer for each level: a list, a tensor ``(B, levels, ...)``, or what has a ``per_level``
            that gives such a list, as :class:`fourierscale.nn.NestedModel`. A tensor ``(B, n)`` is one level.
        x: Images ``(B, C, n_1, ..., n_d)``.
        resolution: Grid ``r`` to downscale to; an int means a square two-dimensional grid.
        kind: How images are downscaled.
        boundary: What lies beyond the edge of the images that are downscaled.

    >>> from torch import nn
    >>> net = nn.Sequential(nn.Flatten(2), nn.AdaptiveMaxPool1d(1), nn.Flatten())
    >>> consistency_error(net, torch.rand(1, 3, 16, 16), 8) > 1e-5
    True
    """
    return _inconsistency(net, x, _levels_of(net, x), as_size(resolution), kind, boundary)


def assert_scale_consistent(
    net: Callable[[Tensor], Any],
    x: Tensor,
    resolutions: Iterable[Size],
    *,
    kind: Kind = "ideal",
    boundary: Boundary = "circular",
    tolerance: float | None = None,
    name: str | None = None,
) -> float:
    """Assert that what is said of an image, level by level, is what each downscaled image is told.

    Returns the largest error; the message names the net, the sizes and the errors. A classifier with one answer for an
    image of any size is rejected, unless it says the same of all of them.

    Args:
        net: Images to one answer for each level; see :func:`consistency_error`.
        x: Images ``(B, C, n_1, ..., n_d)``.
        resolutions: Grids to downscale to.
        kind: How images are downscaled.
        boundary: What lies beyond the edge of the images that are downscaled.
        tolerance: Largest relative squared error; default from :data:`TOLERANCE` for the dtype of ``x``.
        name: What to call the net in the message.

    >>> from torch import nn
    >>> from fourierscale.nn import NestedModel
    >>> classifier = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    >>> net = NestedModel(classifier, levels=(16, 24, 32))
    >>> assert_scale_consistent(net, torch.rand(1, 3, 32, 32), [16, 24]) < 1e-11
    True
    """
    large = _levels_of(net, x)
    errors = {(size := as_size(r)): _inconsistency(net, x, large, size, kind, boundary) for r in resolutions}
    return _largest(errors, x, tolerance, f"{name or type(net).__name__} is not scale-consistent")


def _levels_of(net: Callable[[Tensor], Any], x: Tensor) -> list[list[Tensor]]:
    """The tensors that a net says of each level, coarse to fine."""
    per_level = getattr(net, "per_level", None)
    said = net(x) if per_level is None else per_level(x)
    if isinstance(said, Tensor):
        said = said.unbind(1) if said.ndim > 2 else [said]
    return [[leaf for leaf in tree_leaves(level) if isinstance(leaf, Tensor)] for level in said]


def _inconsistency(
    net: Callable[[Tensor], Any],
    x: Tensor,
    large: list[list[Tensor]],
    size: tuple[int, ...],
    kind: Kind,
    boundary: Boundary,
) -> float:
    """:func:`consistency_error` with what is said of ``x`` already there."""
    small = _levels_of(net, downscale(x, size, kind, boundary=boundary))
    shapes = [[[tensor.shape for tensor in level] for level in levels] for levels in (large[: len(small)], small)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"the levels of the image downscaled to {size} are {_shown(shapes[1])}, the first of the image itself "
            f"{_shown(shapes[0])}: expected one answer for each level, coarse to fine, of shapes that the level decides"
        )
    pairs = [pair for levels in zip(large, small, strict=False) for pair in zip(*levels, strict=True)]
    errors = [relative_error(value, expected) for value, expected in pairs]
    return max(errors, key=lambda error: float("inf") if error != error else error)


def _shown(shapes: list[list[torch.Size]]) -> str:
    return str([[tuple(shape) for shape in level] for level in shapes])


def _largest(errors: dict[tuple[int, ...], float], x: Tensor, tolerance: float | None, claim: str) -> float:
    """The largest of the errors by resolution; refused if one is above rounding."""
    if not errors:
        raise ValueError("no resolution was given to check")
    limit = TOLERANCE[x.dtype] if tolerance is None else tolerance
    failed = {size: error for size, error in errors.items() if not error <= limit}
    if failed:
        shown = ", ".join(f"{'x'.join(map(str, size))}: {error:.1e}" for size, error in list(failed.items())[:6])
        more = f" and {len(failed) - 6} more" if len(failed) > 6 else ""
        raise AssertionError(
            f"{claim} on {x.dtype} input of shape {tuple(x.shape)}: relative squared error "
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
