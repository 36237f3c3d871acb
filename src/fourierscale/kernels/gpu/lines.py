"""Between coefficients and edges, in front of the sweeps and behind them: a row or a column of many tiles per program.

Edges ``(tiles, side lines, side)`` are described in :mod:`fourierscale.kernels.gpu.sweeps`.
"""

import triton
import triton.language as tl

from fourierscale.kernels.gpu.shared import product


@triton.jit
def _line(level_of, down, across, width, SIDE: tl.constexpr):
    """Which row or column of the coefficients a program has: its side, number, level, and the entries that count."""
    line = tl.program_id(1)
    side = (line >= down).to(tl.int32)
    own = line - side * down
    level = tl.load(level_of + side * SIDE + own)
    k = tl.arange(0, SIDE)
    # A rim's corner belongs to its rows.
    reach = tl.load(level_of + (1 - side) * SIDE + k) < level + 1 - side
    reach = reach & (k < tl.where(side == 1, down, across))
    places = tl.where(side == 1, k * width + own, own * width + k)
    return side, own, level, reach, places


@triton.jit
def prepare_kernel(
    x_ptr,
    edges,
    basis,
    level_of,
    down,
    across,
    width,
    start,
    stop,
    gap,
    factor,
    Q,
    NORM: tl.constexpr,
    PRECISION: tl.constexpr,
    SIDE: tl.constexpr,
    TILES: tl.constexpr,
):
    side, own, level, reach, places = _line(level_of, down, across, width, SIDE)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, SIDE)
    if NORM:
        reach = reach & (places > 0)
    x = tl.load(x_ptr + places[None, :] * Q + q[:, None], mask=reach[None, :] & (q < stop)[:, None], other=0.0)
    b = basis + (1 - side) * SIDE * SIDE + SIDE + k[:, None] * SIDE + k[None, :]
    u = product(x.to(tl.float32) * factor, tl.load(b, mask=k[:, None] < SIDE - 1, other=0.0), PRECISION)
    to = edges + side * gap + (q - start)[:, None] * (SIDE * SIDE) + own * SIDE + k[None, :]
    tl.store(to + SIDE, u, mask=(q < stop)[:, None] & (level + 1 - side > 0))
    if own == 0:
        tl.store(to, tl.zeros((TILES, SIDE), tl.float32), mask=(q < stop)[:, None])


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
    width,
    start,
    stop,
    gap,
    samples,
    factor,
    Q,
    NORM: tl.constexpr,
    PRECISION: tl.constexpr,
    SIDE: tl.constexpr,
    TILES: tl.constexpr,
):
    side, own, level, reach, places = _line(level_of, down, across, width, SIDE)
    q = start + tl.program_id(0) * TILES + tl.arange(0, TILES)
    k = tl.arange(0, SIDE)
    here = (q < stop)[None, :] & (level + 1 - side > 0) & (k < samples)[:, None]
    g = edges + side * gap + (q - start)[None, :] * (SIDE * SIDE) + own * SIDE + SIDE + k[:, None]
    b = basis + (1 - side) * SIDE * SIDE + SIDE + k[:, None] * SIDE + k[None, :]
    b = tl.load(b, mask=k[:, None] < SIDE - 1, other=0.0)
    y = product(b, tl.load(g, mask=here, other=0.0), PRECISION) * factor
    at = places[:, None] * Q + q[None, :]
    inside = reach[:, None] & (q < stop)[None, :]
    if NORM:  # the gradient through the variance; the mean has none
        change = tl.load(d_variance + level * Q + q, mask=q < stop, other=0.0)
        y += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * change[None, :]
        y = tl.where(places[:, None] > 0, y, 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)
