"""The kernels of :mod:`fourierscale.kernels.gpu.common_grid`."""

import triton
import triton.language as tl

from fourierscale.kernels.gpu.shared import activate, derivative, larger, product


@triton.jit
def _tile(first, row_stride, column_stride, tile_stride, TILES: tl.constexpr):
    """Indices of a block ``(32, tiles, 32)`` and its offsets under these strides."""
    i = tl.arange(0, 32)[:, None, None]
    t = tl.arange(0, TILES)[None, :, None]
    j = tl.arange(0, 32)[None, None, :]
    return i, first + t, j, i * row_stride + (first + t) * tile_stride + j * column_stride


@triton.jit
def prepare_kernel(
    x_ptr,
    edges,
    scale,
    shift,
    weight,
    bias,
    basis,
    level_of,
    table,
    levels,
    down,
    across,
    start,
    stop,
    gap,
    eps,
    factor,
    Q,
    C,
    NORM: tl.constexpr,
    AFFINE: tl.constexpr,
    LEVELS: tl.constexpr,
    PRECISION: tl.constexpr,
    TILES: tl.constexpr,
):
    P: tl.constexpr = 32
    first = start + tl.program_id(0) * TILES
    i, q, j, at = _tile(first, across * Q, Q, 1, TILES)
    row_level = tl.load(level_of + tl.arange(0, P))
    column_level = tl.load(level_of + P + tl.arange(0, P))
    of_row = column_level[None, None, :] <= row_level[:, None, None]  # a rim's corner belongs to its rows
    inside = (i < down) & (j < across) & (q < stop)
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * factor
    if NORM:
        x = tl.where((i == 0) & (j == 0), 0.0, x)
    square = tl.arange(0, P)[:, None] * P + tl.arange(0, P)[None, :]
    rows = tl.where(of_row, x, 0.0)
    columns = x - rows
    u = product(tl.reshape(rows, (P * TILES, P)), tl.load(basis + P * P + square), PRECISION)
    _, _, _, to = _tile(first - start, P, 1, P * P, TILES)
    tl.store(edges + to, tl.reshape(u, (P, TILES, P)), mask=(i < down) & (q < stop) & (j < P))
    v = product(tl.trans(tl.load(basis + square)), tl.reshape(columns, (P, TILES * P)), PRECISION)
    _, _, _, to = _tile(first - start, 1, P, P * P, TILES)
    tl.store(edges + gap + to, tl.reshape(v, (P, TILES, P)), mask=(i < P) & (q < stop) & (j < across))
    if NORM:
        tile = (first + tl.arange(0, TILES))[None, :]
        level = tl.arange(0, LEVELS)[:, None]
        by_row = tl.sum(rows * rows, 2)  # (rows, tiles)
        by_column = tl.sum(columns * columns, 0)  # (tiles, columns)
        of_rows = row_level[None, :, None] <= level[:, :, None]
        of_columns = column_level[None, None, :] <= level[:, :, None]
        variance = tl.sum(tl.where(of_rows, by_row[None, :, :], 0.0), 1)
        variance += tl.sum(tl.where(of_columns, by_column[None, :, :], 0.0), 2)  # (levels, tiles)
        here = (level < levels) & (tile < stop)
        s = tl.rsqrt(variance + eps)
        tl.store(scale + (levels + level) * Q + tile, s, mask=here)
        m = tl.zeros((LEVELS, TILES), tl.float32)
        if AFFINE:
            own = tl.load(table + level * 5, mask=level < levels, other=0) * C + tile % C
            s *= tl.load(weight + own, mask=here, other=0.0).to(tl.float32)
            m = tl.load(bias + own, mask=here, other=0.0).to(tl.float32)
        tl.store(scale + level * Q + tile, s, mask=here)
        tl.store(shift + level * Q + tile, m, mask=here)


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
    P: tl.constexpr = 32
    first = start + tl.program_id(0) * TILES
    i, q, j, at = _tile(first, across * Q, Q, 1, TILES)
    row_level = tl.load(level_of + tl.arange(0, P))[:, None, None]
    column_level = tl.load(level_of + P + tl.arange(0, P))[None, None, :]
    square = tl.arange(0, P)[:, None] * P + tl.arange(0, P)[None, :]
    _, _, _, to = _tile(first - start, P, 1, P * P, TILES)
    g = tl.load(edges + to, mask=(i < down) & (q < stop) & (j < P), other=0.0)
    rows = product(tl.reshape(g, (P * TILES, P)), tl.trans(tl.load(basis + P * P + square)), PRECISION)
    _, _, _, to = _tile(first - start, 1, P, P * P, TILES)
    h = tl.load(edges + gap + to, mask=(i < P) & (q < stop) & (j < across), other=0.0)
    columns = product(tl.load(basis + square), tl.reshape(h, (P, TILES * P)), PRECISION)
    y = tl.where(column_level <= row_level, tl.reshape(rows, (P, TILES, P)), tl.reshape(columns, (P, TILES, P)))
    y *= factor
    inside = (i < down) & (j < across) & (q < stop)
    if NORM:  # the gradient through the variance; the mean has none
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        y += x * tl.load(d_variance + tl.maximum(row_level, column_level) * Q + q, mask=inside, other=0.0)
        y = tl.where((i == 0) & (j == 0), 0.0, y)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _pair(pointer, r, end):
    """Two vectors of 32, the second zero if it is beyond the end."""
    k = tl.arange(0, 32)
    return tl.load(pointer + r * 32 + k), tl.load(pointer + (r + 1) * 32 + k, mask=k * 0 + r + 1 < end, other=0.0)


