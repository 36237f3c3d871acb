"""The resolutions at which a layer is equivariant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from fourierscale.functional.bands import Boundary, Box, as_size, axis_bands, grid, period, widest

Resolutions: TypeAlias = "Levels | Iterable[int | Sequence[int]] | Literal['all']"
"""What the layers take: a list, a range, ``"all"`` or a :class:`Levels`."""


class Levels:
    """An increasing chain of resolutions; each distinct band among them is a level.

    An int means the same resolution on every axis, whatever their number; a tuple names each axis, for images that
    are not square. Resolutions with the same band (27 and 28) are one level. ``"all"`` is every resolution there is.

    Between two resolutions of the set, and between one of them and any input, a layer is exactly equivariant. An
    input whose band is not a level is legal too. It is processed with the levels that fit into it and then, as one
    more level, its own band. Hence:

    - **between two levels**: exact up to the highest level below it; what is above that level is computed from the
      input's own band, with the parameters of the next level.
    - **below the lowest level**: the input is its own single level, with the parameters of the lowest.
    - **above the highest level**: exact for every level of the set; the rest uses the parameters of the highest.
    - **not square, with square levels**: the largest square level that fits, then the input's own band. For images of
      one aspect ratio there is :meth:`by_short_side`.

    Args:
        resolutions: Side lengths in samples, strictly increasing: ints, or one tuple of ints per resolution.

    >>> Levels(range(8, 29)).bands
    ((3,), (4,), (5,), (6,), (7,), (8,), (9,), (10,), (11,), (12,), (13,))
    >>> Levels([(14, 21), (28, 42)]).of_input((13, 20))
    ((6, 10), (13, 20))
    >>> Levels([8, 16]).of_input((5, 5))  # a band between the two levels 3 and 7
    ((3, 3), (5, 5))
    """

    def __init__(self, resolutions: Resolutions) -> None:
        self.axes: tuple[tuple[Box, ...] | None, ...]  # chains; several when the axes are independent
        self.keeps_ratio = False
        if isinstance(resolutions, Levels):
            self.axes, self.keeps_ratio = resolutions.axes, resolutions.keeps_ratio
        elif isinstance(resolutions, str):
            if resolutions != "all":
                raise ValueError(f"unknown resolutions {resolutions!r}: give a list, a range or 'all'")
            self.axes = (None,)
        else:
            self.axes = (_chain(resolutions),)

    @classmethod
    def geometric(cls, lowest: int | Sequence[int], highest: int | Sequence[int], steps: int) -> Levels:
        """``steps`` resolutions from ``lowest`` to ``highest`` with a constant ratio, rounded; repeats merge.

        >>> Levels.geometric(24, 96, 5).resolutions
        (24, 34, 48, 68, 96)
        >>> Levels.geometric((16, 24), (64, 96), 3).resolutions
        ((16, 24), (32, 48), (64, 96))
        """
        if steps < 2:
            raise ValueError(f"a geometric set needs at least 2 steps, got {steps}")
        low, high = (tuple([r] if isinstance(r, int) else r) for r in (lowest, highest))
        if len(low) != len(high) or any(a > b for a, b in zip(low, high, strict=True)) or low == high:
            raise ValueError(f"the highest resolution must be above the lowest, got {lowest} and {highest}")
        chain = [
            tuple(round(a * (b / a) ** (i / (steps - 1))) for a, b in zip(low, high, strict=True)) for i in range(steps)
        ]
        return cls([r[0] if isinstance(lowest, int) else r for r, _ in itertools.groupby(chain)])

    @classmethod
    def independent(cls, *resolutions: Resolutions) -> Levels:
        """One set per axis, every combination a level: exact when each axis is downscaled by its own factor.

        The price is the product of the numbers of levels. For images of one aspect ratio a chain of tuples is enough.

        >>> Levels.independent([3, 5], [3, 7]).of_input((2, 3))
        ((1, 1), (1, 3), (2, 1), (2, 3))
        """
        if not resolutions:
            raise ValueError("independent levels need one set of resolutions per axis, got none")
        levels = cls("all")
        levels.axes = tuple(cls(r).axes[0] for r in resolutions)
        if any(chain is not None and len(chain[0]) != 1 for chain in levels.axes):
            raise ValueError("the resolutions of independent axes are ints, one set per axis; got tuples")
        return levels

    @classmethod
    def by_short_side(cls, resolutions: Iterable[int]) -> Levels:
        """Levels named by their short side that keep the input's aspect ratio: exact between images of one ratio.

        Square levels hold for crops of a square alone: between 64 x 96 and 32 x 48 they promise nothing. Here an image
        of 64 x 96 has the levels 32 x 48 and 64 x 96, and one of 32 x 48 the first of them. A band alone does not tell
        whether the side was odd or even; of the ratios that are possible the simplest is taken.

        Behind a pooling levels are exact whose sides are multiples of the window.

        >>> Levels.by_short_side([32, 64]).of_input((31, 47)) == Levels([(32, 48), (64, 96)]).of_input((31, 47))
        True
        >>> Levels.by_short_side([32, 64]).of_input((23, 15))  # upright, 48 x 32
        ((23, 15),)
        """
        levels = cls(resolutions)
        if levels.is_open or any(len(r) != 1 for chain in levels.axes for r in chain or ()):
            raise ValueError("levels by their short side are a list or range of ints")
        levels.keeps_ratio = True
        return levels

    @property
    def is_open(self) -> bool:
        """Whether the set has no highest resolution (``"all"``)."""
        return None in self.axes

    @property
    def resolutions(self) -> tuple[int | Box, ...]:
        """The resolutions, ints where they are the same on every axis; empty for ``"all"``."""
        chains = [chain or () for chain in self.axes]
        if len(chains) > 1:
            return tuple(tuple(n for r in combination for n in r) for combination in itertools.product(*chains))
        return tuple(r[0] if len(r) == 1 else r for r in chains[0])

    @property
    def highest(self) -> Box:
        """The highest resolution: one entry if it is the same on every axis."""
        if self.is_open:
            raise ValueError("the set 'all' has no highest resolution: give a list or range, such as range(1, 29)")
        return tuple(n for chain in self.axes if chain for n in chain[-1])

    @property
    def bands(self) -> tuple[Box, ...]:
        """The distinct bands, coarse to fine."""
        chains = [_bands(chain) for chain in self.axes]
        if len(chains) == 1:
            return chains[0]
        return tuple(tuple(k for box in combination for k in box) for combination in itertools.product(*chains))

    def __len__(self) -> int:
        """Number of levels with parameters of their own; 1 for ``"all"``, which shares them."""
        return 1 if self.is_open else len(self.bands)

    def of_input(self, box: Box) -> tuple[Box, ...]:
        """The levels of an input whose bands are ``box``, coarse to fine, the last one being ``box`` itself."""
        if len(self.axes) > 1:
            self._check_axes(len(box))
            per_axis = [_fitting(chain, (k,)) for chain, k in zip(self.axes, box, strict=True)]
            return tuple(tuple(k for part in parts for k in part) for parts in itertools.product(*per_axis))
        return _fitting(self.axes[0], box, self.keeps_ratio)

    def extremes(self, box: Box) -> tuple[Box, Box]:
        """The lowest and the highest level of the set for inputs of these axes, whether they fit or not.

        >>> Levels([8, 28]).extremes((4, 4)), Levels.by_short_side([8, 28]).extremes((3, 7))
        (((3, 3), (13, 13)), ((3, 7), (13, 27)))
        """
        if len(self.axes) > 1:
            self._check_axes(len(box))
        chains = [_bands(chain) for chain in self.axes]
        if len(chains) == 1:
            chains = [_placed(self.axes[0], box, self.keeps_ratio)]
        lowest, highest = (tuple(k for chain in chains for k in chain[end]) for end in (0, -1))
        return lowest, highest

    def index(self, box: Box) -> int:
        """Which level's parameters a band uses: its own level's, else the next one's, else the highest's."""
        if self.is_open:
            return 0
        if len(self.axes) == 1:
            return _next(_placed(self.axes[0], box, self.keeps_ratio), box)
        self._check_axes(len(box))
        index = 0
        for chain, k in zip(self.axes, box, strict=True):
            own = _bands(chain)
            index = index * len(own) + _next(own, (k,))
        return index

    def pooled(self, window: int) -> Levels:
        """The level set behind a pooling by ``window``: resolution ``n`` becomes ``ceil(n / window)``.

        >>> Levels([48, 56, 96]).pooled(2).resolutions
        (24, 28, 48)
        """
        levels = Levels("all")
        levels.axes = tuple(
            None if chain is None else tuple(r for r, _ in itertools.groupby(_ceil(r, window) for r in chain))
            for chain in self.axes
        )
        levels.keeps_ratio = self.keeps_ratio
        return levels

    def periods(self, boundary: Boundary) -> Levels:
        """The level set behind the door of a net: resolution ``n`` becomes the samples of one period.

        >>> Levels([8, 28]).periods("mirror").bands
        ((7,), (27,))
        """
        levels = Levels("all")
        levels.axes = tuple(
            None if chain is None else tuple(tuple(period(n, boundary) for n in r) for r in chain)
            for chain in self.axes
        )
        levels.keeps_ratio = self.keeps_ratio
        return levels

    def _check_axes(self, axes: int) -> None:
        if len(self.axes) != axes:
            raise ValueError(f"these independent levels are for {len(self.axes)} axes, the input has {axes}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Levels) and (self.axes, self.keeps_ratio) == (other.axes, other.keeps_ratio)

    def __hash__(self) -> int:
        return hash((self.axes, self.keeps_ratio))

    def __repr__(self) -> str:
        sets = ["'all'" if c is None else str([r[0] if len(r) == 1 else r for r in c]) for c in self.axes]
        if self.keeps_ratio:
            return f"Levels.by_short_side({sets[0]})"
        return f"Levels({sets[0]})" if len(sets) == 1 else f"Levels.independent({', '.join(sets)})"


def _chain(resolutions: Iterable[int | Sequence[int]]) -> tuple[Box, ...]:
    try:
        chain = tuple(as_size([r] if isinstance(r, int) else r) for r in resolutions)
    except TypeError:
        raise TypeError(
            f"resolutions are a list or range of ints or tuples of ints, 'all' or Levels, got {resolutions!r}"
        ) from None
    if not chain:
        raise ValueError("a level set needs at least one resolution, got none")
    if len({len(r) for r in chain}) > 1:
        raise ValueError(f"all resolutions of a level set need the same number of axes, got {list(chain)}")
    for a, b in itertools.pairwise(chain):
        if a == b or any(m > n for m, n in zip(a, b, strict=True)):
            raise ValueError(f"resolutions must increase, got {_show(a)} before {_show(b)}: sort them, drop repeats")
    return chain


def _show(resolution: Box) -> str:
    return str(resolution[0] if len(resolution) == 1 else resolution)


def _ceil(resolution: Box, window: int) -> Box:
    return tuple(-(-n // window) for n in resolution)


_BANDS: dict[tuple[Box, ...], tuple[Box, ...]] = {}  # of chains of late: no lru_cache, which compilers warn of


def _bands(chain: tuple[Box, ...] | None) -> tuple[Box, ...]:
    if chain is None:
        raise ValueError("the set 'all' has no list of levels: give a list or range, such as range(1, 29)")
    bands = _BANDS.get(chain)
    if bands is None:
        if len(_BANDS) > 1024:
            _BANDS.clear()
        bands = _BANDS[chain] = tuple(box for box, _ in itertools.groupby(axis_bands(r) for r in chain))
    return bands


def _broadcast(level: Box, axes: int) -> Box:
    if len(level) not in (1, axes):
        raise ValueError(f"these levels name {len(level)} axes, such as band {level}; the input has {axes}")
    return level * axes if len(level) == 1 else level


def _fitting(chain: tuple[Box, ...] | None, box: Box, keeps_ratio: bool = False) -> tuple[Box, ...]:
    """The levels strictly inside ``box``, then ``box`` itself."""
    levels = [(k,) * len(box) for k in range(min(box) + 1)] if chain is None else _placed(chain, box, keeps_ratio)
    return (*(level for level in levels if level != box and _inside(level, box)), box)


def _placed(chain: tuple[Box, ...] | None, box: Box, keeps_ratio: bool) -> tuple[Box, ...]:
    """The levels of a chain on the axes of an input."""
    if chain is None or not keeps_ratio:
        return tuple(_broadcast(level, len(box)) for level in _bands(chain))
    sides = _simplest_ratio(box)
    short = min(sides)
    # in halves, so that a side half way between two numbers is rounded alike for every image of the ratio
    resolutions = (tuple((2 * r[0] * n + short) // (2 * short) for n in sides) for r in chain)
    return tuple(level for level, _ in itertools.groupby(axis_bands(r) for r in resolutions))


def _simplest_ratio(box: Box) -> Box:
    """The smallest numbers whose ratio may be that of an image's sides; each side is one of two for its band.

    >>> _simplest_ratio((31, 47)), _simplest_ratio((32, 49)), _simplest_ratio((13, 13))
    ((2, 3), (2, 3), (1, 1))
    """
    ratios = []
    for sides in itertools.product(*((widest(k), grid(k)) for k in box)):
        factor = math.gcd(*sides)
        ratios.append(tuple(n // factor for n in sides))
    return min(ratios, key=max)


def _inside(level: Box, box: Box) -> bool:
    return all(k <= limit for k, limit in zip(level, box, strict=True))


def _next(levels: tuple[Box, ...], box: Box) -> int:
    for index, level in enumerate(levels):
        if _inside(box, level):
            return index
    return len(levels) - 1
