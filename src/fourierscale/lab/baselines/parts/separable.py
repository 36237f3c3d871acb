r"""Convolutions with kernels whose functions are products of two lines, :math:`\psi_{ab}(u, v) = r_a(u) \, c_b(v)`.

The kernel is never made. Rows are filtered by the few lines :math:`r_a`, channels are mixed, columns are filtered by
the lines :math:`c_b`, all of it matrix products:

.. math:: y[c'] = \sum_b c_b *_v \sum_{c, a} w_{c' c a b} \, (r_a *_u x[c])

For nine functions of 7 x 7 taps that is a fifth of the arithmetic of a convolution.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["each_times", "lines_of", "separable_conv2d", "times_each"]


def lines_of(basis: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rows and columns whose products the functions are; ``None`` if they are no such products.

    Args:
        basis: ``(functions, scales, size, size)`` in double precision, function ``b * m + a`` of ``m * m`` being row
            ``a`` times column ``b``.

    Returns:
        ``(scales, m, size)`` each.

    >>> from fourierscale.lab.baselines.parts.hermite import hermite_basis
    >>> rows, columns = lines_of(hermite_basis(7, (0.9, 1.27, 1.79), 9))
    >>> rows.shape, columns.shape
    (torch.Size([3, 3, 7]), torch.Size([3, 3, 7]))
    """
    count, side = basis.shape[0], math.isqrt(basis.shape[0])
    if side**2 != count:
        return None
    functions = torch.unflatten(basis, 0, (side, side)).permute(2, 1, 0, 3, 4)  # (scales, a, b, size, size)
    left, norms, right = torch.linalg.svd(functions[:, 0, 0])
    first_row, first_column = left[:, :, 0] * norms[:, :1], right[:, 0]
    rows = torch.einsum("sauv,sv->sau", functions[:, :, 0], first_column)
    columns = torch.einsum("su,sbuv->sbv", first_row / norms[:, :1].square(), functions[:, 0])
    products = rows[:, :, None, :, None] * columns[:, None, :, None, :]
    return (rows, columns) if (products - functions).abs().max() <= 1e-12 * functions.abs().max() else None


def separable_conv2d(x: Tensor, weight: Tensor, rows: Tensor, columns: Tensor, stride: int = 1) -> Tensor:
    """A convolution with zeros around the image, as many samples out as in, or every ``stride``-th of them.

    Args:
        x: Images, ``(B, C, H, W)``.
        weight: ``(C', C, m, m)``: of column ``b`` and row ``a``, in this order.
        rows: Lines along the height, ``(m, size)``, ``size`` odd.
        columns: Lines along the width, ``(m, size)``.
        stride: Samples from one result to the next.

    >>> x, weight = torch.rand(2, 3, 8, 10), torch.rand(4, 3, 2, 2)
    >>> rows, columns = torch.rand(2, 5), torch.rand(2, 5)
    >>> kernels = torch.einsum("ocba,au,bv->ocuv", weight, rows, columns)
    >>> torch.allclose(separable_conv2d(x, weight, rows, columns), torch.conv2d(x, kernels, padding=2), rtol=1e-4)
    True
    """
    images, channels, height, width = x.shape
    down, across = filter_matrices(rows, height, stride), filter_matrices(columns, width, stride)
    filtered = times_each(down.flatten(0, 1), x.flatten(0, 1))  # (B C, m H', W)
    mixing = weight.permute(2, 0, 1, 3).flatten(2).flatten(0, 1)  # (m C', C m): of all columns in one product
    mixed = times_each(mixing, filtered.view(images, channels * len(rows), -1))
    parts = mixed.view(images, len(columns), -1, width).unbind(1)  # of each column (B, C' H', W)
    y = each_times(parts[0], across[0].mT)
    for part, matrix in zip(parts[1:], across[1:], strict=True):
        each_times(part, matrix.mT, y)
    return y.view(images, len(weight), -1, across.shape[1])


def times_each(matrix: Tensor, batch: Tensor) -> Tensor:
    """A matrix times each of a batch of them; ``matrix @ batch`` would transpose all of the batch, twice.

    >>> times_each(torch.eye(2), torch.ones(3, 2, 5)).shape
    torch.Size([3, 2, 5])
    """
    return torch.bmm(_repeated(matrix, batch), batch)


def each_times(batch: Tensor, matrix: Tensor, to: Tensor | None = None) -> Tensor:
    """Each matrix of a batch times a matrix, added to the numbers of ``to`` in place.

    >>> each_times(torch.ones(3, 5, 2), torch.eye(2), torch.ones(3, 5, 2)).unique()
    tensor([2.])
    """
    repeated = _repeated(matrix, batch)
    return torch.bmm(batch, repeated) if to is None else to.baddbmm_(batch, repeated)


def _repeated(matrix: Tensor, batch: Tensor) -> Tensor:
    kind = batch.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        matrix = matrix.to(torch.get_autocast_dtype(kind))  # now, for once it is repeated a cast would copy it
    return matrix.expand(batch.shape[0], -1, -1)


def filter_matrices(lines: Tensor, n: int, stride: int) -> Tensor:
    """Filters of ``n`` samples as matrices ``(m, ceil(n / stride), n)``, with zeros beyond both ends.

    >>> filter_matrices(torch.tensor([[1.0, 2.0, 3.0]]), 3, 1)
    tensor([[[2., 3., 0.],
             [1., 2., 3.],
             [0., 1., 2.]]])
    """
    size = lines.shape[1]
    taps = torch.arange(n, device=lines.device) - torch.arange(0, n, stride, device=lines.device)[:, None] + size // 2
    return torch.where((taps >= 0) & (taps < size), lines[:, taps.clamp(0, size - 1)], 0)
