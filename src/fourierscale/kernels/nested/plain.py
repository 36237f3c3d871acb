"""The nested activation for programs that leave PyTorch: a few products per level; see :mod:`..conv.plain`."""

from __future__ import annotations

import operator

import torch
from torch import Tensor

from fourierscale.functional.constants import made_apart
from fourierscale.kernels.nested.activations import ACTIVATIONS
from fourierscale.kernels.nested.factors import LevelFactors, make_factors
from fourierscale.kernels.nested.products import statistics
from fourierscale.kernels.nested.task import Task
from fourierscale.kernels.products import down, pool_windows


def nested_activation(x: Tensor, weight: Tensor | None, bias: Tensor | None, task: Task) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to ``(n'_1, n'_2, B, C)``, levels that are a chain."""
    size = tuple(operator.index(n) for n in x.shape[:2])
    factors = made_apart(lambda: make_factors(task, size, x.dtype, x.device))
    shape = x.shape[2:]
    flat = x.flatten(2)
    if task.norm:  # the norm replaces the mean: without it, the new mean is a number added to the samples
        first = torch.cat([torch.zeros_like(flat[:1, :1]), flat[:1, 1:]], 1)
        flat = torch.cat([first, flat[1:]])
    squares = flat.to(factors.rows.dtype).square() if task.norm else None
    scale, shift, _ = statistics(x, weight, bias, factors, task.eps, squares)
    output: Tensor | None = None
    for i, level in enumerate(factors.levels):
        c = flat[level.read]
        z = _synthesize(c * scale[i], level) + shift[i] if len(scale) else _synthesize(c, level)
        samples = pool_windows(ACTIVATIONS[task.activation].function(z), task.pool.window, task.pool.kind)
        output = _frame(output, samples, level)
    assert output is not None
    return torch.unflatten(output, -1, shape)


def _synthesize(c: Tensor, level: LevelFactors) -> Tensor:
    rows, columns = level.synthesis
    return columns @ down(rows, c)


def _frame(inside: Tensor | None, samples: Tensor, level: LevelFactors) -> Tensor:
    """Coefficients of a level: those of the levels before it, framed by the rim of its own samples."""
    blocks = {}
    for place, rows in level.rims:
        y = samples
        for axis, matrix in rows:
            y = down(matrix, y) if axis == 0 else matrix @ y
        blocks[place[0].start > 0] = y  # below, over all columns; else beside
    if inside is None:
        return y
    if False in blocks:
        inside = torch.cat([inside, blocks[False]], 1)
    return torch.cat([inside, blocks[True]]) if True in blocks else inside
