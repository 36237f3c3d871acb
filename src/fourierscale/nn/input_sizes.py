"""Which sizes of images a model takes, found by trying."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fourierscale.functional.bands import Boundary, Box, grid, widest

__all__ = ["InputSizes", "evaluating", "find_input_sizes", "rate_of", "reason", "tensors_of", "wider"]

STRIDES = (1, 2, 4, 8, 16, 32, 64, 3, 5, 6, 7, 10, 12, 14, 20, 24, 28)
"""Strides that are tried, powers of two first; 14 and 28 are those of vision transformers."""
ONLY_SIZES = (28, 32, 48, 64, 96, 112, 128, 160, 192, 224, 240, 256, 299, 320, 336, 384, 448, 512, 518, 640, 1024)
"""Sides that models of one input size are known to have."""
APART = {1: 128, 2: 64, 3: 16}
"""Samples between two sizes that are tried, by axes: a map changes its size between them, a vector does not."""


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


def find_input_sizes(
    model: Callable[[Tensor], Any], example: Tensor, size: Sequence[int] | None = None, regular: bool = True
) -> InputSizes:
    """Try sizes on a model: any, multiples of a stride, or one size.

    Sizes count as taken if the model answers and each of its maps has the image's size over one rate, at two of them.

    Args:
        model: Takes ``(1, C, n_1, ..., n_d)``.
        example: A tensor of the channels, axes, dtype and device of its images.
        size: About this size; that of the example if not given.
        regular: If not, the sizes of its maps do not matter.

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
            # odd multiples, so that a model of stride 8 or 3 is not taken for one of stride 4
            sides = tuple(stride * (max(1, -(-n // stride)) | 1) for n in wanted)
            try:
                if _is_regular(model, example, sides, wider(sides, 2 * stride)) or not regular:
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
    raise ValueError(
        f"the model takes none of the sizes that were tried with {example.shape[1]} channel(s) ({reason(complaint)}): "
        "say which it takes, stride=32 or only=224, and let it keep nothing between calls"
    )


def reason(error: Exception | None) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:300]


def wider(size: Sequence[int], step: int) -> Box:
    """A size some steps larger, far enough for every map to change its size.

    >>> wider((64, 96), 32), wider((16, 24, 24), 2)
    ((128, 160), (32, 40, 40))
    """
    return tuple(n + -(-APART[len(size)] // step) * step for n in size)


def rate_of(maps: Sequence[int], size: Sequence[int]) -> int | None:
    """The whole number by which every side of an image is larger than that of its map; None if there is none.

    >>> rate_of((16, 24), (32, 48)), rate_of((16, 16), (32, 48)), rate_of((5, 5), (66, 66)), rate_of((8, 8), (4, 4))
    (2, None, None, None)
    """
    rates = {divmod(n, m) if m else (0, 1) for n, m in zip(size, maps, strict=True)}
    rate, rest = rates.pop()
    return rate if not rates and not rest and rate else None


def _is_regular(model: Callable[[Tensor], Any], example: Tensor, size: Box, other: Box) -> bool:
    """Whether every map that a model gives for images of two sizes has the image's size over one rate."""
    first, second = (tensors_of(model(example.new_zeros(1, example.shape[1], *sides))) for sides in (size, other))
    if len(first) != len(second):
        return False
    for a, b in zip(first, second, strict=True):
        if a.ndim != len(size) + 2 or a.shape == b.shape or a.shape[2] > size[0]:
            continue  # vectors; and what is larger than the image, which no stride makes a map of a whole rate
        rate = rate_of(a.shape[2:], size)
        if rate is None or rate != rate_of(b.shape[2:], other):
            return False
    return True


@contextmanager
def evaluating(model: Callable[[Tensor], Any]) -> Iterator[None]:
    """A module in evaluation mode for a while; afterwards its parts and their buffers are as they were."""
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    # a ScriptModule has a train() of its own, an exported one refuses eval(): a flag on each part serves both
    buffers = [b for b in model.buffers() if not b.is_inference()] if isinstance(model, nn.Module) else []
    before = [(buffer, buffer._version, buffer.detach().clone()) for buffer in buffers]
    for module, training in modes:
        if training:
            module.training = False
    try:
        yield
    finally:
        for buffer, version, value in before:
            if buffer._version != version:  # it keeps a state in evaluation, too
                buffer.copy_(value)
        for module, training in modes:
            if training:
                module.training = True


def tensors_of(output: Any) -> list[Tensor]:
    """All tensors of an output, whatever holds them: tuples, lists, dictionaries, registered classes."""
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]


def _shown(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))
