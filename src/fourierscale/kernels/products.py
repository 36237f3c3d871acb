r"""Products along the axes of features that lie frequency first, and how threads share them.

A transform along one axis of ``(S, n_1, ..., n_d, q)`` is a small matrix times many matrices that lie one after the
other in memory. Where they lie depends on shapes alone: a :class:`Product` is made once and used again, so that a
product costs one call and not half a dozen for its views, which would take longer than the arithmetic of a small level.

On a CPU the images and channels of a piece are divided in ``S`` shares. Threads divide operations along the leading
axis, and batched products of many small matrices by whole matrices: so a core goes on with what it wrote itself. Else
half of all numbers would travel from one core's cache to another's after each operation, which takes longer than the
operation where the cores do not share a cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from fourierscale.functional.nested import PoolKind

SAMPLES_AT_ONCE = {"cpu": 2**21, "cuda": 2**27}
"""Samples of a level that are in work at a time, per device type."""

SHARE = 2**17
"""Samples of a level in a share, at least."""

NARROW = 32
"""Images and channels, times each other, in a share, at least: a product with fewer columns is a slow one."""

PRODUCTS_UP_TO = {"cpu": 1024, "cuda": 2303}
"""Samples per axis up to which products beat FFTs, per device type. With features that lie frequency first they do for
longer than in :data:`fourierscale.functional.transform.FFT_FROM`."""

COLUMNS = 128
"""Images and channels, times each other, in the share of a thread, where there are several pieces."""

Place: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Size and strides of matrices in flat memory."""


class Product(NamedTuple):
    """A matrix times many, which lie one after the other: ``(count, depth, columns)`` to ``(count, rows, columns)``."""

    matrix: Tensor
    reads: Place
    writes: Place

    def __call__(self, source: Tensor, target: Tensor | None = None) -> Tensor:
        """Multiply what is at the beginning of one memory into the beginning of another, or into fresh memory."""
        columns = source.as_strided(*self.reads)
        out = None if target is None else target.as_strided(*self.writes)
        return (torch.mm if self.matrix.ndim == 2 else torch.bmm)(self.matrix, columns, out=out)

    def add(self, source: Tensor, target: Tensor, sign: int = 1) -> None:
        """The same, added to what is there, or taken away."""
        columns, sums = source.as_strided(*self.reads), target.as_strided(*self.writes)
        if self.matrix.ndim == 2:
            sums.addmm_(self.matrix, columns, alpha=sign)
        else:
            sums.baddbmm_(self.matrix, columns, alpha=sign)


def product(matrix: Tensor, shape: Sequence[int], axis: int) -> tuple[Product, tuple[int, ...]]:
    """Multiply along axis ``n_(axis + 1)`` of contiguous ``(S, n_1, ..., n_d, q)``; the product and the new shape.

    >>> double, shape = product(torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]), (1, 2, 4), 0)
    >>> shape, double(torch.ones(8)).shape
    ((1, 3, 4), torch.Size([3, 4]))
    """
    count, columns = math.prod(shape[: axis + 1]), math.prod(shape[axis + 2 :])
    rows, depth = matrix.shape
    many = matrix if count == 1 else matrix.expand(count, -1, -1)
    after = (*shape[: axis + 1], rows, *shape[axis + 2 :])
    return Product(many, _place(count, depth, columns), _place(count, rows, columns)), after


def _place(count: int, rows: int, columns: int) -> Place:
    if count == 1:
        return (rows, columns), (columns, 1)
    return (count, rows, columns), (rows * columns, columns, 1)


def chain(factors: Sequence[tuple[int, Tensor]], shape: Sequence[int]) -> tuple[tuple[Product, ...], tuple[int, ...]]:
    """Products along several axes, ``(axis, matrix)``, one after the other, and the shape behind them."""
    products = []
    after = tuple(shape)
    for axis, matrix in factors:
        one, after = product(matrix, after, axis)
        products.append(one)
    return tuple(products), after


def run(products: Sequence[Product], source: Tensor, *spaces: Tensor) -> Tensor:
    """Products one after the other; the spaces take turns. Gives the memory that holds the result."""
    for turn, one in enumerate(products):
        target = spaces[turn % len(spaces)]
        one(source, target)
        source = target
    return source


