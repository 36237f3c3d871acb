"""The kernels of :mod:`fourierscale.kernels.gpu.common_grid`.

A sweep is the work of one warp on one image and channel. Its samples ``Z (32, 32)`` are spread over the 32 threads in
patches of four rows and eight columns, held as ``(4, 8, 32)``, the last axis being the thread: an outer product then
needs few loads, and a sum along rows or columns few exchanges between threads.
"""

import triton
import triton.language as tl

from fourierscale.kernels.gpu.shared import activate, derivative, larger, product


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
    b = tl.load(basis + (1 - side) * 1024 + k[:, None] * 32 + k[None, :])
    u = product(x.to(tl.float32) * factor, b, PRECISION)
    to = edges + side * gap + (q - start)[:, None] * 1024 + own * 32 + k[None, :]
    tl.store(to, u, mask=(q < stop)[:, None] & (level + 1 - side > 0))


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
    g = tl.load(edges + side * gap + (q - start)[None, :] * 1024 + own * 32 + k[:, None], mask=here, other=0.0)
    b = tl.load(basis + (1 - side) * 1024 + k[:, None] * 32 + k[None, :])
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
    """Rows ``(4, 1, 32)`` and columns ``(1, 8, 32)`` of each thread's samples."""
    thread = tl.arange(0, 32)[None, None, :]
    i = (thread // 4) * 4 + tl.arange(0, 4)[:, None, None]
    j = (thread % 4) * 8 + tl.arange(0, 8)[None, :, None]
    return i, j


@triton.jit
def _outer(z, a, b, SIGN: tl.constexpr):
    if SIGN > 0:
        z += a * b
    else:
        z -= a * b
    return z


@triton.jit
def _two(pointer, k, at, end):
    """Two lines of 32, the second zero if it is beyond the end."""
    return tl.load(pointer + at * 32 + k), tl.load(pointer + at * 32 + 32 + k, mask=k * 0 + at + 1 < end, other=0.0)


@triton.jit
def _update(z, rows, columns, basis, r, r_end, c, c_end, SIGN: tl.constexpr):
    """Add the outer products of a level to the samples, or take them away."""
    i, j = _patch()
    while r < r_end:
        b, b_next = _two(basis, i, r, r_end)
        u, u_next = _two(rows, j, r, r_end)
        z = _outer(z, b, u, SIGN)
        z = _outer(z, b_next, u_next, SIGN)
        r += 2
    while c < c_end:
        a, a_next = _two(basis + 1024, j, c, c_end)
        v, v_next = _two(columns, i, c, c_end)
        z = _outer(z, v, a, SIGN)
        z = _outer(z, v_next, a_next, SIGN)
        c += 2
    return z


@triton.jit
def _energy(energy, rows, columns, r, r_end, c, c_end, down, across):
    """Add the squares of a level's coefficients, by Parseval's theorem those of its rows and columns; per thread."""
    i, j = _patch()
    while r < r_end:
        u, u_next = _two(rows, j, r, r_end)
        energy += tl.sum(u * u + u_next * u_next, 1) / (8 * across)  # a row is in eight threads each
        r += 2
    while c < c_end:
        v, v_next = _two(columns, i, c, c_end)
        energy += tl.sum(v * v + v_next * v_next, 0) / (4 * down)
        c += 2
    return energy


@triton.jit
def _project(p, rows, columns, basis, r, r_end, c, c_end):
    """Write the rows and the columns of a rim of the analysed samples."""
    i, j = _patch()
    jj = tl.arange(0, 8)[:, None] + tl.arange(0, 4)[None, :] * 8
    ii = tl.arange(0, 4)[:, None] + tl.arange(0, 8)[None, :] * 4
    while r < r_end:
        b, b_next = _two(basis, i, r, r_end)
        g = tl.sum(tl.reshape(tl.sum(p * b, 0), (8, 8, 4)), 1)
        g_next = tl.sum(tl.reshape(tl.sum(p * b_next, 0), (8, 8, 4)), 1)
        tl.store(rows + r * 32 + jj, g)
        tl.store(rows + r * 32 + 32 + jj, g_next, mask=jj * 0 + r + 1 < r_end)
        r += 2
    while c < c_end:
        a, a_next = _two(basis + 1024, j, c, c_end)
        h = tl.sum(tl.reshape(tl.sum(p * a, 1), (4, 8, 4)), 2)
        h_next = tl.sum(tl.reshape(tl.sum(p * a_next, 1), (4, 8, 4)), 2)
        tl.store(columns + c * 32 + ii, h)
        tl.store(columns + c * 32 + 32 + ii, h_next, mask=ii * 0 + c + 1 < c_end)
        c += 2


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
    outputs,
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
    z = tl.zeros((4, 8, 32), tl.float32)
    energy = tl.zeros((1, 32), tl.float32)
    s, m = 1.0, 0.0
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level)
        rows, columns = edges + q * 1024, edges + gap + q * 1024
        z = _update(z, rows, columns, basis, r, r_end, c, c_end, 1)
        p = z
        if NORM:
            energy = _energy(energy, rows, columns, r, r_end, c, c_end, down, across)
            inverse = tl.rsqrt(tl.sum(tl.sum(energy, 1), 0) + eps)
            s, m = _affine(weight, bias, table, level, inverse, start + q, C, AFFINE)
            p = z * s + m
        p = activate(p, CODE)
        _project(p, outputs + q * 1024, outputs + gap + q * 1024, basis, r, r_end, c, c_end)
        level += 1