@triton.jit
def _update(z, own, other, own_basis, other_basis, r, r_end, c, c_end):
    """Add the outer products of a level to the samples ``(32, 32)``, two of each kind at a time."""
    while (r < r_end) & (c < c_end):
        b, b_next = _pair(own_basis, r, r_end)
        u, u_next = _pair(own, r, r_end)
        v, v_next = _pair(other, c, c_end)
        a, a_next = _pair(other_basis, c, c_end)
        z += b[:, None] * u[None, :] + b_next[:, None] * u_next[None, :]
        z += v[:, None] * a[None, :] + v_next[:, None] * a_next[None, :]
        r += 2
        c += 2
    while r < r_end:
        b, b_next = _pair(own_basis, r, r_end)
        u, u_next = _pair(own, r, r_end)
        z += b[:, None] * u[None, :] + b_next[:, None] * u_next[None, :]
        r += 2
    while c < c_end:
        v, v_next = _pair(other, c, c_end)
        a, a_next = _pair(other_basis, c, c_end)
        z += v[:, None] * a[None, :] + v_next[:, None] * a_next[None, :]
        c += 2
    return z


@triton.jit
def _rim(table, level, side):
    """First and last coefficient of a level's rim along the sweep and across it."""
    at = table + level * 5
    return tl.load(at + 1 + side), tl.load(at + 3 + side), tl.load(at + 2 - side), tl.load(at + 4 - side)


@triton.jit
def sweep_forward_kernel(
    edges, outputs, scale, shift, basis, table, levels, start, gap, Q, CODE: tl.constexpr, NORM: tl.constexpr
):
    q, side = tl.program_id(0), tl.program_id(1)
    own, other = edges + side * gap + q * 1024, edges + (1 - side) * gap + q * 1024
    own_basis, other_basis = basis + side * 1024, basis + (1 - side) * 1024
    out = outputs + side * gap + q * 1024
    k = tl.arange(0, 32)
    z = tl.zeros((32, 32), tl.float32)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level, side)
        s, m = 1.0, 0.0
        if NORM:
            s = tl.load(scale + level * Q + start + q)
            m = tl.load(shift + level * Q + start + q)
        z = _update(z, own, other, own_basis, other_basis, r, r_end, c, c_end)
        p = activate(z * s + m, CODE)
        while r < r_end:
            b, b_next = _pair(own_basis, r, r_end)
            tl.store(out + r * 32 + k, tl.sum(p * b[:, None], 0))
            tl.store(out + (r + 1) * 32 + k, tl.sum(p * b_next[:, None], 0), mask=k * 0 + r + 1 < r_end)
            r += 2
        level += 1


