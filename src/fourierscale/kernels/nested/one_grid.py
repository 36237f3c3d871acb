r"""A piece of the nested map where all levels have one grid: a level is the previous one plus its rim.

.. math:: Z_i = Z_{i-1} + \sum_{k \in \text{rim}_i} C[k] \, b_k, \qquad
    Y[\text{rim}_i] = A_{\text{rim}_i} \, \varphi_i(Z_i)

Norms are a scale and a shift of the samples. A rim is two blocks of few lines, so a level takes products of little
depth where it would take a whole transform. The backward pass goes from fine to coarse: it takes each rim away again
and adds up what the levels' samples are to be changed by, of which each rim is a part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fourierscale.functional.bands import Box
from fourierscale.functional.constants import kept
from fourierscale.functional.transform import analysis_matrix, synthesis_matrix
from fourierscale.kernels.layout import rim
from fourierscale.kernels.nested.activations import ACTIVATIONS
from fourierscale.kernels.nested.samples import activation_adjoint, pool_shares
from fourierscale.kernels.nested.task import Task
from fourierscale.kernels.products import SAMPLES_AT_ONCE, Block, Product, chain, contiguous, even_step, run

CACHE = 2**18
"""Samples of a level that a thread has in work at a time, so that they stay in its own cache."""

SHORTEST = 40
"""Samples per axis from which a level is made from the one before it: rims of smaller grids are thin, and a product of
few lines takes nearly as long as one of all."""


class RimBlock(NamedTuple):
    """A block of a rim."""

    place: tuple[slice, ...]
    shape: tuple[int, ...]
    spread: Block
    """From its coefficients to the samples of the grid."""
    gather: tuple[Product, ...]
    """The transpose."""

    def read(self, samples: Tensor) -> Tensor:
        """Its coefficients, gathered from all samples."""
        for one in self.gather:
            samples = one(samples)
        return samples.view(self.shape)


class OneGrid(NamedTuple):
    """All products of a piece."""

    read: tuple[tuple[RimBlock, ...], ...]
    write: tuple[tuple[RimBlock, ...], ...]
    whole: tuple[Product, ...]
    """Of all coefficients to samples."""
    samples: tuple[int, ...]
    pooled: tuple[int, ...]


@kept
def one_grid(task: Task, dtype: torch.dtype, device: torch.device, count: int, columns: int) -> OneGrid:
    """The products of a task for ``count`` shares of so many images and channels each."""
    top = task.levels[-1]
    small = tuple(n // task.pool.window for n in top.grid)
    reads = [synthesis_matrix(n, k, dtype, device) for n, k in zip(top.grid, top.reads, strict=True)]
    writes = [analysis_matrix(n, k, dtype, device).mT for n, k in zip(small, top.writes, strict=True)]
    shape = (count, *(matrix.shape[1] for matrix in reads), columns)
    whole, samples = chain(list(enumerate(reads)), shape)
    pooled = (count, *small, columns)
    return OneGrid(
        _rims([level.reads for level in task.levels], reads, samples, adds=True),
        _rims([level.writes for level in task.levels], writes, pooled, adds=False),
        whole,
        samples,
        pooled,
    )


def _rims(
    boxes: Sequence[Box], matrices: Sequence[Tensor], samples: tuple[int, ...], adds: bool
) -> tuple[tuple[RimBlock, ...], ...]:
    levels = []
    inside: Box | None = None
    for box in boxes:
        blocks: list[RimBlock] = []
        for span in rim(box, inside):
            shape = (samples[0], *(last - first for first, last in span), samples[-1])
            parts = [matrix[:, slice(*ends)] for matrix, ends in zip(matrices, span, strict=True)]
            # The axis with the fewest coefficients last on the way to samples, first on the way back.
            order = sorted(range(len(span)), key=lambda axis: -shape[axis + 1])
            spread = chain([(axis, parts[axis]) for axis in order], shape)[0]
            gather = chain([(axis, parts[axis].mT) for axis in reversed(order)], samples)[0]
            place = (slice(None), *(slice(*ends) for ends in span))
            adds_here = bool(blocks) or (adds and inside is not None)
            blocks.append(RimBlock(place, shape, Block(place, shape, spread, adds_here), gather))
        levels.append(tuple(blocks))
        inside = box
    return tuple(levels)


def by_rims(x: Tensor, task: Task) -> bool:
    """Whether a task runs like this; in half precision products are so fast that many small ones take longer."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return task.one_grid and not half and max(task.levels[-1].grid) >= SHORTEST


