r"""The sweeps of :mod:`.triton_common_grid`, from coarse to fine and back, on tensor cores.

A program is one warp. It has one image and channel and a strip of 32 rows of samples, which it takes in blocks of 32
columns, each through all levels. With lines :math:`b`, :math:`U`, :math:`V`, :math:`a` cut to the block, a level is

.. math:: Z \leftarrow Z + \sum_r b_r \otimes U_r + \sum_c V_c \otimes a_c,
    \qquad H_c \leftarrow H_c + \varphi(Z) \, a_c,

two small products. The rows of the rim, :math:`G_r = b_r^\top \varphi(Z)`, come from a program that has a strip of
columns and does the same with rows and columns exchanged: both computing the samples is cheaper than exchanging them.

Which sample stands where in a product's operands is chosen such that nothing moves between threads. Tensor cores give
thread :math:`4 g + t` of a warp row :math:`g` and columns :math:`2 t`, :math:`2 t + 1` of each piece of 8 x 8 of a
result, and take from it row :math:`g` and columns :math:`t`, :math:`t + 4` of each piece of an operand. So

- place :math:`8 v + g` of a block has sample :math:`4 g + v` of it, on both axes: a thread loads four at once;
- columns :math:`2 t + e` of a result are handed on as columns :math:`4 e + t` of an operand, in both operands.

With a pooling of two, ``4`` is ``2`` on the pooled side, and a window lies within a thread.

Edges ``(tiles, side lines, side)`` are those of :mod:`fourierscale.kernels.triton_edges`.
"""

import triton
import triton.language as tl

from fourierscale.kernels.triton_launch import activate, derivative


@triton.jit
def _thread(EACH: tl.constexpr):
    """``t``, ``g``, and what one thread has: two pieces and samples that lie side by side, ``(4, 8, 2, each)``."""
    t = tl.arange(0, 4)[:, None, None, None]
    g = tl.arange(0, 8)[None, :, None, None]
    e = tl.arange(0, 2)[None, None, :, None]
    return t, g, e, tl.arange(0, EACH)[None, None, None, :]


@triton.jit
def _eight(lines, first, end, sample, SIDE: tl.constexpr, EACH: tl.constexpr):
    """Samples of eight lines from ``first`` on, ``(t, g, e, v)``: line ``4 e + t``, sample ``each * g + v``."""
    t, g, e, v = _thread(EACH)
    line = first + e * 4 + t
    return tl.load(lines + line * SIDE + (sample + g * EACH + v), mask=line < end, other=0.0)