@triton.jit
def sweep_backward_kernel(
    edges,
    gradients,
    outputs,
    scale,
    shift,
    sums,
    basis,
    table,
    levels,
    start,
    gap,
    Q,
    CODE: tl.constexpr,
    NORM: tl.constexpr,
):
    q, side = tl.program_id(0), tl.program_id(1)
    own, other = edges + side * gap + q * 1024, edges + (1 - side) * gap + q * 1024
    g_own, g_other = gradients + side * gap + q * 1024, gradients + (1 - side) * gap + q * 1024
    own_basis, other_basis = basis + side * 1024, basis + (1 - side) * 1024
    out = outputs + side * gap + q * 1024
    k = tl.arange(0, 32)
    z = tl.zeros((32, 32), tl.float32)
    total = tl.zeros((32, 32), tl.float32)  # of the gradients at the samples, level by level
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level, side)
        s, m = 1.0, 0.0
        if NORM:
            s = tl.load(scale + level * Q + start + q)
            m = tl.load(shift + level * Q + start + q)
        z = _update(z, own, other, own_basis, other_basis, r, r_end, c, c_end)
        d = tl.zeros((32, 32), tl.float32)
        d = _update(d, g_own, g_other, own_basis, other_basis, r, r_end, c, c_end)
        # What a level adds is part of its own samples and of every finer level's: the sum of all less those before.
        while r < r_end:
            b, b_next = _pair(own_basis, r, r_end)
            tl.store(out + r * 32 + k, -tl.sum(total * b[:, None], 0))
            tl.store(out + (r + 1) * 32 + k, -tl.sum(total * b_next[:, None], 0), mask=k * 0 + r + 1 < r_end)
            r += 2
        d = derivative(z * s + m, d, CODE)
        if NORM:
            if side == 0:  # padding has no gradient: the basis is zero there
                tl.store(sums + level * Q + start + q, tl.sum(tl.sum(d * z, 0), 0))
                tl.store(sums + (levels + level) * Q + start + q, tl.sum(tl.sum(d, 0), 0))
        total += d * s
        level += 1
    tl.debug_barrier()
    r = 0
    r_end = tl.load(table + (levels - 1) * 5 + 3 + side)
    while r < r_end:
        b, b_next = _pair(own_basis, r, r_end)
        before, before_next = _pair(out, r, r_end)
        tl.store(out + r * 32 + k, before + tl.sum(total * b[:, None], 0))
        tl.store(out + (r + 1) * 32 + k, before_next + tl.sum(total * b_next[:, None], 0), mask=k * 0 + r + 1 < r_end)
        r += 2


@triton.jit
def sweep_pool_kernel(
    edges, best, places, basis, table, levels, n, start, gap, WINDOW: tl.constexpr, CELLS: tl.constexpr
):
    q = tl.program_id(0)
    k = tl.arange(0, 32)
    z = tl.zeros((32, 32), tl.float32)
    rows = k[:, None] + tl.zeros((32, 32), tl.int32)
    level = 0
    while level < levels:
        r, r_end, c, c_end = _rim(table, level, 0)
        z = _update(z, edges + q * 1024, edges + gap + q * 1024, basis, basis + 1024, r, r_end, c, c_end)
        for cell in tl.static_range(CELLS):
            here = (k >= cell * WINDOW) & (k < (cell + 1) * WINDOW)
            value, row = tl.reduce((tl.where(here[:, None], z, float("-inf")), rows), 0, larger)
            at = (((start + q) * levels + level) * CELLS + cell) * n + k
            tl.store(best + at, value, mask=k < n)
            tl.store(places + at, row, mask=k < n)
        level += 1
