"""Which sizes of images a model takes, found by trying."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional.bands import Boundary, Box, grid, widest

__all__ = ["InputSizes", "evaluating", "find_input_sizes"]

STRIDES = (1, 2, 4, 8, 16, 32, 64, 3, 5, 6, 7, 10, 12, 14, 20, 24, 28)
"""Strides that are tried, powers of two first; 14 and 28 are those of vision transformers."""
ONLY_SIZES = (32, 64, 96, 112, 128, 160, 192, 224, 240, 256, 299, 320, 336, 384, 448, 512, 518, 640, 1024)
"""Sides that models of one input size are known to have."""


@dataclass(frozen=True)
class InputSizes:
    """The sizes of images that a model takes.

    Attributes:
        stride: Every side is a multiple of this.
        only: The one size that is taken; None where there are many.

    >>> InputSizes(stride=32).grid((47, 33)), InputSizes().grid((47,)), InputSizes(only=(224, 224)).grid((47, 33))
    ((96, 96), (96,), (224, 224))
    """

    stride: int = 1
    only: Box | None = None

    def grid(self, box: Sequence[int], boundary: Boundary = "circular") -> Box:
        """The smallest size that holds a band; it follows from the band alone, so 79 and 80 samples share one."""
        if self.only is not None:
            if any(grid(k, boundary) > n for k, n in zip(box, self.only, strict=True)):
                needed = tuple(grid(k, boundary) for k in box)
                raise ValueError(
                    f"the model takes images of {_shown(self.only)} alone, which is too small for a level of "
                    f"{_shown(needed)}: choose lower levels, and above='nothing' for larger images"
                )
            return self.only
        if self.stride == 1:
            return tuple(widest(k, boundary) for k in box)
        return tuple(-(-grid(k, boundary) // self.stride) * self.stride for k in box)

    def __str__(self) -> str:
        """The sizes in words."""
        if self.only is not None:
            return f"{_shown(self.only)} alone"
        return "any size" if self.stride == 1 else f"multiples of {self.stride}"


def find_input_sizes(model: Callable[[Tensor], Any], example: Tensor, size: Sequence[int] | None = None) -> InputSizes:
    """Try sizes on a model: any, multiples of a stride, or one size.

    A size counts as taken if the model answers and each of its maps has the image's size over one rate.

    Args:
        model: Takes ``(1, C, n_1, ..., n_d)``.
        example: A tensor of the channels, axes, dtype and device of its images.
        size: About this size; that of the example if not given.

    Raises:
        ValueError: None of the sizes that were tried is taken; the text has the model's own complaint.

    >>> from torch.nn import functional as F
    >>> class Up(nn.Module):
    ...     def forward(self, x):
    ...         return F.max_pool2d(x, 8).repeat_interleave(8, -1).repeat_interleave(8, -2) + x
    >>> print(find_input_sizes(Up(), torch.zeros(1, 1, 60, 60)))
    multiples of 8
    """
    wanted = tuple(example.shape[2:] if size is None else size)
    complaint: Exception | None = None
    with evaluating(model), torch.no_grad():
        for stride in STRIDES:
            # two odd multiples, so that a model of stride 8 or 3 is not taken for one of stride 4
            tried = [tuple(stride * (max(1, -(-n // stride)) | 1) + more for n in wanted) for more in (0, 2 * stride)]
            try:
                if all(_is_regular(model, example, sides) for sides in tried):
                    return InputSizes(stride)
            except Exception as error:  # a model of others complains in its own way
                complaint = error
        for only in (wanted, *((n,) * len(wanted) for n in ONLY_SIZES)):
            try:
                model(example.new_zeros(1, example.shape[1], *only))
            except Exception as error:
                complaint = complaint or error
            else:
                return InputSizes(only=tuple(only))
    reason = " ".join(str(complaint).split())[:300]
    raise ValueError(
        f"the model takes none of the sizes that were tried with {example.shape[1]} channel(s) ({reason}): say which "
        "it takes, stride=32 or only=224"
    )


def _is_regular(model: Callable[[Tensor], Any], example: Tensor, sides: Box) -> bool:
    """Whether every map that a model gives for images of this size has that size over one rate."""
    outputs = tensors_of(model(example.new_zeros(1, example.shape[1], *sides)))
    for maps in (out.shape[2:] for out in outputs if out.ndim == len(sides) + 2):
        if all(n == 1 for n in maps):
            continue  # pooled to one cell
        if any(n % m for n, m in zip(sides, maps, strict=True)) and sides[0] // maps[0] > 0:
            return False
    return True


@contextmanager
def evaluating(model: Callable[[Tensor], Any]) -> Iterator[None]:
    """A module in evaluation mode for a while; afterwards every part of it is in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    # a ScriptModule has a train() of its own, an exported one refuses eval(): a flag on each part serves both
    for module, training in modes:
        if training:
            module.training = False
    try:
        yield
    finally:
        for module, training in modes:
            if training:
                module.training = True


def tensors_of(output: Any) -> list[Tensor]:
    """All tensors of an output, whatever holds them: tuples, lists, dictionaries, registered classes."""
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]


def _shown(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))
