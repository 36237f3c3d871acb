"""The sweeps of :mod:`fourierscale.kernels.gpu.common_grid`, from coarse to fine and back.

A sweep is the work of a few warps on one image and channel. Its samples ``Z (side, side)``, the side being 32, 64 or
128, are spread over ``side^2 / 32`` threads in patches of four rows and twice four columns, held as
``(4, 4, threads, 2)``: an outer product then needs few loads, and a sum along rows or columns few exchanges.

Edges ``(tiles, side lines, side)`` hold a row or a column of the coefficients per line, from line 1 on: a level then
begins with an even line and has an even number of them. Line 0 is zero.
"""

import triton
import triton.language as tl

from fourierscale.kernels.gpu.shared import activate, derivative


@triton.jit
def _patch(SIDE: tl.constexpr, POOL: tl.constexpr):
    """Rows ``(4, 1, threads, 1)`` and columns ``(1, 4, threads, 2)`` of each thread's samples, pooled or not."""
    EACH: tl.constexpr = 4 // POOL
    ACROSS: tl.constexpr = SIDE // 8
    thread = tl.arange(0, SIDE * SIDE // 32)[None, None, :, None]
    i = (thread // ACROSS) * EACH + tl.arange(0, EACH)[:, None, None, None]
    j = (thread % ACROSS) * EACH + tl.arange(0, EACH)[None, :, None, None]
    return i, j + tl.arange(0, 2)[None, None, None, :] * (SIDE // POOL // 2)


@triton.jit
def _zeros(SIDE: tl.constexpr, POOL: tl.constexpr):
    return tl.zeros((4 // POOL, 4 // POOL, SIDE * SIDE // 32, 2), tl.float32)


@triton.jit
def _two(pointer, k, line, SIDE: tl.constexpr):
    """Two lines."""
    at = pointer + line * SIDE + k
    return tl.load(at), tl.load(at + SIDE)


@triton.jit
def _update(z, rows, columns, basis, table, level, SIGN: tl.constexpr, SIDE: tl.constexpr, POOL: tl.constexpr):
    """Add the outer products of a level to the samples, or take them away."""
    r, r_end, c, c_end = _rim(table, level)
    i, j = _patch(SIDE, POOL)
    while r < r_end:
        b, b_next = _two(basis, i, r, SIDE)
        u, u_next = _two(rows, j, r, SIDE)
        z += (SIGN * b) * u
        z += (SIGN * b_next) * u_next
        r += 2
    while c < c_end:
        a, a_next = _two(basis + SIDE * SIDE, j, c, SIDE)
        v, v_next = _two(columns, i, c, SIDE)
        z += (SIGN * v) * a
        z += (SIGN * v_next) * a_next
        c += 2
    return z


@triton.jit
def _measure(z, along, beside, rows, columns, basis, table, level, SIDE: tl.constexpr):
    """As :func:`_update`; also add the squares of a level's rows and columns, each thread those of its patch."""
    r, r_end, c, c_end = _rim(table, level)
    i, j = _patch(SIDE, 1)
    while r < r_end:
        b, b_next = _two(basis, i, r, SIDE)
        u, u_next = _two(rows, j, r, SIDE)
        z += b * u
        z += b_next * u_next
        along += u * u + u_next * u_next
        r += 2
    while c < c_end:
        a, a_next = _two(basis + SIDE * SIDE, j, c, SIDE)
        v, v_next = _two(columns, i, c, SIDE)
        z += v * a
        z += v_next * a_next
        beside += v * v + v_next * v_next
        c += 2
    return z, along, beside


@triton.jit
def _variance(along, beside, down, across, SIDE: tl.constexpr):
    """By Parseval's theorem; ``side / 4`` threads have the same columns, ``side / 8`` the same rows."""
    rows = tl.sum(tl.sum(tl.sum(along, 3), 1), 0) / (SIDE // 4 * across)
    columns = tl.sum(tl.sum(tl.sum(beside, 3), 1), 0) / (SIDE // 8 * down)
    return tl.sum(rows + columns, 0)


@triton.jit
def _project(p, rows, columns, basis, table, level, SIDE: tl.constexpr, POOL: tl.constexpr):
    """Write the rows and the columns of a rim of the analysed samples."""
    r, r_end, c, c_end = _rim(table, level)
    i, j = _patch(SIDE, POOL)
    thread = tl.arange(0, SIDE * SIDE // 32)
    ACROSS: tl.constexpr = SIDE // 8
    EACH: tl.constexpr = 4 // POOL
    j_to = (thread[None, :, None] % ACROSS) * EACH + tl.arange(0, EACH)[:, None, None]
    j_to += tl.arange(0, 2)[None, None, :] * (SIDE // POOL // 2)
    i_to = (thread[None, :] // ACROSS) * EACH + tl.arange(0, EACH)[:, None]
    first_row, first_column = thread[None, :, None] < ACROSS, thread[None, :] % ACROSS == 0
    while r < r_end:
        b, b_next = _two(basis, i, r, SIDE)
        to = rows + r * SIDE + j_to
        tl.store(to, _over_rows(p * b, SIDE, EACH), mask=first_row)
        tl.store(to + SIDE, _over_rows(p * b_next, SIDE, EACH), mask=first_row)
        r += 2
    while c < c_end:
        a, a_next = _two(basis + SIDE * SIDE, j, c, SIDE)
        to = columns + c * SIDE + i_to
        tl.store(to, _over_columns(p * a, SIDE, EACH), mask=first_column)
        tl.store(to + SIDE, _over_columns(p * a_next, SIDE, EACH), mask=first_column)
        c += 2


@triton.jit
def _over_rows(p, SIDE: tl.constexpr, EACH: tl.constexpr):
    """Sum over all rows ``(each, threads, 2)``, in every thread that has the column."""
    g = tl.sum(tl.reshape(tl.sum(p, 0), (EACH, SIDE // 4, SIDE // 8, 2)), 1)
    g = tl.broadcast_to(g[:, None, :, :], (EACH, SIDE // 4, SIDE // 8, 2))
    return tl.reshape(g, (EACH, SIDE * SIDE // 32, 2))


@triton.jit
def _over_columns(p, SIDE: tl.constexpr, EACH: tl.constexpr):
    """Sum over all columns ``(each, threads)``, in every thread that has the row."""
    h = tl.sum(tl.reshape(tl.sum(tl.sum(p, 3), 1), (EACH, SIDE // 4, SIDE // 8)), 2)
    h = tl.broadcast_to(h[:, :, None], (EACH, SIDE // 4, SIDE // 8))
    return tl.reshape(h, (EACH, SIDE * SIDE // 32))


@triton.jit
def _whole(p):
    """Sum of all samples."""
    return tl.sum(tl.sum(tl.sum(tl.sum(p, 3), 1), 0), 0)


@triton.jit
def _windows(p, THREADS: tl.constexpr):
    """Samples as windows of two by two, ``(2, 2, 2, 2, threads, 2)``: a window, inside it, and again across."""
    return tl.reshape(p, (2, 2, 2, 2, THREADS, 2))


@triton.jit
def _pool(p, THREADS: tl.constexpr, LARGEST: tl.constexpr):
    """One sample of each window of two by two."""
    windows = _windows(p, THREADS)
    if LARGEST:
        return tl.max(tl.max(windows, 3), 1)
    return tl.sum(tl.sum(windows, 3), 1) * 0.25


@triton.jit
def _unpool(d, p, THREADS: tl.constexpr, LARGEST: tl.constexpr):
    """Gradient at the samples ``p`` from that at the pooled ones; equal samples share."""
    share = tl.broadcast_to(d[:, None, :, None, :, :], (2, 2, 2, 2, THREADS, 2))
    if LARGEST:
        windows = _windows(p, THREADS)
        best = tl.broadcast_to(_pool(p, THREADS, True)[:, None, :, None, :, :], (2, 2, 2, 2, THREADS, 2))
        hit = tl.where(windows == best, 1.0, 0.0)
        hits = tl.broadcast_to(tl.sum(tl.sum(hit, 3), 1)[:, None, :, None, :, :], (2, 2, 2, 2, THREADS, 2))
        share = share * hit / hits
    else:
        share = share * 0.25
    return tl.reshape(share, (4, 4, THREADS, 2))


@triton.jit
def _rim(table, level):
    """First and last-plus-one row and column of a level's rim."""
    at = table + level * 5
    return tl.load(at + 1), tl.load(at + 3), tl.load(at + 2), tl.load(at + 4)


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
    edges,
    weight,
    bias,
    basis,
    table,
    out_basis,
    out_table,
    levels,
    start,
    gap,
    down,
    across,
    eps,
    C,
    CODE: tl.constexpr,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    SIDE: tl.constexpr,
    POOL: tl.constexpr,
    LARGEST: tl.constexpr,
):
    q = tl.program_id(0)
    THREADS: tl.constexpr = SIDE * SIDE // 32
    rows, columns = edges + q * SIDE * SIDE, edges + gap + q * SIDE * SIDE
    z = _zeros(SIDE, 1)
    along = tl.zeros((1, 4, THREADS, 2), tl.float32)
    beside = tl.zeros((4, 1, THREADS, 1), tl.float32)
    level = 0
    while level < levels:
        if NORM:
            z, along, beside = _measure(z, along, beside, rows, columns, basis, table, level, SIDE)
            inverse = tl.rsqrt(_variance(along, beside, down, across, SIDE) + eps)
            s, m = _affine(weight, bias, table, level, inverse, start + q, C, AFFINE)
            p = activate(z * s + m, CODE)
        else:
            z = _update(z, rows, columns, basis, table, level, 1, SIDE, 1)
            p = activate(z, CODE)
        if POOL == 2:
            p = _pool(p, THREADS, LARGEST)
        tl.debug_barrier()  # the lines of this level have been read and are not needed again
        _project(p, rows, columns, out_basis, out_table, level, SIDE, POOL)
        level += 1


@triton.jit
def sweep_backward_kernel(
    edges,
    gradients,
    weight,
    bias,
    inverses,
    d_scale,
    d_shift,
    d_variance,
    basis,
    table,
    out_basis,
    out_table,
    levels,
    start,
    gap,
    down,
    across,
    eps,
    Q,
    C,
    CODE: tl.constexpr,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    SIDE: tl.constexpr,
    POOL: tl.constexpr,
    LARGEST: tl.constexpr,
):
    q = tl.program_id(0)
    tile = start + q
    THREADS: tl.constexpr = SIDE * SIDE // 32
    rows, columns = edges + q * SIDE * SIDE, edges + gap + q * SIDE * SIDE
    g_rows, g_columns = gradients + q * SIDE * SIDE, gradients + gap + q * SIDE * SIDE
    z = _zeros(SIDE, 1)
    along = tl.zeros((1, 4, THREADS, 2), tl.float32)
    beside = tl.zeros((4, 1, THREADS, 1), tl.float32)
    level = 0
    while level < levels:
        if NORM:
            z, along, beside = _measure(z, along, beside, rows, columns, basis, table, level, SIDE)
            tl.store(inverses + level * Q + tile, tl.rsqrt(_variance(along, beside, down, across, SIDE) + eps))
        else:
            z = _update(z, rows, columns, basis, table, level, 1, SIDE, 1)
        level += 1
    tl.debug_barrier()
    # Fine to coarse: what a level adds is part of its own samples and of every finer level's.
    total = _zeros(SIDE, 1)
    change = 0.0
    level = levels - 1
    while level >= 0:
        d = _update(_zeros(SIDE, POOL), g_rows, g_columns, out_basis, out_table, level, 1, SIDE, POOL)
        if NORM:
            inverse = tl.load(inverses + level * Q + tile)
            s, m = _affine(weight, bias, table, level, inverse, tile, C, AFFINE)
            if POOL == 2:
                d = _unpool(d, activate(z * s + m, CODE), THREADS, LARGEST)
            d = derivative(z * s + m, d, CODE)
            slope = _whole(d * z)  # padding has no gradient: the basis is zero there
            change -= slope * s * inverse * inverse
            tl.store(d_variance + level * Q + tile, change)
            tl.store(d_scale + level * Q + tile, slope * inverse)
            tl.store(d_shift + level * Q + tile, _whole(d))
            total += d * s
        else:
            if POOL == 2:
                d = _unpool(d, activate(z, CODE), THREADS, LARGEST)
            total += derivative(z, d, CODE)
        tl.debug_barrier()  # the gradients' lines of this level have been read and are not needed again
        _project(total, g_rows, g_columns, basis, table, level, SIDE, 1)
        z = _update(z, rows, columns, basis, table, level, -1, SIDE, 1)
        level -= 1


@triton.jit
def sweep_pool_kernel(
    edges,
    best,
    places,
    basis,
    table,
    levels,
    start,
    gap,
    C,
    WINDOW: tl.constexpr,
    CELLS: tl.constexpr,
    SIDE: tl.constexpr,
):
    q = tl.program_id(0)
    tile = start + q
    i, j = _patch(SIDE, 1)
    rows, columns = edges + q * SIDE * SIDE, edges + gap + q * SIDE * SIDE
    z = _zeros(SIDE, 1)
    place = i * (WINDOW * CELLS) + j
    cell_of = (i // WINDOW) * CELLS + j // WINDOW
    cell_of = tl.where((i < WINDOW * CELLS) & (j < WINDOW * CELLS), cell_of, -1)
    level = 0
    while level < levels:
        z = _update(z, rows, columns, basis, table, level, 1, SIDE, 1)
        for cell in tl.static_range(CELLS * CELLS):
            inside = tl.where(cell_of == cell, z, float("-inf"))
            value = tl.max(tl.max(tl.max(tl.max(inside, 3), 1), 0), 0)
            at = tl.where(inside == value, place, WINDOW * CELLS * WINDOW * CELLS - 1)
            at = tl.min(tl.min(tl.min(tl.min(at, 3), 1), 0), 0)
            # the samples' place among (B, levels, C, cells), the places' among (B, C, levels, cells)
            to = ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell
            tl.store(best + to, value)
            tl.store(places + (tile * levels + level) * (CELLS * CELLS) + cell, at.to(tl.int64))
        level += 1


@triton.jit
def unpool_kernel(gradient, places, tiles, basis, table, levels, n, C, CELLS: tl.constexpr, SIDE: tl.constexpr):
    tile = tl.program_id(0)
    i, j = _patch(SIDE, 1)
    z = _zeros(SIDE, 1)
    level = 0
    while level < levels:
        _, r_end, _, c_end = _rim(table, level)
        for cell in tl.static_range(CELLS * CELLS):
            g = tl.load(gradient + ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell)
            place = tl.load(places + (tile * levels + level) * (CELLS * CELLS) + cell).to(tl.int32)
            b = tl.load(basis + place // n * SIDE + i)
            a = tl.load(basis + SIDE * SIDE + place % n * SIDE + j)
            z += (tl.where(i < r_end, b, 0.0) * g.to(tl.float32)) * tl.where(j < c_end, a, 0.0)
        level += 1
    tl.store(tiles + tile * SIDE * SIDE + i * SIDE + j, z)