class Block(NamedTuple):
    """Products that spread a block of coefficients over a whole grid of samples."""

    place: tuple[slice, ...]
    shape: tuple[int, ...]
    products: tuple[Product, ...]
    adds: bool
    """Whether it adds to the samples that are there."""

    def write(self, coeffs: Tensor, space: Tensor, target: Tensor) -> None:
        """From coefficients ``(S, ..., q)``, any view, to samples at the beginning of ``target``."""
        last, source = self._lines(coeffs, space)
        if self.adds:
            last.add(source, target)
        else:
            last(source, target)

    def take_away(self, coeffs: Tensor, space: Tensor, target: Tensor) -> None:
        """Undo a :meth:`write` that added."""
        last, source = self._lines(coeffs, space)
        last.add(source, target, -1)

    def _lines(self, coeffs: Tensor, space: Tensor) -> tuple[Product, Tensor]:
        """All products but the last one, and what they give."""
        source = contiguous(space, self.shape).copy_(coeffs)
        *before, last = self.products
        for one in before:
            source = one(source)
        return last, source


def contiguous(space: Tensor, shape: Sequence[int]) -> Tensor:
    """The beginning of flat memory, in this shape."""
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return space.as_strided(shape, strides[::-1])


def workspace(flat: Tensor, part: slice, samples: int, count: int) -> tuple[Tensor, ...]:
    """Memory for the samples of a piece, used again for every level."""
    return flat.new_empty(count, samples * len(range(flat.shape[-1])[part])).unbind(0)


def even_step(count: int, most: int) -> int:
    """The length of pieces, none longer than ``most``, that share a count as evenly as they can.

    >>> even_step(14, 9)
    7
    """
    return math.ceil(count / max(1, math.ceil(count / most)))


def pieces(flat: Tensor, samples: int) -> Iterator[slice]:
    """Images and channels in pieces whose samples, so many each, stay in the cache."""
    count = flat.shape[-1]
    step = even_step(count, max(16, SAMPLES_AT_ONCE.get(flat.device.type, SAMPLES_AT_ONCE["cuda"]) // samples))
    if step < count:  # so that threads can share it
        step = math.ceil(step / (COLUMNS * torch.get_num_threads())) * COLUMNS * torch.get_num_threads()
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def shares(x: Tensor, part: slice, count: int) -> Tensor:
    """A piece of ``(..., Q)`` as shares of equal size, ``(S, ..., Q / S)``: a view."""
    return torch.unflatten(x[..., part], -1, (count, -1)).movedim(-2, 0)


def share_count(columns: int, samples: int, device: torch.device) -> int:
    """How many shares so many images and channels, of so many samples each, are divided in."""
    return _share_count(columns, samples, torch.get_num_threads() if device.type == "cpu" else 1, SHARE, NARROW)


@functools.lru_cache(4096)
def _share_count(columns: int, samples: int, threads: int, share: int, narrow: int) -> int:
    """Equally many shares for each thread, each of ``share`` samples or a little more; one where it does not work out.

    Small levels take few shares: a batched product has a price for each of its matrices. So do large ones of few
    images and channels: no share has fewer than ``narrow`` of them.

    >>> [_share_count(1600, n * n, 2, 2**17, 32) for n in (7, 15, 27)], _share_count(129, 729, 2, 2**17, 32)
    ([2, 2, 8], 1)
    >>> _share_count(64, 192**2, 2, 2**17, 32), _share_count(48, 192**2, 2, 2**17, 32)
    (2, 1)
    """
    if threads == 1 or columns % threads:
        return 1
    most = min(max(threads, columns * samples // share), columns // narrow)
    return next((count for count in range(most - most % threads, 0, -threads) if columns % count == 0), 1)


def by_products(n: int, x: Tensor) -> bool:
    """Whether an axis of ``n`` samples is transformed by a product on this tensor's device.

    >>> by_products(1024, torch.zeros(1)), by_products(1025, torch.zeros(1))
    (True, False)
    """
    return n <= PRODUCTS_UP_TO.get(x.device.type, PRODUCTS_UP_TO["cpu"])


def down(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply along the first axis of ``(n_1, n_2, Q)``, as one plain product."""
    return torch.unflatten(matrix @ x.flatten(1), -1, x.shape[1:])


def pool_windows(x: Tensor, window: int, kind: PoolKind) -> Tensor:
    """Pool both axes of ``(n_1, n_2, Q)``, one after the other: two plain reductions."""
    if window == 1:
        return x
    for axis in (1, 0):
        windows = torch.unflatten(x, axis, (x.shape[axis] // window, window))
        x = windows.amax(axis + 1) if kind == "max" else windows.mean(axis + 1)
    return x
