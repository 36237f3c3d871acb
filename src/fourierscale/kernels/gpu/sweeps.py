"""The kernels of :mod:`fourierscale.kernels.gpu.common_grid`.

A sweep is the work of one warp on one image and channel. Its samples ``Z (32, 32)`` are spread over the 32 threads in
patches of four rows and twice four columns, held as ``(4, 4, 32, 2)``, the third axis being the thread: an outer
product then needs few loads, and a sum along rows or columns few exchanges between threads.

Edges ``(tiles, 32 lines, 32)`` hold a row or a column of the coefficients per line, from line 1 on: a level then begins
with an even line and has an even number of them. Line 0 is zero.
"""

import triton
import triton.language as tl

from fourierscale.kernels.gpu.shared import activate, derivative, product


@triton.jit
def _line(level_of, down, across):
    """Which row or column of the coefficients a program has: its side, number, level, and the entries that count."""
    line = tl.program_id(1)
    side = (line >= down).to(tl.int32)
    own = line - side * down
    level = tl.load(level_of + side * 32 + own)
    k = tl.arange(0, 32)
    # A rim's corner belongs to its rows.
    reach = tl.load(level_of + (1 - side) * 32 + k) < level + 1 - side
    reach = reach & (k < tl.where(side == 1, down, across))
    places = tl.where(side == 1, k * across + own, own * across + k)
    return side, own, level, reach, places


@triton.jit
def prepare_kernel(
    x_ptr,
    edges,
    basis,
    level_of,
    down,
    across,
    start,
    stop,
    gap,
    factor,
    Q,
    NORM: tl.constexpr,
    PRECISION: tl.constexpr,
    TILES: tl.constexpr,
):
    side, own, level, reach, places = _line(level_of, down, across)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, 32)
    if NORM:
        reach = reach & (places > 0)
    x = tl.load(x_ptr + places[None, :] * Q + q[:, None], mask=reach[None, :] & (q < stop)[:, None], other=0.0)
    b = tl.load(basis + (1 - side) * 1024 + 32 + k[:, None] * 32 + k[None, :], mask=k[:, None] < 31, other=0.0)
    u = product(x.to(tl.float32) * factor, b, PRECISION)
    to = edges + side * gap + (q - start)[:, None] * 1024 + own * 32 + k[None, :]
    tl.store(to + 32, u, mask=(q < stop)[:, None] & (level + 1 - side > 0))
    if own == 0:
        tl.store(to, tl.zeros((TILES, 32), tl.float32), mask=(q < stop)[:, None])


