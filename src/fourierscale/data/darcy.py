r"""Solutions of Darcy's equation on the unit square, made here: permeability of the ground and pressure in it.

.. math:: -\nabla \cdot (a \nabla p) = 1, \qquad p = 0 \text{ on the border}

Finite volumes on the cells of the grid, with harmonic means of the permeability between cells, solved by conjugate
gradients behind a fast solver of the equation with constant permeability, all fields of a batch at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fourierscale.functional import band, synthesize
from fourierscale.functional.bands import frequencies

__all__ = ["random_permeability", "solve_darcy"]

LOW, HIGH = 3.0, 12.0


def random_permeability(count: int, size: int, generator: torch.Generator) -> Tensor:
    r"""Ground of two kinds, ``(count, size, size)``: 12 where a smooth random field is positive, 3 elsewhere.

    Coefficients of the field, of cosines alone, are independent and normal with standard deviation
    :math:`(\pi^2 |k|^2 + 9)^{-1}`; the mean is zero.

    >>> random_permeability(1, 8, torch.Generator().manual_seed(0)).unique()
    tensor([ 3., 12.], dtype=torch.float64)
    """
    length = 2 * band(size, "mirror") + 1
    k = frequencies(length, torch.float64, torch.device("cpu"))
    coeffs = torch.randn(count, length, length, generator=generator, dtype=torch.float64)
    coeffs = coeffs / (math.pi**2 * (k[:, None] ** 2 + k[None, :] ** 2) + 9)
    coeffs[:, 2::2], coeffs[:, :, 2::2] = 0, 0  # no sines: the field is its own mirror image at the border
    coeffs[:, 0, 0] = 0
    field = synthesize(coeffs, (size, size), "mirror")
    return torch.where(field > 0, HIGH, LOW).double()


def solve_darcy(permeability: Tensor, source: float | Tensor = 1.0, *, tolerance: float = 1e-10) -> Tensor:
    """The pressure at the centres of the cells.

    Args:
        permeability: ``(..., n, n)``, above 0.
        source: Of fluid, for each cell or one for all.
        tolerance: Largest residual, relative to the source.

    >>> solve_darcy(torch.ones(8, 8)).shape
    torch.Size([8, 8])
    """
    if permeability.ndim < 2 or permeability.shape[-1] != permeability.shape[-2]:
        raise ValueError(f"expected a square grid (..., n, n), got shape {tuple(permeability.shape)}")
    if not bool((permeability > 0).all()):
        raise ValueError("expected a permeability above 0 everywhere: the equation has no solution elsewhere")
    a = permeability.double()
    n = a.shape[-1]
    down, across = _between(a, -2), _between(a, -1)
    right = torch.as_tensor(source, dtype=torch.float64).expand_as(a) / n**2
    solver = _Constant(n)
    p = torch.zeros_like(a)
    residual = right.clone()
    direction = z = solver(residual)
    energy = _dot(residual, z)
    goal = tolerance * right.square().sum((-2, -1)).sqrt()
    for _ in range(20 * n):
        if bool((residual.square().sum((-2, -1)).sqrt() <= goal).all()):
            return p.to(permeability.dtype)
        flow = _outflow(direction, down, across)
        length = energy / _dot(direction, flow).clamp(min=torch.finfo(torch.float64).tiny)
        p, residual = p + length * direction, residual - length * flow
        z = solver(residual)
        before, energy = energy, _dot(residual, z)
        direction = z + energy / before.clamp(min=torch.finfo(torch.float64).tiny) * direction
    raise ArithmeticError(f"no solution within {tolerance:g}: the permeability varies too much, coarsen or smooth it")


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((-2, -1), keepdim=True)


def _between(a: Tensor, axis: int) -> Tensor:
    """Conductance of every wall along an axis, the two of the border (half a cell away) among them."""
    n = a.shape[axis]
    first, last = a.narrow(axis, 0, n - 1), a.narrow(axis, 1, n - 1)
    return torch.cat([2 * a.narrow(axis, 0, 1), 2 * first * last / (first + last), 2 * a.narrow(axis, n - 1, 1)], axis)


def _outflow(p: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """What leaves each cell at this pressure, which is 0 beyond the border."""
    total = torch.zeros_like(p)
    for axis, conductance in ((-2, down), (-1, across)):
        border = torch.zeros_like(p.narrow(axis, 0, 1))
        flow = -conductance * torch.cat([border, p, border], axis).diff(dim=axis)
        total = total + flow.diff(dim=axis)
    return total


class _Constant:
    """The equation with permeability 1, solved in the sines that are its eigenvectors."""

    def __init__(self, n: int) -> None:
        j, k = torch.arange(n, dtype=torch.float64), torch.arange(1, n + 1, dtype=torch.float64)
        waves = (math.pi / n * torch.outer(k, j + 0.5)).sin()
        self.waves = waves / waves.norm(dim=1, keepdim=True)
        eigenvalues = 4 * (math.pi * k / (2 * n)).sin() ** 2
        self.eigenvalues = eigenvalues[:, None] + eigenvalues[None, :]

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.waves.mT @ ((self.waves @ x @ self.waves.mT) / self.eigenvalues) @ self.waves
        return y
