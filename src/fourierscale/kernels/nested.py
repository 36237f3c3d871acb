r"""The nested map as a few large products: the fast twin of :func:`fourierscale.functional.nested_activation`.

Features are taken frequency first, ``(n_1, ..., n_d, B, C)``: a crop is a view, and a transform along any axis is a
product of a small matrix with all images and channels at once. Of each level only the rim is analysed, by the few rows
of the matrix that belong to it. The backward pass computes every level again and stores nothing per level; the
variances of all levels are one product of zeros and ones with the squared coefficients.

While they are in work on a CPU, features have a leading axis of shares, ``(S, n_1, ..., n_d, Q / S)``, each of a few
images and channels. Threads divide operations along the leading axis, and batched products of many small matrices by
whole matrices: so a core goes on with what it wrote itself. Else half of all numbers would travel from one core's cache
to another's after each operation, which takes longer than the operation where the cores do not share a cache.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level, PoolKind
from fourierscale.functional.transform import analysis_matrix, synthesis_matrix
from fourierscale.kernels.mixing import even_step

PIECE = {"cpu": 2**21, "cuda": 2**27}
"""Samples of a level that are in work at a time, per device type."""

SHARE = 128
"""Images and channels, times each other, in a share."""

ALL = slice(None)

Span: TypeAlias = tuple[tuple[int, int], ...]
"""First and last-plus-one coefficient per axis."""

_aten = torch.ops.aten
FORWARD: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh_,
    "leaky_relu": torch.nn.functional.leaky_relu_,
    "identity": lambda z: z,
}
"""Activations that may overwrite their argument."""

BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda g, z: _aten.threshold_backward(g, z, 0, grad_input=g),
    "gelu": lambda g, z: _aten.gelu_backward(g, z),
    "silu": lambda g, z: _aten.silu_backward(g, z),
    "tanh": lambda g, z: _aten.tanh_backward(g, torch.tanh(z)),
    "leaky_relu": lambda g, z: _aten.leaky_relu_backward(g, z, 0.01, False),
    "identity": lambda g, z: g,
}
"""Gradient at the input ``z`` from the gradient ``g`` at the output, which it may overwrite."""


class Options(NamedTuple):
    """What a nested activation does besides its levels."""

    activation: str
    norm: bool
    eps: float
    pool: int
    pool_kind: PoolKind


def encode(plan: Sequence[Level]) -> list[int]:
    """A plan as the flat list of ints that an operator takes."""
    return [n for level in plan for n in (level.index, *level.reads, *level.writes, *level.grid)]


@functools.lru_cache(1024)
def decode(numbers: tuple[int, ...], axes: int) -> tuple[Level, ...]:
    """Undo :func:`encode`."""
    width = 1 + 3 * axes
    rows = [numbers[i : i + width] for i in range(0, len(numbers), width)]
    return tuple(Level(row[0], row[1 : 1 + axes], row[1 + axes : 1 + 2 * axes], row[1 + 2 * axes :]) for row in rows)


def is_chain(plan: Sequence[Level]) -> bool:
    """Whether every level holds the one before it; only then is its rim the difference of two boxes."""
    pairs = itertools.pairwise(plan)
    return all(a <= b for low, high in pairs for a, b in zip(low.writes, high.writes, strict=True))


def rim(box: Box, inside: Box | None) -> list[Span]:
    """The coefficients of a band outside another one, as blocks that do not overlap.

    >>> rim((3, 3), (2, 2))
    [((5, 7), (0, 7)), ((0, 5), (5, 7))]
    """
    outer = grids(box)
    if inside is None:
        return [tuple((0, n) for n in outer)]
    inner = grids(inside)
    blocks = []
    for axis in range(len(box)):
        if inner[axis] < outer[axis]:
            before, after = inner[:axis], outer[axis + 1 :]
            blocks.append((*((0, n) for n in before), (inner[axis], outer[axis]), *((0, n) for n in after)))
    return blocks


class Step(NamedTuple):
    """A level with the matrices and slices that it needs, looked up once."""

    read: tuple[slice, ...]
    synthesis: tuple[Tensor, ...]
    """Per axis, ``(samples, coefficients)``."""
    shape: Box
    """Samples per axis in front of the pooling."""
    rims: tuple[tuple[tuple[slice, ...], tuple[tuple[int, Tensor], ...]], ...]
    """Place of each block of the rim, and its rows of the analysis, ``(axis, (coefficients, samples))``."""


class Prepared(NamedTuple):
    """What a plan needs besides values."""

    steps: tuple[Step, ...]
    members: Tensor
    """Which coefficients each level reads, without the mean, ``(levels, n_1 * ... * n_d)``, zeros and ones."""
    rows: Tensor
    """Which row of the parameters each level uses, ``(rows, levels)`` of zeros and ones."""


@forgotten_with_constants
@functools.lru_cache(1024)
def prepare(plan: tuple[Level, ...], size: Box, pool: int, dtype: torch.dtype, device: torch.device) -> Prepared:
    """Everything about a plan that does not depend on values, for coefficients of this size."""
    steps = []
    writes: Box | None = None
    members = torch.zeros(len(plan), *size)
    rows = torch.zeros(1 + max(level.index for level in plan), len(plan))
    for i, level in enumerate(plan):
        members[i][_slices(rim(level.reads, None)[0])] = 1
        rows[level.index, i] = 1
        synthesis = (synthesis_matrix(n, k, dtype, device) for n, k in zip(level.grid, level.reads, strict=True))
        rims = []
        for block in rim(level.writes, writes):
            # The axis with the fewest coefficients first: it shrinks the work of the others.
            order = sorted(range(len(block)), key=lambda axis: block[axis][1] - block[axis][0])
            parts = ((a, analysis_matrix(level.grid[a] // pool, level.writes[a], dtype, device)) for a in order)
            rims.append((_slices(block), tuple((a, m[slice(*block[a])]) for a, m in parts)))
        steps.append(Step(_slices(rim(level.reads, None)[0]), tuple(synthesis), level.grid, tuple(rims)))
        writes = level.writes
    members = members.flatten(1)
    members[:, 0] = 0
    accurate = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    return Prepared(tuple(steps), members.to(device, accurate), rows.to(device, accurate))


def nested_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, ..., n_d, B, C)`` to ``(n'_1, ..., n'_d, B, C)``."""
    axes = x.ndim - 2
    prepared = prepare(plan, x.shape[:axes], o.pool, x.dtype, x.device)
    steps = prepared.steps
    flat = x.flatten(axes)
    output = flat.new_empty(*grids(plan[-1].writes), flat.shape[-1])
    scale, shift, _ = statistics(x, weight, bias, prepared, o)
    samples = max(math.prod(step.shape) for step in steps)
    activate = FORWARD[o.activation]
    for part in pieces(flat, samples):
        first, second = workspace(flat, part, samples, 2)
        coeffs, target, scales, shifts = (shares(t, part) for t in (flat, output, scale, shift))
        for i, step in enumerate(steps):
            c = _read(coeffs[(ALL, *step.read)], scales, shifts, i, first)
            p = _pool(activate(_synthesize(c, step, second, first)), o)
            for place, rows in step.rims:
                y = p
                for axis, matrix in rows:
                    y = along(matrix, y, axis)
                target[(ALL, *place)] = y
    return torch.unflatten(output, -1, x.shape[axes:])