@triton.jit
def finish_kernel(
    edges,
    y_ptr,
    x_ptr,
    d_variance,
    basis,
    level_of,
    down,
    across,
    start,
    stop,
    gap,
    factor,
    Q,
    NORM: tl.constexpr,
    PRECISION: tl.constexpr,
    TILES: tl.constexpr,
):
    side, own, level, reach, places = _line(level_of, down, across)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, 32)
    here = (q < stop)[None, :] & (level + 1 - side > 0)
    g = tl.load(edges + side * gap + (q - start)[None, :] * 1024 + own * 32 + 32 + k[:, None], mask=here, other=0.0)
    b = tl.load(basis + (1 - side) * 1024 + 32 + k[:, None] * 32 + k[None, :], mask=k[:, None] < 31, other=0.0)
    y = product(b, g, PRECISION) * factor
    at = places[:, None] * Q + q[None, :]
    inside = reach[:, None] & (q < stop)[None, :]
    if NORM:  # the gradient through the variance; the mean has none
        change = tl.load(d_variance + level * Q + q, mask=q < stop, other=0.0)
        y += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * change[None, :]
        y = tl.where(places[:, None] > 0, y, 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _patch():
    """Rows ``(4, 1, 32, 1)`` and columns ``(1, 4, 32, 2)`` of each thread's samples."""
    thread = tl.arange(0, 32)[None, None, :, None]
    i = (thread // 4) * 4 + tl.arange(0, 4)[:, None, None, None]
    j = (thread % 4) * 4 + tl.arange(0, 4)[None, :, None, None] + tl.arange(0, 2)[None, None, None, :] * 16
    return i, j


@triton.jit
def _two(pointer, k, line):
    """Two lines of 32."""
    at = pointer + line * 32 + k
    return tl.load(at), tl.load(at + 32)


@triton.jit
def _update(z, rows, columns, basis, r, r_end, c, c_end, SIGN: tl.constexpr):
    """Add the outer products of a level to the samples, or take them away."""
    i, j = _patch()
    while r < r_end:
        b, b_next = _two(basis, i, r)
        u, u_next = _two(rows, j, r)
        z += (SIGN * b) * u
        z += (SIGN * b_next) * u_next
        r += 2
    while c < c_end:
        a, a_next = _two(basis + 1024, j, c)
        v, v_next = _two(columns, i, c)
        z += (SIGN * v) * a
        z += (SIGN * v_next) * a_next
        c += 2
    return z


@triton.jit
def _measure(z, along, beside, rows, columns, basis, r, r_end, c, c_end):
    """As :func:`_update`; also add the squares of a level's rows and columns, each thread those of its patch."""
    i, j = _patch()
    while r < r_end:
        b, b_next = _two(basis, i, r)
        u, u_next = _two(rows, j, r)
        z += b * u
        z += b_next * u_next
        along += u * u + u_next * u_next
        r += 2
    while c < c_end:
        a, a_next = _two(basis + 1024, j, c)
        v, v_next = _two(columns, i, c)
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
def _project(p, rows, columns, basis, r, r_end, c, c_end):
    """Write the rows and the columns of a rim of the analysed samples."""
    i, j = _patch()
    thread = tl.arange(0, 32)
    j_to = (thread[None, :, None] % 4) * 4 + tl.arange(0, 4)[:, None, None] + tl.arange(0, 2)[None, None, :] * 16
    i_to = (thread[None, :] // 4) * 4 + tl.arange(0, 4)[:, None]
    while r < r_end:
        b, b_next = _two(basis, i, r)
        tl.store(rows + r * 32 + j_to, _over_rows(p * b), mask=thread[None, :, None] < 4)
        tl.store(rows + r * 32 + 32 + j_to, _over_rows(p * b_next), mask=thread[None, :, None] < 4)
        r += 2
    while c < c_end:
        a, a_next = _two(basis + 1024, j, c)
        tl.store(columns + c * 32 + i_to, _over_columns(p * a), mask=thread[None, :] % 4 == 0)
        tl.store(columns + c * 32 + 32 + i_to, _over_columns(p * a_next), mask=thread[None, :] % 4 == 0)
        c += 2


@triton.jit
def _over_rows(p):
    """Sum over all rows ``(4, 32, 2)``, in every thread that has the column."""
    g = tl.sum(tl.reshape(tl.sum(p, 0), (4, 8, 4, 2)), 1)
    return tl.reshape(tl.broadcast_to(g[:, None, :, :], (4, 8, 4, 2)), (4, 32, 2))


@triton.jit
def _over_columns(p):
    """Sum over all columns ``(4, 32)``, in every thread that has the row."""
    h = tl.sum(tl.reshape(tl.sum(tl.sum(p, 3), 1), (4, 8, 4)), 2)
    return tl.reshape(tl.broadcast_to(h[:, :, None], (4, 8, 4)), (4, 32))


@triton.jit
def _whole(p):
    """Sum of all samples."""
    return tl.sum(tl.sum(tl.sum(tl.sum(p, 3), 1), 0), 0)


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
):
    q = tl.program_id(0)
    rows, columns = edges + q * 1024, edges + gap + q * 1024
    z = tl.zeros((4, 4, 32, 2), tl.float32)
    along = tl.zeros((1, 4, 32, 2), tl.float32)
    beside = tl.zeros((4, 1, 32, 1), tl.float32)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level)
        if NORM:
            z, along, beside = _measure(z, along, beside, rows, columns, basis, r, r_end, c, c_end)
            inverse = tl.rsqrt(_variance(along, beside, down, across) + eps)
            s, m = _affine(weight, bias, table, level, inverse, start + q, C, AFFINE)
            p = activate(z * s + m, CODE)
        else:
            z = _update(z, rows, columns, basis, r, r_end, c, c_end, 1)
            p = activate(z, CODE)
        tl.debug_barrier()  # the lines of this level have been read and are not needed again
        _project(p, rows, columns, basis, r, r_end, c, c_end)
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
):
    q = tl.program_id(0)
    tile = start + q
    rows, columns = edges + q * 1024, edges + gap + q * 1024
    g_rows, g_columns = gradients + q * 1024, gradients + gap + q * 1024
    z = tl.zeros((4, 4, 32, 2), tl.float32)
    along = tl.zeros((1, 4, 32, 2), tl.float32)
    beside = tl.zeros((4, 1, 32, 1), tl.float32)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level)
        if NORM:
            z, along, beside = _measure(z, along, beside, rows, columns, basis, r, r_end, c, c_end)
            tl.store(inverses + level * Q + tile, tl.rsqrt(_variance(along, beside, down, across) + eps))
        else:
            z = _update(z, rows, columns, basis, r, r_end, c, c_end, 1)
        level += 1
    tl.debug_barrier()
    # Fine to coarse: what a level adds is part of its own samples and of every finer level's.
    total = tl.zeros((4, 4, 32, 2), tl.float32)
    change = 0.0
    level = levels - 1
    while level >= 0:
        r, r_end, c, c_end = _rim(table, level)
        d = tl.zeros((4, 4, 32, 2), tl.float32)
        d = _update(d, g_rows, g_columns, basis, r, r_end, c, c_end, 1)
        if NORM:
            inverse = tl.load(inverses + level * Q + tile)
            s, m = _affine(weight, bias, table, level, inverse, tile, C, AFFINE)
            d = derivative(z * s + m, d, CODE)
            slope = _whole(d * z)  # padding has no gradient: the basis is zero there
            change -= slope * s * inverse * inverse
            tl.store(d_variance + level * Q + tile, change)
            tl.store(d_scale + level * Q + tile, slope * inverse)
            tl.store(d_shift + level * Q + tile, _whole(d))
            total += d * s
        else:
            total += derivative(z, d, CODE)
        tl.debug_barrier()  # the gradients' lines of this level have been read and are not needed again
        _project(total, g_rows, g_columns, basis, r, r_end, c, c_end)
        z = _update(z, rows, columns, basis, r, r_end, c, c_end, -1)
        level -= 1


