"""The sweeps of :mod:`.triton_common_grid` through tiles of 32 x 32 samples, in plain float32.

A sweep is the work of one warp on one image and channel, from coarse to fine and back, in the patches of
:mod:`fourierscale.kernels.triton_patches`. What is read and what is written share their lines.
"""

import triton
import triton.language as tl

from fourierscale.kernels.triton_launch import activate, derivative
from fourierscale.kernels.triton_patches import patch, rim, two, update, zeros


@triton.jit
def _measure(z, along, beside, rows, columns, basis, table, level):
    """As :func:`update`; also add the squares of a level's rows and columns, each thread those of its patch."""
    r, r_end, c, c_end = rim(table, level)
    i, j = patch(32, 1)
    while r < r_end:
        b, b_next = two(basis, i, r, 32)
        u, u_next = two(rows, j, r, 32)
        z += b * u
        z += b_next * u_next
        along += u * u + u_next * u_next
        r += 2
    while c < c_end:
        a, a_next = two(basis + 32 * 32, j, c, 32)
        v, v_next = two(columns, i, c, 32)
        z += v * a
        z += v_next * a_next
        beside += v * v + v_next * v_next
        c += 2
    return z, along, beside


@triton.jit
def _variance(along, beside, down, across):
    """By Parseval's theorem; eight threads have the same columns, four the same rows."""
    rows = tl.sum(tl.sum(tl.sum(along, 3), 1), 0) / (8 * across)
    columns = tl.sum(tl.sum(tl.sum(beside, 3), 1), 0) / (4 * down)
    return tl.sum(rows + columns, 0)