def one_grid_pieces(flat: Tensor, samples: int) -> Iterator[tuple[slice, int]]:
    """Images and channels in pieces of one share for each thread, with how many shares that are."""
    threads = torch.get_num_threads() if flat.device.type == "cpu" else 1
    most = CACHE if flat.device.type == "cpu" else SAMPLES_AT_ONCE["cuda"]
    unit = 16 * threads
    step = math.ceil(even_step(flat.shape[-1], max(unit, threads * most // samples)) / unit) * unit
    for start in range(0, flat.shape[-1], step):
        stop = min(start + step, flat.shape[-1])
        yield slice(start, stop), threads if (stop - start) % threads == 0 else 1


def forward_piece(coeffs: Tensor, target: Tensor, affine: tuple[Tensor, Tensor], task: Task) -> None:
    """Write the value of a piece.

    Args:
        coeffs: What is read, ``(S, n_1, ..., n_d, q)``, contiguous, less the mean where an instance norm replaces it.
        target: Where the value goes, ``(S, n'_1, ..., n'_d, q)``.
        affine: Scale and shift, ``(levels, S, q)``, or nothing.
        task: What to do.
    """
    grid = one_grid(task, coeffs.dtype, coeffs.device, len(coeffs), coeffs.shape[-1])
    z, space = coeffs.new_empty(2, math.prod(grid.samples)).unbind(0)
    entry = ACTIVATIONS[task.activation]
    activate = entry.overwriting or entry.function
    for i, (reads, writes) in enumerate(zip(grid.read, grid.write, strict=True)):
        for block in reads:
            block.spread.write(coeffs[block.place], space, z)
        samples = _normed(contiguous(z, grid.samples), affine, i, contiguous(space, grid.samples))
        y = pool_shares(activate(samples), task.pool)
        for block in writes:
            target[block.place] = block.read(y)


def backward_piece(
    gradient: Tensor,
    coeffs: Tensor,
    target: Tensor,
    affine: tuple[Tensor, Tensor],
    sums: tuple[Tensor, Tensor],
    task: Task,
) -> None:
    """Write the gradients of what a piece reads, and of scale and shift.

    Args:
        gradient: That of the value, ``(S, n'_1, ..., n'_d, q)``.
        coeffs: As in the forward pass.
        target: Where the gradient of the coefficients goes.
        affine: Scale and shift.
        sums: Where their gradients go.
        task: What to do.
    """
    grid = one_grid(task, coeffs.dtype, coeffs.device, len(coeffs), coeffs.shape[-1])
    spaces = coeffs.new_empty(4, math.prod(grid.samples)).unbind(0)
    first, second, third, total = (contiguous(space, grid.samples) for space in spaces)
    z = contiguous(run(grid.whole, coeffs, first, second), grid.samples)
    spare = second if z.data_ptr() == first.data_ptr() else first
    total.zero_()
    for i in reversed(range(len(task.levels))):
        for block in grid.write[i]:
            block.spread.write(gradient[block.place], spare, third)
        above = contiguous(third, grid.pooled)
        change = activation_adjoint(above, _normed(z, affine, i, spare) if len(affine[0]) else z, task)
        if len(affine[0]):
            torch.sum(change.flatten(1, -2), 1, out=sums[1][i])
            torch.sum(torch.mul(change, z, out=spare).flatten(1, -2), 1, out=sums[0][i])
            total.addcmul_(change, _everywhere(affine[0][i], z.ndim - 2))
        else:
            total += change
        for block in grid.read[i]:
            target[block.place] = block.read(total)
            if i > 0:
                block.spread.take_away(coeffs[block.place], spare, z)


def _normed(z: Tensor, affine: tuple[Tensor, Tensor], i: int, space: Tensor) -> Tensor:
    """Samples of a level behind its norm, in a space."""
    if not len(affine[0]):
        return space.copy_(z)
    scale, shift = (_everywhere(values[i], z.ndim - 2) for values in affine)
    return torch.addcmul(shift, z, scale, out=space)


def _everywhere(values: Tensor, axes: int) -> Tensor:
    """Numbers ``(S, q)`` that meet ``(S, n_1, ..., n_d, q)``."""
    return values.view(len(values), *(1,) * axes, -1)