@triton.jit
def sweep_pool_kernel(
    edges, best, places, basis, table, levels, start, gap, C, WINDOW: tl.constexpr, CELLS: tl.constexpr
):
    q = tl.program_id(0)
    tile = start + q
    i, j = _patch()
    z = tl.zeros((4, 4, 32, 2), tl.float32)
    place = i * (WINDOW * CELLS) + j
    cell_of = (i // WINDOW) * CELLS + j // WINDOW
    cell_of = tl.where((i < WINDOW * CELLS) & (j < WINDOW * CELLS), cell_of, -1)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level)
        z = _update(z, edges + q * 1024, edges + gap + q * 1024, basis, r, r_end, c, c_end, 1)
        for cell in tl.static_range(CELLS * CELLS):
            inside = tl.where(cell_of == cell, z, float("-inf"))
            value = tl.max(tl.max(tl.max(tl.max(inside, 3), 1), 0), 0)
            at = tl.where(inside == value, place, WINDOW * CELLS * WINDOW * CELLS)
            at = tl.min(tl.min(tl.min(tl.min(at, 3), 1), 0), 0)
            # the samples' place among (B, levels, C, cells), the places' among (B, C, levels, cells)
            to = ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell
            tl.store(best + to, value)
            tl.store(places + (tile * levels + level) * (CELLS * CELLS) + cell, at.to(tl.int64))
        level += 1


@triton.jit
def unpool_kernel(gradient, places, tiles, basis, table, levels, n, C, CELLS: tl.constexpr):
    tile = tl.program_id(0)
    i, j = _patch()
    z = tl.zeros((4, 4, 32, 2), tl.float32)
    level = 0
    while level < levels:
        _, r_end, _, c_end = _rim(table, level)
        for cell in tl.static_range(CELLS * CELLS):
            g = tl.load(gradient + ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell)
            place = tl.load(places + (tile * levels + level) * (CELLS * CELLS) + cell).to(tl.int32)
            b = tl.load(basis + place // n * 32 + i)
            a = tl.load(basis + 1024 + place % n * 32 + j)
            z += (tl.where(i < r_end, b, 0.0) * g.to(tl.float32)) * tl.where(j < c_end, a, 0.0)
        level += 1
    tl.store(tiles + tile * 1024 + i * 32 + j, z)
