"""What a model gives for every level of an image, put together into maps and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from fourierscale.functional.bands import Boundary, Box, grid
from fourierscale.functional.nested import keep_rims
from fourierscale.functional.resample import corner
from fourierscale.functional.transform import analyze, synthesize
from fourierscale.nn.checks import warn_caller
from fourierscale.nn.input_sizes import InputSizes, evaluating, rate_of, reason, tensors_of, wider

__all__ = ["LevelOutputs", "LevelPass", "find_rates", "mixes_images"]


PLAIN = (str, bool, int, float, type(None), torch.dtype, torch.device)
"""What an output may hold beside tensors; that of the last pass is given back."""


class LevelPass(NamedTuple):
    """One pass of a model: a level and where it is sampled."""

    row: int
    """Row of the norms and temperatures of this level."""
    band: Box
    """Band of the image that is read."""
    grid: Box
    """Samples per axis that the model is given."""

    def writes(self, rate: int) -> Box:
        """Band that is written to a map of this rate."""
        return tuple(k // rate for k in self.band)


class LevelOutputs:
    """The outputs of some passes, coarse to fine.

    Args:
        passes: The passes.
        outputs: What the model gave in each; None for one whose maps another pass writes too.
        rates: How much smaller than the image each tensor of an output is; None for a vector.
        boundary: What lies beyond the edge of image and maps.
        scales: Factor of the vectors of each level, ``(levels,)``.
    """

    def __init__(
        self,
        passes: Sequence[LevelPass],
        outputs: Sequence[Any],
        rates: Sequence[int | None],
        boundary: Boundary,
        scales: Tensor | None = None,
    ) -> None:
        self.passes, self.rates, self.boundary, self.scales = passes, rates, boundary, scales
        self.axes = len(passes[0].band)
        flat = [None if output is None else tree_flatten(output) for output in outputs]
        self.leaves = [None if one is None else one[0] for one in flat]
        self.structure = next(one[1] for one in reversed(flat) if one is not None)
        self.numbers = [n for n, leaf in enumerate(self._any()) if isinstance(leaf, Tensor)]
        if len(self.numbers) != len(rates):
            raise ValueError(
                f"the model gave {len(self.numbers)} tensors, and {len(rates)} when it was first called: nothing can "
                "be nested around a model whose output changes its form"
            )
        self.maps = {n: self._nested(n, rate) for n, rate in zip(self.numbers, rates, strict=True) if rate is not None}

    def _any(self) -> list[Any]:
        return next(leaves for leaves in reversed(self.leaves) if leaves is not None)

    def _nested(self, number: int, rate: int) -> Tensor:
        """Coefficients of one map: of each level the frequencies that no level before it holds."""
        written: dict[Box, Tensor] = {}
        for one, leaves in zip(self.passes, self.leaves, strict=True):
            band = one.writes(rate)
            if band in written or leaves is None:  # of levels with one band the coarsest: it reads what all can see
                continue
            size, found = tuple(n // rate for n in one.grid), leaves[number]
            if tuple(found.shape[2:]) != size or found.shape[0] != self._any()[number].shape[0]:
                raise ValueError(
                    f"expected maps of {size} for images of {one.grid} (a rate of {rate}, as when the model was first "
                    f"called), got shape {tuple(found.shape)}: pad inside the model, or say its stride"
                )
            kept = tuple(grid(k, self.boundary) for k in band)
            wide = found.float() if found.dtype in (torch.float16, torch.bfloat16) else found
            written[band] = analyze(wide, self.axes, kept, self.boundary)
        return keep_rims(list(written.values()), self.axes)

    def sampled(self, number: int, size_of: Callable[[int], Box] | None) -> Any:
        """The output at one level: maps on grids that follow from their rates, or as coefficients."""
        one, leaves = self.passes[number], self.leaves[number]
        given = list(self._any() if leaves is None else leaves)
        for n, rate in zip(self.numbers, self.rates, strict=True):
            if rate is None:
                given[n] = given[n] if self.scales is None else given[n] * self.scales[one.row]
                continue
            coeffs = self.maps[n][corner(one.writes(rate))]
            given[n] = coeffs if size_of is None else synthesize(coeffs, size_of(rate), self.boundary)
        return tree_unflatten(given, self.structure)


def find_rates(model: Callable[[Tensor], Any], example: Tensor, sizes: InputSizes, size: Box) -> list[int | None]:
    """How much smaller than the image each tensor of a model's output is; None for a vector, which no size changes.

    Args:
        model: Takes images.
        example: A tensor of the channels, axes, dtype and device of its images.
        sizes: The sizes that it takes.
        size: About the size at which it is to be tried.

    Raises:
        ValueError: Something among the outputs is neither a map nor a vector.

    >>> from torch import nn
    >>> find_rates(nn.Conv2d(3, 8, 2, stride=2), torch.zeros(1, 3, 8, 8), InputSizes(2), (8, 8))
    [2]
    """
    step = max(2, sizes.stride)
    multiple = tuple(-(-n // step) * step for n in size)
    others = [wider(multiple, step), *(tuple(n + more for n in multiple) for more in (step, -step))]
    if sizes.only is not None:
        multiple, others = sizes.only, [sizes.only]
    outputs, again, other = _tried(model, example, multiple, others)
    for leaf in tree_leaves(outputs[0]):
        if not isinstance(leaf, (Tensor, *PLAIN)):
            raise ValueError(
                f"the model gives an object of class {type(leaf).__name__}, which cannot be taken apart: return "
                "tensors, or tuples, lists or dictionaries of them, or register a dataclass by "
                "torch.export.register_dataclass"
            )
    first, second = map(tensors_of, outputs)
    if not first:
        raise ValueError("the model gives no tensor: return a tensor, or a tuple, list or dictionary of tensors")
    if len(first) != len(second):
        raise ValueError(f"the model gives {len(first)} tensors for {multiple} and {len(second)} for {other}")
    if any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in _real(first, again)):
        warn_caller(
            "the model gives another answer when it is asked again (random draws, or a state that it keeps): only what "
            "it repeats can be exact"
        )
    return [_rate(a, b, multiple, other) for a, b in zip(first, second, strict=True)]


def mixes_images(model: Callable[[Tensor], Any], example: Tensor, size: Box) -> bool:
    """Whether what a model gives for an image depends on the others of its batch, as with statistics of a batch.

    A coarse level must not share a pass with a finer one then.

    Args:
        model: Takes images.
        example: A tensor of the channels, axes, dtype and device of its images.
        size: The grid of the lowest level.

    Raises:
        ValueError: It does not take images of this size.

    >>> mixes_images(lambda x: x - x.mean(), torch.zeros(1, 3, 8, 8), (8, 8))
    True
    """
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, example.shape[1], *size, generator=draw).to(example)
    try:
        with evaluating(model), torch.no_grad():
            alone, both = tensors_of(model(x[:1])), tensors_of(model(x))
    except Exception as error:  # a model of others complains in its own way
        raise ValueError(
            f"the lowest level is too small for the model, which is given {size} samples there ({reason(error)}): "
            "choose a higher one, or a larger stride, which gives it more"
        ) from error
    tolerance = 1e-2 if x.dtype in (torch.float16, torch.bfloat16) else 1e-4

    def is_first(one: Tensor, two: Tensor) -> bool:
        if not one.ndim or two.shape != (2, *one.shape[1:]):
            return False
        return one.is_meta or bool((one - two[:1]).norm() <= tolerance * one.norm())

    return not all(is_first(one, two) for one, two in zip(alone, both, strict=True))


def _tried(
    model: Callable[[Tensor], Any], example: Tensor, size: Box, others: Sequence[Box]
) -> tuple[list[Any], list[Tensor], Box]:
    """What a model gives for images of a size and of the first of the others that it takes; the first once more."""
    draw = torch.Generator().manual_seed(0)

    def image(sides: Box) -> Tensor:
        return torch.randn(1, example.shape[1], *sides, generator=draw).to(example)

    complaint: Exception | None = None
    with evaluating(model), torch.no_grad():
        x = image(size)
        for other in others:
            try:
                outputs = [model(x), model(image(other))]
                return outputs, tensors_of(model(x)), other
            except Exception as error:  # a model of others complains in its own way
                complaint = complaint or error
    raise ValueError(
        f"the model does not take images of {example.shape[1]} channel(s) and {size} and then {others[0]} samples "
        f"({reason(complaint)}): say other sizes by stride or only, and let it keep nothing between calls"
    ) from complaint


def _real(first: Sequence[Tensor], again: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [] if first[0].is_meta else list(zip(first, again, strict=False))


def _rate(first: Tensor, second: Tensor, size: Box, other: Box) -> int | None:
    """The rate of one output at two sizes of the image."""
    if not first.is_floating_point():
        raise ValueError(
            f"the model gives {first.dtype} of shape {tuple(first.shape)}, expected floating-point numbers: for "
            "classes return what it takes the largest of, logits for example, since classes have no frequencies"
        )
    axes = len(size)
    if first.ndim == axes + 2 and any(n > 1 for n in first.shape[2:]):
        rate = rate_of(first.shape[2:], size)
        if rate is not None and rate == rate_of(second.shape[2:], other):
            _warn_of_probabilities(first)
            return rate
    pooled = first.ndim <= 3 or all(n == 1 for n in first.shape[2:])
    if first.shape == second.shape and (size != other or pooled):
        return None
    also = "" if size == other else f" and {tuple(second.shape)} for {other}"
    raise ValueError(
        f"the model gives shape {tuple(first.shape)} for images of {size}{also}: "
        "neither a map of the image's size over a whole rate nor a vector; pad inside the model, bring its output to "
        "the image's size, or give its tokens the shape of a map"
    )


def _warn_of_probabilities(maps: Tensor) -> None:
    if maps.is_meta or maps.shape[1] == 1 or bool((maps < 0).any()):
        return
    if bool(((maps.float().sum(1) - 1).abs() < 1e-3).all()):
        warn_caller(
            "the model gives probabilities: what is put together from levels need not lie between 0 and 1; return "
            "logits, and take the softmax behind"
        )
