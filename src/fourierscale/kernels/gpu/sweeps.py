"""The sweep of the head, whose pooled samples are those of every level: through :mod:`.common_grid` as well.

A sweep is the work of a few warps on one image and channel. Its samples ``Z (side, side)``, the side being 32, 64 or
128, are spread over ``side^2 / 32`` threads in patches of four rows and twice four columns, held as
``(4, 4, threads, 2)``: an outer product then needs few loads. Its arithmetic is plain float32, so that the places of
the largest samples are found as exactly as they can be.

Edges ``(tiles, side lines, side)`` hold a row or a column of the coefficients per line, from line 1 on: a level then
begins with an even line and has an even number of them. Line 0 is zero.
"""

import triton
import triton.language as tl


@triton.jit
def _patch(SIDE: tl.constexpr):
    """Rows ``(4, 1, threads, 1)`` and columns ``(1, 4, threads, 2)`` of each thread's samples."""
    ACROSS: tl.constexpr = SIDE // 8
    thread = tl.arange(0, SIDE * SIDE // 32)[None, None, :, None]
    i = (thread // ACROSS) * 4 + tl.arange(0, 4)[:, None, None, None]
    j = (thread % ACROSS) * 4 + tl.arange(0, 4)[None, :, None, None]
    return i, j + tl.arange(0, 2)[None, None, None, :] * (SIDE // 2)


@triton.jit
def _zeros(SIDE: tl.constexpr):
    return tl.zeros((4, 4, SIDE * SIDE // 32, 2), tl.float32)


@triton.jit
def _two(pointer, k, line, SIDE: tl.constexpr):
    """Two lines."""
    at = pointer + line * SIDE + k
    return tl.load(at), tl.load(at + SIDE)


@triton.jit
def _update(z, rows, columns, basis, table, level, SIDE: tl.constexpr):
    """Add the outer products of a level to the samples."""
    r, r_end, c, c_end = _rim(table, level)
    i, j = _patch(SIDE)
    while r < r_end:
        b, b_next = _two(basis, i, r, SIDE)
        u, u_next = _two(rows, j, r, SIDE)
        z += b * u
        z += b_next * u_next
        r += 2
    while c < c_end:
        a, a_next = _two(basis + SIDE * SIDE, j, c, SIDE)
        v, v_next = _two(columns, i, c, SIDE)
        z += v * a
        z += v_next * a_next
        c += 2
    return z


@triton.jit
def _rim(table, level):
    """First and last-plus-one row and column of a level's rim."""
    at = table + level * 5
    return tl.load(at + 1), tl.load(at + 3), tl.load(at + 2), tl.load(at + 4)


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
    i, j = _patch(SIDE)
    rows, columns = edges + q * SIDE * SIDE, edges + gap + q * SIDE * SIDE
    z = _zeros(SIDE)
    place = i * (WINDOW * CELLS) + j
    cell_of = (i // WINDOW) * CELLS + j // WINDOW
    cell_of = tl.where((i < WINDOW * CELLS) & (j < WINDOW * CELLS), cell_of, -1)
    level = 0
    while level < levels:
        z = _update(z, rows, columns, basis, table, level, SIDE)
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
    i, j = _patch(SIDE)
    z = _zeros(SIDE)
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
