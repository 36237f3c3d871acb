r"""The nested map as a few large products: the fast twin of :func:`fourierscale.functional.nested_activation`.

Features are taken frequency first, ``(n_1, ..., n_d, B, C)``: a crop is a view, and a transform along any axis is a
product of a small matrix with all images and channels at once. Of each level only the rim is analysed, by the few rows
of the matrix that belong to it. The backward pass computes every level again and stores nothing per level; the
variances of all levels are products of zeros and ones with the squared coefficients.

While they are in work, features have a leading axis of shares, ``(S, n_1, ..., n_d, Q / S)``, each of a few images and
channels: :mod:`fourierscale.kernels.products` says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fourierscale.functional.bands import grids
from fourierscale.kernels.nested.activations import ACTIVATIONS
from fourierscale.kernels.nested.factors import Factors, level_products, make_factors
from fourierscale.kernels.nested.one_grid import backward_piece, by_rims, forward_piece, one_grid_pieces
from fourierscale.kernels.nested.samples import activation_adjoint, pool_shares
from fourierscale.kernels.nested.task import Task
from fourierscale.kernels.products import Product, contiguous, pieces, run, shares, workspace


def nested_forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task) -> Tensor:
    """Value of the nested activation, ``(n_1, ..., n_d, B, C)`` to ``(n'_1, ..., n'_d, B, C)``."""
    axes = x.ndim - 2
    size = x.shape[:axes]
    factors = make_factors(task, size, x.dtype, x.device)
    flat = x.flatten(axes)
    output = flat.new_empty(*grids(task.levels[-1].writes), flat.shape[-1])
    scale, shift, _ = statistics(x, weight, bias, factors, task.eps)
    samples = max(math.prod(level.grid) for level in task.levels)
    if by_rims(x, task):
        for part, count in one_grid_pieces(flat, samples):
            affine = _parts(scale, part, count), _parts(shift, part, count)
            forward_piece(_own(flat, part, count, task), shares(output, part, count), affine, task)
        return torch.unflatten(output, -1, x.shape[axes:])
    entry = ACTIVATIONS[task.activation]
    activate = entry.overwriting or entry.function
    for part in pieces(flat, samples):
        first, second = workspace(flat, part, samples, 2)
        for i, level in enumerate(level_products(task, size, x.dtype, x.device, part.stop - part.start)):
            coeffs, target = shares(flat, part, level.shares), shares(output, part, level.shares)
            _read(coeffs[level.read], scale, shift, i, part, first, task.affine)
            z = run(level.synthesis, first, second, first)
            p = pool_shares(activate(contiguous(z, level.samples)), task.pool)
            spare = second if z is first else first
            for rim in level.rims:
                target[rim.place] = _shrink(rim.analysis, p, spare).view(rim.shape)
    return torch.unflatten(output, -1, x.shape[axes:])


def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    axes = x.ndim - 2
    size = x.shape[:axes]
    factors = make_factors(task, size, x.dtype, x.device)
    flat, dy = x.flatten(axes), gradient.flatten(axes)
    dx = torch.zeros_like(flat)
    scale, shift, inverse = statistics(x, weight, bias, factors, task.eps)
    d_scale, d_shift = torch.empty_like(scale), torch.empty_like(scale)
    samples = max(math.prod(level.grid) for level in task.levels)
    for part, count in one_grid_pieces(flat, samples) if by_rims(x, task) else ():
        affine = _parts(scale, part, count), _parts(shift, part, count)
        sums = _parts(d_scale, part, count), _parts(d_shift, part, count)
        above, below = shares(dy, part, count), shares(dx, part, count)
        backward_piece(above, _own(flat, part, count, task), below, affine, sums, task)
    for part in () if by_rims(x, task) else pieces(flat, samples):
        first, second, third = workspace(flat, part, samples, 3)
        for i, level in enumerate(level_products(task, size, x.dtype, x.device, part.stop - part.start)):
            coeffs, above, below = (shares(t, part, level.shares) for t in (flat, dy, dx))
            coeffs, below = coeffs[level.read], below[level.read]
            _read(coeffs, scale, shift, i, part, first, task.affine)
            z = run(level.synthesis, first, second, first)
            spare = second if z is first else first
            for rim in level.rims:
                rim.adjoint.write(above[rim.place], spare, third)
            dp = activation_adjoint(contiguous(third, level.pooled), contiguous(z, level.samples), task)
            dc = contiguous(run(level.adjoint, dp.contiguous(), second, first), level.coefficients)
            if len(scale):
                mean = _mean(dc)
                _row(d_shift, i, part, level.shares).copy_(mean)
                if task.norm:
                    mean.zero_()
                products = torch.mul(dc, coeffs, out=contiguous(third, level.coefficients))
                torch.sum(products.flatten(1, -2), 1, out=_row(d_scale, i, part, level.shares))
                below.addcmul_(dc, _everywhere(_row(scale, i, part, level.shares), axes))
            else:
                below += dc
    if task.affine:
        d_scale, d_shift = (_per_level(t, x, p, factors) for t, p in ((d_scale, weight), (d_shift, bias)))
        return torch.unflatten(dx, -1, x.shape[axes:]), d_scale, d_shift
    if not task.norm:
        return torch.unflatten(dx, -1, x.shape[axes:]), x.new_empty(0), x.new_empty(0)
    # scale = weight / sqrt(variance + eps), and a coefficient counts in the variance of every level that reads it
    d_variance = -(d_scale * scale * inverse.square()).to(factors.members.dtype)
    dx.addcmul_(flat, (factors.members.mT @ d_variance).view_as(dx).to(dx.dtype))
    dx[(0,) * axes] = 0  # the norm replaces the mean, whatever it was
    d_weight = _per_level(d_scale * inverse, x, weight, factors)
    return torch.unflatten(dx, -1, x.shape[axes:]), d_weight, _per_level(d_shift, x, bias, factors)


def _per_level(gradient: Tensor, x: Tensor, parameter: Tensor | None, factors: Factors) -> Tensor:
    """Sum over the images, at the rows of the parameters that the levels used."""
    if parameter is None:
        return x.new_empty(0)
    sums = torch.unflatten(gradient, -1, x.shape[-2:]).to(factors.rows.dtype).sum(1)
    output = torch.zeros_like(parameter)
    output[: len(factors.rows)] = factors.rows @ sums
    return output


def statistics(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    factors: Factors,
    eps: float | None,
    squares: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scale and shift per level, image and channel, ``(levels, B * C)``, and the inverse standard deviation.

    Without ``eps`` scale and shift are the parameters, and there is nothing where there are none. ``squares`` are
    those of all coefficients but the mean, whose is zero; they are computed if not given.
    """
    rows = factors.rows
    if eps is None:
        if weight is None or bias is None:
            return (x.new_empty(0),) * 3
        own = (rows.mT @ p[: len(rows)].to(rows.dtype) for p in (weight, bias))  # (L, C)
        scale, shift = (p[:, None].expand(-1, x.shape[-2], -1).flatten(1).to(x.dtype) for p in own)
        return scale, shift, scale
    if squares is None:
        # Squares that overflow make the levels that hold them NaN below; finite, they leave the other levels alone.
        squares = x.to(rows.dtype).square().clamp_(max=torch.finfo(rows.dtype).max)
        squares[(0,) * (x.ndim - 2)] = 0
    variance = level_sums(squares, factors.within)
    inverse = (variance + eps).rsqrt() + 0 * (2 * variance)
    inverse = torch.unflatten(inverse, -1, x.shape[-2:])  # (L, B, C)
    scale, shift = inverse, torch.zeros_like(inverse)
    if weight is not None:
        scale = inverse * (rows.mT @ weight[: len(rows)].to(rows.dtype))[:, None]
    if bias is not None:
        shift = shift + (rows.mT @ bias[: len(rows)].to(rows.dtype))[:, None]
    return scale.flatten(1).to(x.dtype), shift.flatten(1).to(x.dtype), inverse.flatten(1).to(x.dtype)


