r"""Hermite-Gauss functions, the steerable basis of SESN's kernels (Sosnovik, Szmaja and Smeulders, ICLR 2020).

A kernel at scale :math:`s` is the same combination of the same functions, stretched by :math:`s`: the formula is
sampled anew for each scale, nothing is interpolated.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.lab.baselines.parts.buffers import fixed
from fourierscale.nn.checks import choice, positive

__all__ = ["HermiteKind", "divide_by_smallest", "hermite_basis", "hermite_functions"]

HermiteKind: TypeAlias = Literal["A", "B"]
"""Which orders and widths make up a basis; see :func:`hermite_functions`."""


def hermite_functions(
    size: int, sigma: float, count: int, kind: HermiteKind = "A", mult: float = 1.5, max_order: int = 4
) -> Tensor:
    r"""The first functions of a Hermite-Gauss basis, sampled on a centred grid of whole steps.

    .. math:: \psi_{ab}(u, v) = \frac{1}{\sigma^2} He_a(u / \sigma) He_b(v / \sigma) e^{-(u^2 + v^2) / 2 \sigma^2}

    with the probabilists' Hermite polynomials :math:`He`. Basis A has every pair of orders below
    :math:`\sqrt{\mathrm{count}}`, at one width. Basis B has every pair with :math:`a + b \le` ``max_order``, and again
    at widths :math:`\sigma / \mathrm{mult}, \sigma / \mathrm{mult}^2, \dots` until there are enough.

    Args:
        size: Odd side of the grid.
        sigma: Width of the Gaussian in samples.
        count: How many functions; a square number for basis A.
        kind: ``"A"`` or ``"B"``.
        mult: Factor by which each further width of basis B is smaller.
        max_order: Highest total order of basis B.

    Returns:
        ``(count, size, size)`` in double precision.

    >>> hermite_functions(5, 1.0, 9).shape
    torch.Size([9, 5, 5])
    """
    choice(kind, get_args(HermiteKind), "Hermite basis")
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a kernel is centred on a sample, so its size must be odd, got {size}")
    if sigma <= 0 or mult <= 0:
        raise ValueError(f"sigma and mult must be positive, got {sigma} and {mult}")
    positive(count, "count")
    if kind == "A":
        side = math.isqrt(count)
        if side**2 != count:
            raise ValueError(f"basis A has a square number of functions, got {count}: use basis B for any number")
        members = [(sigma, a, b) for b in range(side) for a in range(side)]
    else:
        orders = [(a, b) for b in range(max_order + 1) for a in range(max_order + 1 - b)]
        widths = [sigma / mult**n for n in range(-(-count // len(orders)))]
        members = [(width, a, b) for width in widths for a, b in orders][:count]
    rows = torch.stack([_hermite_gauss(size, width, a) for width, a, _ in members])
    columns = torch.stack([_hermite_gauss(size, width, b) for width, _, b in members])
    return rows[:, :, None] * columns[:, None, :]


@fixed
def hermite_basis(
    size: int,
    scales: tuple[float, ...],
    count: int,
    kind: HermiteKind = "A",
    mult: float = 1.5,
    max_order: int = 4,
) -> Tensor:
    """The functions at every scale, each divided by the L2 norm that it has at the smallest scale.

    A function of scale ``s`` is sampled on ``floor(size * s / max(scales))`` points, made odd, and padded with zeros,
    so that each is cut off at the same multiple of its width.

    Args:
        size: Odd side of the kernels.
        scales: Widths, smallest first; :func:`hermite_functions` says what they are.
        count: How many functions.
        kind: ``"A"`` or ``"B"``.
        mult: Factor by which each further width of basis B is smaller.
        max_order: Highest total order of basis B.

    Returns:
        ``(count, scales, size, size)`` in double precision, made once: do not change it in place.

    >>> basis = hermite_basis(7, (0.9, 1.27, 1.79), 9)
    >>> basis.shape, round(basis[4, 0].square().sum().item(), 6)
    (torch.Size([9, 3, 7, 7]), 1.0)
    """
    if not scales or list(scales) != sorted(scales):
        raise ValueError(f"scales must be given smallest first, got {scales}")
    members = []
    for scale in scales:
        inner = int(size * scale / scales[-1]) // 2 * 2 + 1
        border = (size - inner) // 2
        functions = hermite_functions(inner, scale, count, kind, mult, max_order)
        members.append(torch.nn.functional.pad(functions, [border] * 4))
    return divide_by_smallest(torch.stack(members, 1))


def divide_by_smallest(basis: Tensor) -> Tensor:
    """Divide each function ``(count, scales, size, size)`` at all scales by its L2 norm at the first one."""
    return basis / basis[:, :1].square().sum((2, 3), keepdim=True).sqrt()


def _hermite_gauss(size: int, sigma: float, order: int) -> Tensor:
    """The factor of :func:`hermite_functions` along one axis."""
    u = (torch.arange(size, dtype=torch.float64) - size // 2) / sigma
    previous, polynomial = torch.zeros_like(u), torch.ones_like(u)
    for n in range(order):
        previous, polynomial = polynomial, u * polynomial - n * previous
    return polynomial * torch.exp(-u.square() / 2) / sigma