@triton.jit
def _update(
    z, rows, columns, basis, across, table, level, turned, i, j,
    SIGN: tl.constexpr, PRECISION: tl.constexpr, SIDE: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """Add the outer products of a level to the samples, or take them away: two groups of eight lines at a time."""
    r, r_end, c, c_end = _rim(table, level, turned)
    groups = (r_end - r + 7) // 8
    count = groups + (c_end - c + 7) // 8
    group = 0
    while group < count:
        down, along = _group(rows, columns, basis, across, r, r_end, c, c_end, group, groups, i, j, SIDE, EACH)
        down_next, along_next = _group(
            rows, columns, basis, across, r, r_end, c, c_end, group + 1, groups, i, j, SIDE, EACH
        )
        # in this order of the summands no thread needs another's numbers
        left = tl.permute(tl.join(down, down_next), (3, 1, 4, 0, 2))  # (v, g, group, t, e)
        right = tl.permute(tl.join(along, along_next), (4, 0, 2, 3, 1))  # (group, t, e, v, g)
        left = tl.reshape(SIGN * left, (8 * EACH, 16))
        z = tl.dot(left, tl.reshape(right, (16, 8 * EACH)), z, input_precision=PRECISION)
        group += 2
    return z


@triton.jit
def _group(
    rows, columns, basis, across, r, r_end, c, c_end, group, groups, i, j, SIDE: tl.constexpr, EACH: tl.constexpr
):
    """Both factors of eight outer products: first come those of the rows, then those of the columns."""
    of_rows = group < groups
    first = tl.where(of_rows, r + group * 8, c + (group - groups) * 8)
    end = tl.where(of_rows, r_end, c_end)
    down = _eight(tl.where(of_rows, basis, columns), first, end, i, SIDE, EACH)
    return down, _eight(tl.where(of_rows, rows, across), first, end, j, SIDE, EACH)


@triton.jit
def _project(
    p, to, across, table, level, turned, i, j, more,
    PRECISION: tl.constexpr, SIDE: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """Write the columns of a rim of the analysed samples; ``more`` adds to those of the blocks before."""
    _, _, c, c_end = _rim(table, level, turned)
    t, g, e, v = _thread(EACH)
    p = tl.permute(tl.reshape(p, (8 * EACH, EACH, 4, 2)), (0, 1, 3, 2))
    p = tl.reshape(p, (8 * EACH, 8 * EACH))
    while c < c_end:
        line = c + g
        a = tl.load(across + line * SIDE + (j + (t * 2 + e) * EACH + v), mask=line < c_end, other=0.0)
        a = tl.reshape(tl.permute(a, (3, 2, 0, 1)), (8 * EACH, 8))
        h = tl.dot(p, a, input_precision=PRECISION)
        h = tl.permute(tl.reshape(h, (EACH, 8, 4, 2)), (2, 1, 3, 0))
        line = c + t * 2 + e
        place = to + line * SIDE + (i + g * EACH + v)
        h += tl.load(place, mask=(line < c_end) & more, other=0.0)
        tl.store(place, h, mask=line < c_end)
        c += 8


@triton.jit
def _rim(table, level, turned):
    """First and last-plus-one row and column of a level's rim, exchanged where a program is ``turned``."""
    at = table + level * 5
    r, r_end = tl.load(at + 1 + turned), tl.load(at + 3 + turned)
    return r, r_end, tl.load(at + 2 - turned), tl.load(at + 4 - turned)


@triton.jit
def _affine(weight, bias, inverses, table, level, tile, Q, C, AFFINE: tl.constexpr):
    """Inverse deviation of a level, what its samples are multiplied by, and what is added."""
    inverse = tl.load(inverses + level * Q + tile)
    s, m = inverse, 0.0
    if AFFINE:
        at = tl.load(table + level * 5) * C + tile % C
        s, m = inverse * tl.load(weight + at).to(tl.float32), tl.load(bias + at).to(tl.float32)
    return inverse, s, m


@triton.jit
def _whole(p):
    """Sum of all samples."""
    return tl.sum(tl.sum(p, 1), 0)


@triton.jit
def _pool(p, LARGEST: tl.constexpr):
    """One sample of each window of two by two."""
    windows = tl.reshape(p, (2, 2, 8, 2, 2, 8))
    if LARGEST:  # noqa: SIM108 (of a branch not taken nothing is compiled)
        pooled = tl.max(tl.max(windows, 4), 1)
    else:
        pooled = tl.sum(tl.sum(windows, 4), 1) * 0.25
    return tl.reshape(pooled, (16, 16))


@triton.jit
def _unpool(d, p, LARGEST: tl.constexpr):
    """Gradient at the samples ``p`` from that at the pooled ones; equal samples share."""
    if LARGEST:
        hit = tl.where(p == _spread(_pool(p, True)), 1.0, 0.0)
        share = _spread(d / (_pool(hit, False) * 4)) * hit
    else:
        share = _spread(d * 0.25)
    return share


@triton.jit
def _spread(d):
    """Pooled samples, each at all four places of its window."""
    d = tl.reshape(d, (2, 1, 8, 2, 1, 8))
    return tl.reshape(tl.broadcast_to(d, (2, 2, 8, 2, 2, 8)), (32, 32))


@triton.jit
def block_forward_kernel(
    edges, output, inverses, weight, bias, basis, table, out_basis, out_table, levels, start, gap, down, across, Q, C,
    CODE: tl.constexpr, NORM: tl.constexpr, AFFINE: tl.constexpr, SIDE: tl.constexpr, POOL: tl.constexpr,
    LARGEST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    i, turned, q = tl.program_id(0) * 32, tl.program_id(1), tl.program_id(2)
    tile = start + q
    rows = edges + turned * gap + q * (SIDE * SIDE)
    columns = edges + (1 - turned) * gap + q * (SIDE * SIDE)
    to = output + (1 - turned) * gap + q * (SIDE * SIDE)
    b, a = basis + turned * (SIDE * SIDE), basis + (1 - turned) * (SIDE * SIDE)
    a_out = out_basis + (1 - turned) * (SIDE * SIDE)
    n = tl.where(turned == 0, across, down)
    j = tl.where(i < down + across - n, 0, n)  # the shorter side has fewer strips
    while j < n:
        z = tl.zeros((32, 32), tl.float32)
        level = 0
        while level < levels:
            z = _update(z, rows, columns, b, a, table, level, turned, i, j, 1, PRECISION, SIDE, 4)
            if NORM:
                _, s, m = _affine(weight, bias, inverses, table, level, tile, Q, C, AFFINE)
                p = activate(z * s + m, CODE)
            else:
                p = activate(z, CODE)
            if POOL == 2:
                p = _pool(p, LARGEST)
            _project(p, to, a_out, out_table, level, turned, i // POOL, j // POOL, j > 0, PRECISION, SIDE, 4 // POOL)
            level += 1
        j += 32


@triton.jit
def block_backward_kernel(
    edges, gradients, output, inverses, d_scale, d_shift, d_variance, weight, bias, basis, table, out_basis,
    out_table, levels, start, gap, down, across, Q, C,
    CODE: tl.constexpr, NORM: tl.constexpr, AFFINE: tl.constexpr, SIDE: tl.constexpr, POOL: tl.constexpr,
    LARGEST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    i, turned, q = tl.program_id(0) * 32, tl.program_id(1), tl.program_id(2)
    tile = start + q
    first, second = turned * gap + q * (SIDE * SIDE), (1 - turned) * gap + q * (SIDE * SIDE)
    b, a = basis + turned * (SIDE * SIDE), basis + (1 - turned) * (SIDE * SIDE)
    b_out, a_out = out_basis + turned * (SIDE * SIDE), out_basis + (1 - turned) * (SIDE * SIDE)
    n = tl.where(turned == 0, across, down)
    j = tl.where(i < down + across - n, 0, n)
    while j < n:
        z = tl.zeros((32, 32), tl.float32)
        level = 0
        while level < levels:
            z = _update(z, edges + first, edges + second, b, a, table, level, turned, i, j, 1, PRECISION, SIDE, 4)
            level += 1
        # Fine to coarse: what a level adds is part of its own samples and of every finer level's.
        total = tl.zeros((32, 32), tl.float32)
        change = 0.0
        level = levels - 1
        while level >= 0:
            d = _update(
                tl.zeros((32 // POOL, 32 // POOL), tl.float32), gradients + first, gradients + second, b_out, a_out,
                out_table, level, turned, i // POOL, j // POOL, 1, PRECISION, SIDE, 4 // POOL,
            )  # fmt: skip
            if NORM:
                inverse, s, m = _affine(weight, bias, inverses, table, level, tile, Q, C, AFFINE)
                if POOL == 2:
                    d = _unpool(d, activate(z * s + m, CODE), LARGEST)
                d = derivative(z * s + m, d, CODE)
                if turned == 0:  # these sums over the samples are wanted once; padding has no gradient
                    slope = _whole(d * z)
                    change -= slope * s * inverse * inverse
                    at = ((i // 32 * ((n + 31) // 32) + j // 32) * levels + level) * Q + tile
                    tl.store(d_variance + at, change)
                    tl.store(d_scale + at, slope * inverse)
                    tl.store(d_shift + at, _whole(d))
                total += d * s
            else:
                if POOL == 2:
                    d = _unpool(d, activate(z, CODE), LARGEST)
                total += derivative(z, d, CODE)
            _project(total, output + second, a, table, level, turned, i, j, j > 0, PRECISION, SIDE, 4)
            if level > 0:
                z = _update(z, edges + first, edges + second, b, a, table, level, turned, i, j, -1, PRECISION, SIDE, 4)
            level -= 1
        j += 32