def level_sums(squares: Tensor, within: Sequence[Tensor]) -> Tensor:
    """Sum over what each level reads, ``(n_1, ..., n_d, B, C)`` to ``(levels, B * C)``.

    Axis by axis: one product over all coefficients of an image would be one long sum, off by up to 1e-4 in float32.

    >>> level_sums(torch.ones(3, 3, 1, 2), [torch.tensor([[1.0, 0, 0], [1, 1, 1]])] * 2)
    tensor([[1., 1.],
            [9., 9.]])
    """
    sums = within[0] @ squares.flatten(1)  # (L, n_2 * ... * n_d * B * C)
    for inside in within[1:]:
        sums = (torch.unflatten(sums, 1, (inside.shape[1], -1)) * inside[..., None]).sum(1)
    return sums


def _read(coeffs: Tensor, scale: Tensor, shift: Tensor, i: int, part: slice, space: Tensor, affine: bool) -> None:
    """Write what a level reads, normalised, at the beginning of a space."""
    c = contiguous(space, coeffs.shape)
    if scale.numel():
        torch.mul(coeffs, _everywhere(_row(scale, i, part, len(c)), c.ndim - 2), out=c)
        row = _row(shift, i, part, len(c))
        if affine:
            _mean(c).add_(row)
        else:
            _mean(c).copy_(row)
    else:
        c.copy_(coeffs)


def _own(flat: Tensor, part: slice, count: int, task: Task) -> Tensor:
    """What a piece reads, contiguous, without the mean where a norm replaces it."""
    read = tuple(slice(0, n) for n in grids(task.levels[-1].reads))
    coeffs = shares(flat[read], part, count).clone(memory_format=torch.contiguous_format)
    if task.norm:
        _mean(coeffs).zero_()
    return coeffs


def _parts(values: Tensor, part: slice, count: int) -> Tensor:
    """What all levels have for the images and channels of a piece, ``(levels, S, q)``, a view; nothing of nothing."""
    return torch.unflatten(values[:, part], -1, (count, -1)) if values.numel() else values


def _mean(c: Tensor) -> Tensor:
    """The coefficient of frequency zero of contiguous coefficients, ``(S, q)``: a view."""
    return c.as_strided((len(c), c.shape[-1]), (c.stride(0), 1))


def _row(values: Tensor, i: int, part: slice, count: int) -> Tensor:
    """What a level has for each image and channel, ``(S, q)``: a view."""
    return values[i, part].view(count, -1)


def _everywhere(values: Tensor, axes: int) -> Tensor:
    """Numbers ``(S, q)`` that meet ``(S, n_1, ..., n_d, q)``."""
    return values.view(len(values), *(1,) * axes, -1)


def _shrink(products: Sequence[Product], source: Tensor, space: Tensor) -> Tensor:
    """Analyse a block of the rim, whose results are small: the first in a space, the others in fresh memory."""
    for turn, one in enumerate(products):
        source = one(source, space if turn == 0 and len(products) > 1 else None)
    return source