def nested_backward(
    gradient: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, of ``weight`` and of ``bias`` (empty where there is none)."""
    axes = x.ndim - 2
    prepared = prepare(plan, x.shape[:axes], o.pool, x.dtype, x.device)
    steps = prepared.steps
    flat, dy = x.flatten(axes), gradient.flatten(axes)
    dx = torch.zeros_like(flat)
    scale, shift, inverse = statistics(x, weight, bias, prepared, o)
    d_scale, d_shift = torch.empty_like(scale), torch.empty_like(scale)
    samples = max(math.prod(step.shape) for step in steps)
    zero, every = (0,) * axes, tuple(range(axes))
    for part in pieces(flat, samples):
        first, second, third = workspace(flat, part, samples, 3)
        coeffs, above, below = (shares(t, part) for t in (flat, dy, dx))
        scales, shifts, d_scales, d_shifts = (shares(t, part) for t in (scale, shift, d_scale, d_shift))
        for i, step in enumerate(steps):
            here = (ALL, *step.read)
            z = _synthesize(_read(coeffs[here], scales, shifts, i, first), step, second, first)
            pooled = tuple(n // o.pool for n in step.shape)
            dp: Tensor | None = None
            for place, rows in step.rims:
                dp = _analyze_adjoint(above[(ALL, *place)], rows, pooled, dp, third)
            assert dp is not None
            dc = _activation_adjoint(dp, z, o)
            for turn, axis in enumerate(reversed(every)):
                dc = along(step.synthesis[axis].mT, dc, axis, (second, first)[turn % 2])
            if o.norm:
                mean = _mean(dc)
                d_shifts[:, i] = mean
                mean.zero_()
                product = torch.mul(dc, coeffs[here], out=third[: dc.numel()].view(dc.shape))
                d_scales[:, i] = product.flatten(1, -2).sum(1)
                below[here].addcmul_(dc, _everywhere(scales[:, i], axes))
            else:
                below[here] += dc
    if not o.norm:
        return torch.unflatten(dx, -1, x.shape[axes:]), x.new_empty(0), x.new_empty(0)
    # scale = weight / sqrt(variance + eps), and a coefficient counts in the variance of every level that reads it
    d_variance = -(d_scale * scale * inverse.square()).to(prepared.members.dtype)
    dx.addcmul_(flat, (prepared.members.mT @ d_variance).view_as(dx).to(dx.dtype))
    dx[zero] = 0  # the norm replaces the mean, whatever it was
    d_weight = _per_level(d_scale * inverse, x, weight, prepared)
    return torch.unflatten(dx, -1, x.shape[axes:]), d_weight, _per_level(d_shift, x, bias, prepared)


def _per_level(gradient: Tensor, x: Tensor, parameter: Tensor | None, prepared: Prepared) -> Tensor:
    """Sum over the images, at the rows of the parameters that the levels used."""
    if parameter is None:
        return x.new_empty(0)
    sums = torch.unflatten(gradient, -1, x.shape[-2:]).to(prepared.rows.dtype).sum(1)
    output = torch.zeros_like(parameter)
    output[: len(prepared.rows)] = prepared.rows @ sums
    return output


def statistics(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, prepared: Prepared, o: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Scale and mean per level, image and channel, ``(levels, B * C)``, and the inverse standard deviation."""
    if not o.norm:
        return (x.new_empty(0),) * 3
    members, rows = prepared.members, prepared.rows
    energy = x.to(members.dtype).square().reshape(members.shape[1], -1)
    inverse = torch.unflatten((members @ energy + o.eps).rsqrt(), -1, x.shape[-2:])  # (levels, B, C)
    scale, shift = inverse, torch.zeros_like(inverse)
    if weight is not None:
        scale = inverse * (rows.mT @ weight[: len(rows)].to(rows.dtype))[:, None]
    if bias is not None:
        shift = shift + (rows.mT @ bias[: len(rows)].to(rows.dtype))[:, None]
    return scale.flatten(1).to(x.dtype), shift.flatten(1).to(x.dtype), inverse.flatten(1).to(x.dtype)


def _read(c: Tensor, scales: Tensor, shifts: Tensor, i: int, space: Tensor) -> Tensor:
    """What a level reads, normalised."""
    if not scales.numel():
        return c
    axes = c.ndim - 2
    c = torch.mul(c, _everywhere(scales[:, i], axes), out=space[: c.numel()].view(c.shape))
    _mean(c).copy_(shifts[:, i])
    return c


def _mean(c: Tensor) -> Tensor:
    """The coefficient of frequency zero, ``(S, q)``: a view."""
    return c.view(len(c), -1, c.shape[-1])[:, 0]


def _everywhere(values: Tensor, axes: int) -> Tensor:
    """Numbers ``(S, q)`` that meet ``(S, n_1, ..., n_d, q)``."""
    return values.view(len(values), *(1,) * axes, -1)


def along(matrix: Tensor, x: Tensor, axis: int, space: Tensor | None = None) -> Tensor:
    """Multiply along axis ``n_(axis + 1)`` of ``(S, n_1, ..., n_d, q)``, into the given memory if there is one."""
    outer = math.prod(x.shape[: axis + 1])
    columns = x.reshape(outer, x.shape[axis + 1], -1)
    shape = (outer, matrix.shape[0], columns.shape[2])
    out = None if space is None else space[: math.prod(shape)].view(shape)
    if outer == 1:
        rows = torch.mm(matrix, columns[0], out=None if out is None else out[0])
    else:
        rows = torch.bmm(matrix.expand(outer, -1, -1), columns, out=out)
    return rows.view(*x.shape[: axis + 1], matrix.shape[0], *x.shape[axis + 2 :])


def _synthesize(c: Tensor, step: Step, *spaces: Tensor) -> Tensor:
    """Samples; the spaces take turns, the first not being the one that holds ``c``."""
    for axis, matrix in enumerate(step.synthesis):
        c = along(matrix, c, axis, spaces[axis % 2])
    return c


def _analyze_adjoint(
    dy: Tensor, rows: tuple[tuple[int, Tensor], ...], size: Box, add: Tensor | None, space: Tensor
) -> Tensor:
    (first, matrix), *others = rows
    for axis, other in reversed(others):
        dy = along(other.mT, dy, axis)
    if add is None:
        return along(matrix.mT, dy, first, space)
    outer = len(add) * math.prod(size[:first])
    columns = dy.reshape(outer, dy.shape[first + 1], -1)
    add.view(outer, size[first], -1).baddbmm_(matrix.mT.expand(outer, -1, -1), columns)
    return add


def _pool(p: Tensor, o: Options) -> Tensor:
    for axis in range(1, p.ndim - 1 if o.pool > 1 else 1):
        windows = torch.unflatten(p, axis, (-1, o.pool))
        p = windows.amax(axis + 1) if o.pool_kind == "max" else windows.mean(axis + 1)
    return p


def _activation_adjoint(dp: Tensor, z: Tensor, o: Options) -> Tensor:
    if o.pool == 1:
        return BACKWARD[o.activation](dp, z)
    stages = [FORWARD[o.activation](z.clone())]
    for axis in range(1, z.ndim - 2):
        windows = torch.unflatten(stages[-1], axis, (-1, o.pool))
        stages.append(windows.amax(axis + 1) if o.pool_kind == "max" else stages[0])
    for axis in reversed(range(1, z.ndim - 1)):
        if o.pool_kind == "average":
            dp = dp.repeat_interleave(o.pool, axis) / o.pool
            continue
        windows = torch.unflatten(stages[axis - 1], axis, (-1, o.pool))
        hit = windows == windows.amax(axis + 1, keepdim=True)
        share = dp.unsqueeze(axis + 1) / hit.sum(axis + 1, keepdim=True)  # equal samples share, as torch.amax does it
        dp = (hit * share).flatten(axis, axis + 1)
    return BACKWARD[o.activation](dp, z)


def _slices(block: Span) -> tuple[slice, ...]:
    return tuple(slice(*span) for span in block)


def workspace(flat: Tensor, part: slice, samples: int, count: int) -> tuple[Tensor, ...]:
    """Memory for the samples of a piece, used again for every level."""
    return flat.new_empty(count, samples * len(range(flat.shape[-1])[part])).unbind(0)


def pieces(flat: Tensor, samples: int) -> Iterator[slice]:
    """Images and channels in pieces whose samples, so many each, stay in the cache."""
    count = flat.shape[-1]
    step = even_step(count, max(16, PIECE.get(flat.device.type, PIECE["cuda"]) // samples))
    if step < count:  # so that threads can share it
        step = math.ceil(step / (SHARE * torch.get_num_threads())) * SHARE * torch.get_num_threads()
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def shares(x: Tensor, part: slice) -> Tensor:
    """A piece of ``(..., Q)`` as shares of equal size, ``(S, ..., Q / S)``: a view."""
    threads = torch.get_num_threads() if x.device.type == "cpu" else 1
    count = _share_count(part.stop - part.start, threads, SHARE)
    return torch.unflatten(x[..., part], -1, (count, -1)).movedim(-2, 0)


@functools.lru_cache(1024)
def _share_count(count: int, threads: int, share: int) -> int:
    """Equally many shares for each thread, of ``share`` or a little more; one share where it does not work out.

    >>> _share_count(1600, 2, 128), _share_count(1600, 1, 128), _share_count(129, 2, 128)
    (10, 1, 1)
    """
    if threads == 1:
        return 1
    most = count // share
    return next((shares for shares in range(most - most % threads, 0, -threads) if count % shares == 0), 1)