@triton.jit
def sweep_backward_kernel(
    edges,
    gradients,
    outputs,
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
    z = tl.zeros((4, 8, 32), tl.float32)
    energy = tl.zeros((1, 32), tl.float32)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level)
        z = _update(z, rows, columns, basis, r, r_end, c, c_end, 1)
        if NORM:
            energy = _energy(energy, rows, columns, r, r_end, c, c_end, down, across)
            tl.store(inverses + level * Q + tile, tl.rsqrt(tl.sum(tl.sum(energy, 1), 0) + eps))
        level += 1
    tl.debug_barrier()
    # Fine to coarse: what a level adds is part of its own samples and of every finer level's.
    total = tl.zeros((4, 8, 32), tl.float32)
    change = 0.0
    level = levels - 1
    while level >= 0:
        r, r_end, c, c_end = _rim(table, level)
        d = tl.zeros((4, 8, 32), tl.float32)
        g_rows, g_columns = gradients + q * 1024, gradients + gap + q * 1024
        d = _update(d, g_rows, g_columns, basis, r, r_end, c, c_end, 1)
        if NORM:
            inverse = tl.load(inverses + level * Q + tile)
            s, m = _affine(weight, bias, table, level, inverse, tile, C, AFFINE)
            d = derivative(z * s + m, d, CODE)
            # padding has no gradient: the basis is zero there
            slope = tl.sum(tl.sum(tl.sum(d * z, 0), 0), 0)
            change -= slope * s * inverse * inverse
            tl.store(d_variance + level * Q + tile, change)
            tl.store(d_scale + level * Q + tile, slope * inverse)
            tl.store(d_shift + level * Q + tile, tl.sum(tl.sum(tl.sum(d, 0), 0), 0))
            total += d * s
        else:
            total += derivative(z, d, CODE)
        _project(total, outputs + q * 1024, outputs + gap + q * 1024, basis, r, r_end, c, c_end)
        z = _update(z, rows, columns, basis, r, r_end, c, c_end, -1)
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
):
    q = tl.program_id(0)
    tile = start + q
    i, j = _patch()
    z = tl.zeros((4, 8, 32), tl.float32)
    place = i * (WINDOW * CELLS) + j
    cell_of = (i // WINDOW) * CELLS + j // WINDOW
    cell_of = tl.where((i < WINDOW * CELLS) & (j < WINDOW * CELLS), cell_of, -1)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level)
        z = _update(z, edges + q * 1024, edges + gap + q * 1024, basis, r, r_end, c, c_end, 1)
        for cell in tl.static_range(CELLS * CELLS):
            value, at = tl.reduce((tl.where(cell_of == cell, z, float("-inf")), place), 0, larger)
            value, at = tl.reduce((value, at), 0, larger)
            value, at = tl.reduce((value, at), 0, larger)
            # the samples' place among (B, levels, C, cells), the places' among (B, C, levels, cells)
            to = ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell
            tl.store(best + to, value)
            tl.store(places + (tile * levels + level) * (CELLS * CELLS) + cell, at.to(tl.int64))
        level += 1


@triton.jit
def unpool_kernel(gradient, places, tiles, basis, table, levels, start, n, C, CELLS: tl.constexpr):
    q = tl.program_id(0)
    tile = start + q
    i, j = _patch()
    z = tl.zeros((4, 8, 32), tl.float32)
    level = 0
    while level < levels:
        _, r_end, _, c_end = _rim(table, level)
        for cell in tl.static_range(CELLS * CELLS):
            g = tl.load(gradient + ((tile // C * levels + level) * C + tile % C) * (CELLS * CELLS) + cell)
            place = tl.load(places + (tile * levels + level) * (CELLS * CELLS) + cell).to(tl.int32)
            b = tl.load(basis + place // n * 32 + i, mask=i < r_end, other=0.0)
            a = tl.load(basis + 1024 + place % n * 32 + j, mask=j < c_end, other=0.0)
            z += (b * g.to(tl.float32)) * a
        level += 1
    tl.store(tiles + q * 1024 + i * 32 + j, z)