@triton.jit
def _project(p, rows, columns, basis, table, level, POOL: tl.constexpr):
    """Write the rows and the columns of a rim of the analysed samples."""
    r, r_end, c, c_end = rim(table, level)
    i, j = patch(32, POOL)
    thread = tl.arange(0, 32)
    EACH: tl.constexpr = 4 // POOL
    j_to = (thread[None, :, None] % 4) * EACH + tl.arange(0, EACH)[:, None, None]
    j_to += tl.arange(0, 2)[None, None, :] * (16 // POOL)
    i_to = (thread[None, :] // 4) * EACH + tl.arange(0, EACH)[:, None]
    first_row, first_column = thread[None, :, None] < 4, thread[None, :] % 4 == 0
    while r < r_end:
        b, b_next = two(basis, i, r, 32)
        to = rows + r * 32 + j_to
        tl.store(to, _over_rows(p * b, EACH), mask=first_row)
        tl.store(to + 32, _over_rows(p * b_next, EACH), mask=first_row)
        r += 2
    while c < c_end:
        a, a_next = two(basis + 32 * 32, j, c, 32)
        to = columns + c * 32 + i_to
        tl.store(to, _over_columns(p * a, EACH), mask=first_column)
        tl.store(to + 32, _over_columns(p * a_next, EACH), mask=first_column)
        c += 2


@triton.jit
def _over_rows(p, EACH: tl.constexpr):
    """Sum over all rows ``(each, threads, 2)``, in every thread that has the column."""
    g = tl.sum(tl.reshape(tl.sum(p, 0), (EACH, 8, 4, 2)), 1)
    return tl.reshape(tl.broadcast_to(g[:, None, :, :], (EACH, 8, 4, 2)), (EACH, 32, 2))


@triton.jit
def _over_columns(p, EACH: tl.constexpr):
    """Sum over all columns ``(each, threads)``, in every thread that has the row."""
    h = tl.sum(tl.reshape(tl.sum(tl.sum(p, 3), 1), (EACH, 8, 4)), 2)
    return tl.reshape(tl.broadcast_to(h[:, :, None], (EACH, 8, 4)), (EACH, 32))


@triton.jit
def _whole(p):
    """Sum of all samples."""
    return tl.sum(tl.sum(tl.sum(tl.sum(p, 3), 1), 0), 0)


@triton.jit
def _windows(p):
    """Samples as windows of two by two, ``(2, 2, 2, 2, threads, 2)``: a window, inside it, and again across."""
    return tl.reshape(p, (2, 2, 2, 2, 32, 2))


@triton.jit
def _pool(p, LARGEST: tl.constexpr):
    """One sample of each window of two by two."""
    if LARGEST:
        return tl.max(tl.max(_windows(p), 3), 1)
    return tl.sum(tl.sum(_windows(p), 3), 1) * 0.25


@triton.jit
def _spread(d):
    """Pooled samples, each at all four places of its window."""
    return tl.broadcast_to(d[:, None, :, None, :, :], (2, 2, 2, 2, 32, 2))


@triton.jit
def _unpool(d, p, LARGEST: tl.constexpr):
    """Gradient at the samples ``p`` from that at the pooled ones; equal samples share."""
    share = _spread(d)
    if LARGEST:
        hit = tl.where(_windows(p) == _spread(_pool(p, True)), 1.0, 0.0)
        share = share * hit / _spread(tl.sum(tl.sum(hit, 3), 1))
    else:
        share = share * 0.25
    return tl.reshape(share, (4, 4, 32, 2))


@triton.jit
def _affine(weight, bias, table, level, inverse, q, C, AFFINE: tl.constexpr):
    """What a level's samples are multiplied by, and what is added."""
    s, m = inverse, 0.0
    if AFFINE:
        at = tl.load(table + level * 5) * C + q % C
        s, m = inverse * tl.load(weight + at).to(tl.float32), tl.load(bias + at).to(tl.float32)
    return s, m


@triton.jit
def sweep_forward_kernel(
    edges, weight, bias, basis, table, out_basis, out_table, levels, start, gap, down, across, eps, C,
    CODE: tl.constexpr, NORM: tl.constexpr, AFFINE: tl.constexpr, POOL: tl.constexpr, LARGEST: tl.constexpr,
):  # fmt: skip
    q = tl.program_id(0)
    rows, columns = edges + q * 1024, edges + gap + q * 1024
    z = zeros(32, 1)
    along = tl.zeros((1, 4, 32, 2), tl.float32)
    beside = tl.zeros((4, 1, 32, 1), tl.float32)
    level = 0
    while level < levels:
        if NORM:
            z, along, beside = _measure(z, along, beside, rows, columns, basis, table, level)
            inverse = tl.rsqrt(_variance(along, beside, down, across) + eps)
            s, m = _affine(weight, bias, table, level, inverse, start + q, C, AFFINE)
            p = activate(z * s + m, CODE)
        else:
            z = update(z, rows, columns, basis, table, level, 1, 32, 1)
            p = activate(z, CODE)
        if POOL == 2:
            p = _pool(p, LARGEST)
        tl.debug_barrier()  # the lines of this level have been read and are not needed again
        _project(p, rows, columns, out_basis, out_table, level, POOL)
        level += 1


@triton.jit
def sweep_backward_kernel(
    edges, gradients, inverses, d_scale, d_shift, d_variance, weight, bias, basis, table, out_basis, out_table,
    levels, start, gap, down, across, eps, Q, C,
    CODE: tl.constexpr, NORM: tl.constexpr, AFFINE: tl.constexpr, POOL: tl.constexpr, LARGEST: tl.constexpr,
):  # fmt: skip
    q = tl.program_id(0)
    tile = start + q
    rows, columns = edges + q * 1024, edges + gap + q * 1024
    g_rows, g_columns = gradients + q * 1024, gradients + gap + q * 1024
    z = zeros(32, 1)
    along = tl.zeros((1, 4, 32, 2), tl.float32)
    beside = tl.zeros((4, 1, 32, 1), tl.float32)
    level = 0
    while level < levels:
        if NORM:
            z, along, beside = _measure(z, along, beside, rows, columns, basis, table, level)
            tl.store(inverses + level * Q + tile, tl.rsqrt(_variance(along, beside, down, across) + eps))
        else:
            z = update(z, rows, columns, basis, table, level, 1, 32, 1)
        level += 1
    tl.debug_barrier()
    # Fine to coarse: what a level adds is part of its own samples and of every finer level's.
    total = zeros(32, 1)
    change = 0.0
    level = levels - 1
    while level >= 0:
        d = update(zeros(32, POOL), g_rows, g_columns, out_basis, out_table, level, 1, 32, POOL)
        if NORM:
            inverse = tl.load(inverses + level * Q + tile)
            s, m = _affine(weight, bias, table, level, inverse, tile, C, AFFINE)
            if POOL == 2:
                d = _unpool(d, activate(z * s + m, CODE), LARGEST)
            d = derivative(z * s + m, d, CODE)
            slope = _whole(d * z)  # padding has no gradient: the basis is zero there
            change -= slope * s * inverse * inverse
            tl.store(d_variance + level * Q + tile, change)
            tl.store(d_scale + level * Q + tile, slope * inverse)
            tl.store(d_shift + level * Q + tile, _whole(d))
            total += d * s
        else:
            if POOL == 2:
                d = _unpool(d, activate(z, CODE), LARGEST)
            total += derivative(z, d, CODE)
        tl.debug_barrier()  # the gradients' lines of this level have been read and are not needed again
        _project(total, g_rows, g_columns, basis, table, level, 1)
        z = update(z, rows, columns, basis, table, level, -1, 32, 1)
        level -= 1
