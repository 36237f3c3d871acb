"""Between coefficients and edges, in front of the sweeps and behind them: a row or a column of many tiles per program.

Edges ``(tiles, side lines, side)`` are described in :mod:`.sweeps` and :mod:`.blocks`. ``WIDTH`` is a power of two
that holds a line, ``SUMMANDS`` a multiple of ``DEPTH``, of which so many are in work at a time.
"""

import triton
import triton.language as tl

from fourierscale.kernels.gpu.shared import product


@triton.jit
def _line(level_of, table, down, SIDE: tl.constexpr):
    """Which row or column of the coefficients a program has: its kind, number, level, and how many entries count."""
    line = tl.program_id(1)
    kind = (line >= down).to(tl.int32)
    own = line - kind * down
    level = tl.load(level_of + kind * SIDE + own)
    # A rim's corner belongs to its rows: these reach as far as their level, columns as far as the level below.
    reach = tl.load(table + (level - kind) * 5 + 4 - kind, mask=level >= kind, other=1) - 1
    return kind, own, level, reach


@triton.jit
def prepare_kernel(
    x_ptr,
    edges,
    energies,
    basis,
    level_of,
    table,
    down,
    width,
    start,
    stop,
    gap,
    energy_gap,
    factor,
    Q,
    NORM: tl.constexpr,
    ENERGIES: tl.constexpr,
    PRECISION: tl.constexpr,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    SUMMANDS: tl.constexpr,
    DEPTH: tl.constexpr,
    TILES: tl.constexpr,
):
    kind, own, _, reach = _line(level_of, table, down, SIDE)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    n = tl.arange(0, WIDTH)
    u = tl.zeros((TILES, WIDTH), tl.float32)
    energy = tl.zeros((TILES,), tl.float32)
    for first in range(0, SUMMANDS, DEPTH):
        k = first + tl.arange(0, DEPTH)
        places = tl.where(kind == 1, k * width + own, own * width + k)
        inside = k < reach
        if NORM:
            inside = inside & (places > 0)
        x = tl.load(x_ptr + places[None, :] * Q + q[:, None], mask=inside[None, :] & (q < stop)[:, None], other=0.0)
        x = x.to(tl.float32) * factor
        b = basis + (1 - kind) * (SIDE * SIDE) + (1 + k)[:, None] * SIDE + n[None, :]
        u += product(x, tl.load(b, mask=(k < reach)[:, None] & (n < SIDE)[None, :], other=0.0), PRECISION)
        if ENERGIES:
            energy += tl.sum(x * x, 1)
    tile = q - start
    to = edges + kind * gap + tile[:, None] * (SIDE * SIDE) + own * SIDE + n[None, :]
    here = (q < stop)[:, None] & (n < SIDE)[None, :]
    tl.store(to + SIDE, u, mask=here & (reach > 0))
    if own == 0:
        tl.store(to, tl.zeros((TILES, WIDTH), tl.float32), mask=here)
    if ENERGIES:
        tl.store(energies + kind * energy_gap + tile * SIDE + own, energy, mask=q < stop)


@triton.jit
def deviation_kernel(
    energies,
    inverses,
    table,
    levels,
    start,
    stop,
    gap,
    eps,
    Q,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILES: tl.constexpr,
):
    """Inverse deviations of every level from the energies of its rows and columns, by Parseval's theorem."""
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, WIDTH)[None, :]
    here = (q < stop)[:, None] & (k < SIDE)
    at = energies + (q - start)[:, None] * SIDE + k
    rows, columns = tl.load(at, mask=here, other=0.0), tl.load(at + gap, mask=here, other=0.0)
    level = 0
    while level < levels:
        r_end, c_end = tl.load(table + level * 5 + 3) - 1, tl.load(table + level * 5 + 4) - 1
        variance = tl.sum(tl.where(k < r_end, rows, 0.0) + tl.where(k < c_end, columns, 0.0), 1)
        tl.store(inverses + level * Q + q, tl.rsqrt(variance + eps), mask=q < stop)
        level += 1


@triton.jit
def finish_kernel(
    edges,
    y_ptr,
    x_ptr,
    d_variance,
    basis,
    level_of,
    table,
    down,
    width,
    start,
    stop,
    gap,
    samples_down,
    samples_across,
    factor,
    levels,
    Q,
    NORM: tl.constexpr,
    PARTS: tl.constexpr,
    PRECISION: tl.constexpr,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    SUMMANDS: tl.constexpr,
    DEPTH: tl.constexpr,
    TILES: tl.constexpr,
):
    kind, own, level, reach = _line(level_of, table, down, SIDE)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, WIDTH)
    y = tl.zeros((WIDTH, TILES), tl.float32)
    samples = tl.where(kind == 1, samples_down, samples_across)
    for first in range(0, SUMMANDS, DEPTH):
        n = first + tl.arange(0, DEPTH)
        here = (q < stop)[None, :] & (n < samples)[:, None] & (reach > 0)
        g = edges + kind * gap + (q - start)[None, :] * (SIDE * SIDE) + (own + 1) * SIDE + n[:, None]
        b = basis + (1 - kind) * (SIDE * SIDE) + (1 + k)[:, None] * SIDE + n[None, :]
        b = tl.load(b, mask=(k < reach)[:, None], other=0.0)
        y += product(b, tl.load(g, mask=here, other=0.0), PRECISION)
    y = y * factor
    places = tl.where(kind == 1, k * width + own, own * width + k)
    at = places[:, None] * Q + q[None, :]
    inside = (k < reach)[:, None] & (q < stop)[None, :]
    if NORM:  # the gradient through the variance, of which each block has a part; the mean has none
        change = tl.zeros((TILES,), tl.float32)
        for part in tl.static_range(PARTS):
            change += tl.load(d_variance + (part * levels + level) * Q + q, mask=q < stop, other=0.0)
        y += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * change[None, :]
        y = tl.where(places[:, None] > 0, y, 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)
