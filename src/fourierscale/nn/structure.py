"""Putting layers together: the door and the exit of a net, dropout, residual connections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fourierscale import functional as F
from fourierscale.functional.bands import (
    Boundary,
    Box,
    Size,
    as_size,
    axis_bands,
    check_boundary,
    coefficient_bands,
    grids,
)
from fourierscale.functional.resample import corner
from fourierscale.functional.transform import widened
from fourierscale.nn.checks import positive


class ToCoefficients(nn.Module):
    """The door: images ``(..., n_1, ..., n_d)`` to coefficients. See :func:`fourierscale.functional.analyze`.

    It analyses in double precision and gives coefficients in the precision of the images.

    Args:
        axes: Number of spatial axes.
        boundary: What lies beyond the image's edge, ``"circular"``, ``"mirror"`` or ``"canvas"``. Layers behind the
            door work at the resolutions ``Levels(resolutions).periods(boundary)``.
    """

    def __init__(self, axes: int = 2, boundary: Boundary = "circular") -> None:
        super().__init__()
        self.axes = positive(axes, "axes")
        self.boundary = check_boundary(boundary)

    def forward(self, x: Tensor) -> Tensor:
        """Analyze the last ``axes`` axes."""
        return F.analyze(widened(x), self.axes, boundary=self.boundary).to(x.dtype)

    def extra_repr(self) -> str:
        """Number of axes and boundary."""
        return f"axes={self.axes}, boundary={self.boundary!r}"


class ToImage(nn.Module):
    """The exit: coefficients to images. See :func:`fourierscale.functional.synthesize`.

    Args:
        size: Grid of the images; default: the smallest grid that holds the band, ``2K+1`` per axis (``"mirror"``:
            ``K+1``).
        axes: Number of spatial axes.
        boundary: That of the door.
    """

    def __init__(self, size: Size | None = None, axes: int = 2, boundary: Boundary = "circular") -> None:
        super().__init__()
        self.boundary = check_boundary(boundary)
        self.size = None if size is None else as_size(size)
        self.axes = positive(axes, "axes") if self.size is None else len(self.size)

    def forward(self, coeffs: Tensor) -> Tensor:
        """Synthesize on the grid of this module."""
        size = self.size
        if size is None:
            size = tuple(F.grid(k, self.boundary) for k in coefficient_bands(coeffs, self.axes))
        return F.synthesize(coeffs, size, self.boundary)

    def extra_repr(self) -> str:
        """Grid of the images and boundary."""
        return f"size={self.size}, axes={self.axes}, boundary={self.boundary!r}"


class ScaleEquivariant(nn.Module):
    """A block that takes coefficients, made to take and give images: analysis at the door, synthesis at the exit.

    Put it into an ordinary image network like any other block. ``downscale(block(x), m) == block(downscale(x, m))``
    for every resolution ``m`` of the layers inside.

    Args:
        module: Maps coefficients to coefficients.
        pool: How much the module pools in all; an image of ``n`` samples becomes one of ``ceil(n / pool)``.
        axes: Number of spatial axes; that of the layers inside if not given, 2 if none of them tells.
        boundary: What lies beyond the image's edge; see :class:`ToCoefficients`. With ``"mirror"`` the promise is about
            coefficients: a filter that is not symmetric gives no mirror image, and the pixels of one half do not
            determine the other.

    >>> from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d
    >>> layers = LocalFourierConv2d(3, 8, 5, reference_size=32), ScaleActivation2d(8, range(8, 33))
    >>> ScaleEquivariant(nn.Sequential(*layers))(torch.randn(1, 3, 24, 24)).shape
    torch.Size([1, 8, 24, 24])
    """

    def __init__(
        self, module: nn.Module, pool: int = 1, axes: int | None = None, boundary: Boundary = "circular"
    ) -> None:
        super().__init__()
        self.door = ToCoefficients(_axes_of(module) if axes is None else axes, boundary)
        self.module = module
        self.pool = positive(pool, "pool")
        self.axes, self.boundary = self.door.axes, self.door.boundary

    def forward(self, x: Tensor) -> Tensor:
        """Images in, images out."""
        coeffs = self.module(self.door(x))
        size = tuple(-(-n // self.pool) for n in x.shape[-self.axes :])
        if tuple(coeffs.shape[-self.axes :]) != grids(axis_bands(size, self.boundary)):
            raise ValueError(
                f"the module turned an image of size {tuple(x.shape[-self.axes :])} into coefficients of shape "
                f"{tuple(coeffs.shape)}, which is not a pooling by {self.pool}: set pool to what the module pools"
            )
        return F.synthesize(coeffs, size, self.boundary)

    def extra_repr(self) -> str:
        """How much the module pools."""
        return f"pool={self.pool}"


def _axes_of(module: nn.Module) -> int:
    """Number of axes of the layers inside: of those whose class has a number of axes, such as LocalFourierConv1d."""
    told = {axes for part in module.modules() if isinstance(axes := getattr(type(part), "axes", None), int)}
    if len(told) > 1:
        raise ValueError(f"the layers inside have {' and '.join(map(str, sorted(told)))} axes: take layers of one kind")
    return told.pop() if told else 2


class ScaleDropout(nn.Module):
    """Dropout of whole channels, so that it commutes with cropping: one mask for every frequency.

    Args:
        p: Probability that a channel is dropped; the others are divided by ``1 - p``.
        axes: Number of spatial axes.
    """

    def __init__(self, p: float = 0.5, axes: int = 2) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p must be between 0 and 1, got {p}")
        self.p = p
        self.axes = positive(axes, "axes")

    def forward(self, coeffs: Tensor) -> Tensor:
        """Drop channels while training, pass the input otherwise."""
        if not self.training or self.p == 0:
            return coeffs
        shape = (*coeffs.shape[: -self.axes], *(1,) * self.axes)
        return coeffs * nn.functional.dropout(torch.ones(shape, dtype=coeffs.dtype, device=coeffs.device), self.p)

    def extra_repr(self) -> str:
        """Probability and number of axes."""
        return f"p={self.p}, axes={self.axes}"


class ScaleResidual(nn.Module):
    """``body(x) + shortcut(x)``; where the body pools, the shortcut is cropped to the body's band.

    Cropping is ideal downscaling, so the sum is as equivariant as the body. Where the number of channels changes,
    pass a shortcut that changes it too, for example ``LocalFourierConv2d(in, out, 1, reference_size)``.

    Args:
        body: Coefficients to coefficients.
        shortcut: The other path; default: the input itself.
        axes: Number of spatial axes.
    """

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, axes: int = 2) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.axes = positive(axes, "axes")

    def forward(self, coeffs: Tensor) -> Tensor:
        """The sum of both paths, at the body's band."""
        body = self.body(coeffs)
        other = coeffs if self.shortcut is None else self.shortcut(coeffs)
        box: Box = axis_bands(body.shape[-self.axes :])
        if other.shape[-self.axes - 1] != body.shape[-self.axes - 1]:
            raise ValueError(
                f"the body gives {body.shape[-self.axes - 1]} channels, the shortcut {other.shape[-self.axes - 1]}: "
                "pass a shortcut with as many, for example a LocalFourierConv with kernel_size 1"
            )
        summed: Tensor = body + other[corner(box)]
        return summed

    def extra_repr(self) -> str:
        """Number of axes."""
        return f"axes={self.axes}"
