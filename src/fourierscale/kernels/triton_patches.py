"""Patches of samples in Triton: how threads share a tile on a common grid, and what a level adds to it.

A thread has a patch of four rows and twice four columns of the samples ``Z (side, side)``, held as ``(4, 4, threads,
2)``: an outer product then needs few loads, and a sum along rows or columns few exchanges. Edges are those of
:mod:`.triton_edges`.
"""

import triton
import triton.language as tl


@triton.jit
def patch(SIDE: tl.constexpr, POOL: tl.constexpr):
    """Rows ``(4, 1, threads, 1)`` and columns ``(1, 4, threads, 2)`` of each thread's samples, pooled or not."""
    EACH: tl.constexpr = 4 // POOL
    ACROSS: tl.constexpr = SIDE // 8
    thread = tl.arange(0, SIDE * SIDE // 32)[None, None, :, None]
    i = (thread // ACROSS) * EACH + tl.arange(0, EACH)[:, None, None, None]
    j = (thread % ACROSS) * EACH + tl.arange(0, EACH)[None, :, None, None]
    return i, j + tl.arange(0, 2)[None, None, None, :] * (SIDE // POOL // 2)


@triton.jit
def zeros(SIDE: tl.constexpr, POOL: tl.constexpr):
    return tl.zeros((4 // POOL, 4 // POOL, SIDE * SIDE // 32, 2), tl.float32)


@triton.jit
def rim(table, level):
    """First and last-plus-one row and column of a level's rim."""
    at = table + level * 5
    return tl.load(at + 1), tl.load(at + 3), tl.load(at + 2), tl.load(at + 4)


@triton.jit
def two(pointer, k, line, SIDE: tl.constexpr):
    """Two lines."""
    at = pointer + line * SIDE + k
    return tl.load(at), tl.load(at + SIDE)


@triton.jit
def update(z, rows, columns, basis, table, level, SIGN: tl.constexpr, SIDE: tl.constexpr, POOL: tl.constexpr):
    """Add the outer products of a level to the samples, or take them away."""
    r, r_end, c, c_end = rim(table, level)
    i, j = patch(SIDE, POOL)
    while r < r_end:
        b, b_next = two(basis, i, r, SIDE)
        u, u_next = two(rows, j, r, SIDE)
        z += (SIGN * b) * u
        z += (SIGN * b_next) * u_next
        r += 2
    while c < c_end:
        a, a_next = two(basis + SIDE * SIDE, j, c, SIDE)
        v, v_next = two(columns, i, c, SIDE)
        z += (SIGN * v) * a
        z += (SIGN * v_next) * a_next
        c += 2
    return z
