"""Random level sets, sizes and inputs; what a downscaled pass gives is compared with the crop of the full one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fourierscale.functional import Levels, crop
from fourierscale.functional.bands import Box
from fourierscale.kernels import Backend
from fourierscale.testing import TOLERANCE, relative_error
from tests.attack.frame import BrokenError, Case

HIGHEST = {1: 48, 2: 18, 3: 8}
"""Samples per axis of the largest level, by the number of axes."""

BACKENDS: tuple[Backend, ...] = ("auto", "torch", "gemm", *(("triton",) if torch.cuda.is_available() else ()))
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MAGNIFIED = 16
"""How much further two results may lie apart than each from the truth."""
FINER = (torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps) ** 2
"""How much smaller a squared rounding error is in float64 than in float32."""
DTYPES = (torch.float32, torch.float64)


def draw_levels(case: Case, axes: int, closed: bool = False) -> Levels:
    """A level set of any kind: ints, tuples, independent axes, or all resolutions."""
    kinds = ["ints", "ints", "range", "tuples", "independent"] + ([] if closed else ["all"])
    kind = case.random.choice(kinds)
    if kind == "all":
        levels = Levels("all")
    elif kind == "tuples":
        chains = [_chain(case, HIGHEST[axes]) for _ in range(axes)]
        length = min(len(chain) for chain in chains)
        levels = Levels(list(zip(*(chain[-length:] for chain in chains), strict=True)))
    elif kind == "independent":
        levels = Levels.independent(
            *(_chain(case, HIGHEST[axes], 3, case.random.choice([1, 2, 2])) for _ in range(axes))
        )
    elif kind == "range":
        low = case.random.randint(1, HIGHEST[axes] - 1)
        levels = Levels(range(low, case.random.randint(low + 1, HIGHEST[axes]) + 1, case.random.randint(1, 3)))
    else:
        levels = Levels(_chain(case, HIGHEST[axes]))
    return case.note("levels", levels)


def _chain(case: Case, highest: int, longest: int = 5, shortest: int = 1) -> list[int]:
    count = case.random.randint(shortest, min(longest, highest))
    return sorted(case.random.sample(range(1, highest + 1), count))


def named_sizes(levels: Levels, axes: int) -> list[Box]:
    """The resolutions of a set as grids."""
    if levels.is_open:
        return [(n,) * axes for n in range(1, HIGHEST[axes] + 1)]
    return [(n,) * axes if isinstance(n, int) else n for n in levels.resolutions]


def draw_size(case: Case, levels: Levels, axes: int, above: bool = True) -> Box:
    """A grid that holds a level at least: the highest resolution, one above it, one between two, or not square."""
    sizes = named_sizes(levels, axes)
    size = case.random.choice([sizes[-1], sizes[-1], sizes[-1], case.random.choice(sizes)])
    if above and case.random.random() < 0.4:
        size = tuple(n + case.random.randint(0, 4) for n in size)
    return case.note("size", size)


def smaller_sizes(case: Case, levels: Levels, size: Box, most: int = 4) -> list[Box]:
    """Some resolutions of the set that fit into a grid, the lowest among them."""
    inside = [r for r in named_sizes(levels, len(size)) if all(m <= n for m, n in zip(r, size, strict=True))]
    others = inside[1:]
    return inside[:1] + case.random.sample(others, min(len(others), most - 1))


def draw_input(case: Case, shape: Sequence[int]) -> Tensor:
    """In double precision, but exact in single: noise, smooth or with large values: what is compared is relative."""
    x = torch.randn(*shape, dtype=torch.float64)
    kind = case.choose("input", ["noise", "noise", "offset", "large", "small", "sparse"])
    if kind == "offset":
        x = x + 5
    elif kind in ("large", "small"):
        x = x * (1e3 if kind == "large" else 1e-2)
    elif kind == "sparse":
        x = x * (torch.rand_like(x) < 0.1)
    return x.to(DEVICE, torch.float32).double()


@dataclass(frozen=True)
class Pair:
    """Two results that are to be the same up to rounding."""

    what: str
    large: Tensor
    """What the full pass says."""
    small: Tensor
    """What the downscaled pass says."""
    scale: Tensor
    """What rounding is relative to, where the small result vanishes."""

    @property
    def error(self) -> float:
        """The relative squared error."""
        error = relative_error(self.large, self.small)
        if error > TOLERANCE[self.small.dtype]:
            error *= float(_power(self.small) / _power(self.scale).clamp(min=1e-300))
        return error


def agree(passes: Callable[[torch.dtype], list[Pair]], dtype: torch.dtype) -> bool:
    """Refuse pairs that differ by more than rounding; whether all are within the tolerance of the tests.

    Some random nets magnify rounding: an activation leaves almost nothing, a norm divides by almost nothing. So a pair
    in float32 may also differ by what each of its two results is off from the same pass in float64, where the
    tolerance is kept, or the error is smaller by as much as rounding is; that of a net that is not exact is the same.
    """
    found = passes(dtype)
    far = [place for place, pair in enumerate(found) if not _check(pair) <= TOLERANCE[dtype]]
    if not far:
        return True
    if dtype == torch.float64:
        coarse = passes(torch.float32)
        for place in far:
            if not found[place].error <= MAGNIFIED * FINER * coarse[place].error:
                raise BrokenError(f"{_differs(found[place], TOLERANCE[dtype])}; in float32 {coarse[place].error:.1e}")
        return False
    true = passes(torch.float64)
    for place in far:
        pair, exact = found[place], true[place]
        if not _check(exact) <= max(TOLERANCE[torch.float64], MAGNIFIED * FINER * pair.error):
            raise BrokenError(f"{_differs(pair, TOLERANCE[dtype])}; in float64 {exact.error:.1e}")
        rounding = max(relative_error(pair.large, exact.large), relative_error(pair.small, exact.small))
        limit = max(MAGNIFIED * rounding, TOLERANCE[dtype])
        if not relative_error(pair.large, pair.small) <= limit:
            raise BrokenError(f"{_differs(pair, limit)}; each of the two results is off by {rounding:.1e}")
    return False


def _check(pair: Pair) -> float:
    """The error of a pair of finite results of one shape."""
    if pair.large.shape != pair.small.shape:
        raise BrokenError(f"{pair.what}: {tuple(pair.large.shape)} beside {tuple(pair.small.shape)} when downscaled")
    if not (pair.large.isfinite().all() and pair.small.isfinite().all()):
        raise BrokenError(f"{pair.what}: not finite")
    return pair.error


def _differs(pair: Pair, limit: float) -> str:
    return f"{pair.what}: relative squared error {pair.error:.1e}, above {limit:.0e}"


def _power(x: Tensor) -> Tensor:
    return x.detach().double().square().mean()


def common_frequencies(large: Tensor, small: Tensor, axes: int, what: str) -> Pair:
    """All frequencies that the smaller of two results has."""
    size = tuple(small.shape[-axes:])
    if any(m > n for m, n in zip(size, large.shape[-axes:], strict=True)):
        raise BrokenError(f"{what}: {size} frequencies downscaled, {tuple(large.shape[-axes:])} in full")
    return Pair(what, crop(large, size), small, large)


def randomise(module: torch.nn.Module) -> None:
    """Move every parameter, so that nothing is equal by accident."""
    for parameter in module.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)


def all_inside(levels: Sequence[Box], others: Sequence[Box]) -> list[int]:
    """Where each of some levels stands among others."""
    places = {level: place for place, level in enumerate(others)}
    missing = [level for level in levels if level not in places]
    if missing:
        raise BrokenError(f"the levels {missing} of the downscaled image are no levels of the full one, {others}")
    return [places[level] for level in levels]
