"""Which sizes of images a model under audit takes, and at which of them it is audited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fourierscale.auditing.errors import AuditError
from fourierscale.auditing.files import FileModel
from fourierscale.functional import downscale
from fourierscale.functional.enlarging import Enlarging
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.nn.input_sizes import InputSizes, evaluating, find_input_sizes

__all__ = ["Suited", "TakenSizes", "find_sizes", "fit_images", "place_of", "spread"]

RESOLUTIONS = 8  # at so many a model is audited where nobody says which
FEW = 3  # at so many at least, even if they are small


def spread(values: Sequence[int], most: int) -> list[int]:
    """At most so many of the values, evenly, the first and the last among them.

    >>> spread(range(8, 28), 5)
    [8, 13, 18, 22, 27]
    """
    if len(values) <= most:
        return list(values)
    return [values[round(step * (len(values) - 1) / (most - 1))] for step in range(most)]


@dataclass(frozen=True)
class TakenSizes:
    """The square images that a model takes.

    Attributes:
        sizes: Any size, multiples of a stride, or one.
        axis: The axis of which one size is taken alone, ``"height"`` or ``"width"``, where the other is free.
        most: The largest side, where larger ones are refused.
    """

    sizes: InputSizes
    axis: str = ""
    most: int | None = None

    @property
    def side(self) -> int | None:
        """The one side that is taken; None where there are many."""
        return None if self.sizes.only is None else self.sizes.only[0]

    def __str__(self) -> str:
        """The sizes in words."""
        if self.side is not None and self.axis:
            return f"images of a {self.axis} of {self.side} alone"
        if self.most is not None:
            return f"images of sides up to {self.most}"
        several = self.side is None and self.sizes.stride > 1
        return f"images of sides that are {self.sizes}" if several else f"images of {self.sizes}"


ANY = TakenSizes(InputSizes())


def find_sizes(model: Callable[[Tensor], Any], example: Tensor) -> TakenSizes:
    """Which square images a model takes: what its file says, or else by trying.

    Args:
        model: Takes images.
        example: Images ``(B, C, n, n)`` of about the size in question.

    Raises:
        AuditError: It takes none of the sizes that were tried, or none that is square.

    >>> from torch import nn
    >>> print(find_sizes(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), torch.zeros(1, 1, 8, 8)))
    images of 8 x 8 alone
    """
    said = model.shape[2:] if isinstance(model, FileModel) and model.shape else (None, None)
    height, width = said
    if height is not None and width is not None:
        if height != width:
            raise AuditError(
                f"the model takes images of {height} x {width} alone, and an audit gives square ones: export it with a "
                "free width, or audit a function that brings squares to that size"
            )
        return TakenSizes(InputSizes(only=(height, width)))
    one = example[:1]
    fixed = height or width
    if fixed is not None:
        return TakenSizes(InputSizes(only=(fixed, fixed)), "width" if height is None else "height")
    try:
        sizes = find_input_sizes(model, one, regular=False)
    except ValueError as error:
        raise AuditError(f"the model takes no square images ({error})") from error
    if sizes.only is None:
        return TakenSizes(sizes)
    if _takes(model, one, (sizes.only[0] - 1,) * 2):
        return TakenSizes(InputSizes(), most=_largest(model, one, sizes.only[0]))
    return TakenSizes(sizes, _single_axis(model, one, sizes.only))


def _largest(model: Callable[[Tensor], Any], one: Tensor, taken: int) -> int:
    """The largest side that is taken, below that of an image which is not, by halving."""
    refused = max(int(one.shape[-1]), taken) + 1
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if _takes(model, one, (middle, middle)) else (taken, middle)
    return taken


def _single_axis(model: Callable[[Tensor], Any], one: Tensor, only: Sequence[int]) -> str:
    """Which axis of a model's one size is the reason, if one of them is free."""
    for axis, wider in (("height", (only[0], 2 * only[1])), ("width", (2 * only[0], only[1]))):
        if _takes(model, one, wider):
            return axis
    return ""


def _takes(model: Callable[[Tensor], Any], one: Tensor, size: Sequence[int]) -> bool:
    try:
        with evaluating(model), torch.no_grad():
            model(one.new_zeros(1, one.shape[1], *size))
    except Exception:  # a model of others complains in its own way
        return False
    return True


def place_of(model: Callable[[Tensor], Any], images: Tensor) -> tuple[torch.device, torch.dtype]:
    """Where a model computes and in what; where the images are if it has no weights."""
    if isinstance(model, FileModel):
        return torch.device("cpu"), model.dtype
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    found = next((tensor for tensor in tensors if tensor.is_floating_point()), images)
    return found.device, found.dtype


class Suited(NamedTuple):
    """Images, and what of them a model takes.

    Attributes:
        images: ``(N, C, n, n)``.
        resolutions: Below ``n``, coarse to fine.
        preprocessing: Where the model takes one size, with the way to it.
        taken: The sizes that the model takes.
    """

    images: Tensor
    resolutions: list[int]
    preprocessing: Preprocessing
    taken: TakenSizes


def fit_images(
    model: Callable[[Tensor], Any], images: Tensor, prepare: Preprocessing, enlarge: Enlarging = "zero"
) -> Suited:
    """Images that a model takes, and resolutions below theirs that it takes too.

    - Any size: from a third of the images' side on, as small as the model will go.
    - Multiples of a stride: the images are ideally downscaled to the largest that they hold.
    - One size: images are ideally downscaled to it, and smaller ones are enlarged.

    Args:
        model: Takes images.
        images: ``(N, C, n, n)``.
        prepare: How they become its input.
        enlarge: How smaller images reach a model of one size, where the preprocessing does not say.

    Raises:
        AuditError: The images are too small for two sizes that the model takes.
    """
    if prepare.enlarge is not None:  # whatever comes is brought to one size
        return Suited(images, spread(_from_a_third(int(images.shape[-1])), RESOLUTIONS), prepare, ANY)
    example = images[:1].to(*place_of(model, images))
    taken, n = find_sizes(model, example), int(images.shape[-1])
    if taken.side is not None:
        n = min(n, taken.side)
        prepare = replace(prepare, enlarge=enlarge, enlarge_size=taken.side)
        sides = list(_from_a_third(n))
    else:
        stride, n = taken.sizes.stride, min(n, taken.most or n)
        n -= n % stride
        multiples = [side for side in range(stride, n, stride) if stride > 1 or 3 * side >= n]
        large = [side for side in multiples if 3 * side >= n]
        sides = _possible(model, example, large if len(large) >= FEW else multiples[-FEW:])
    if not sides:
        raise AuditError(
            f"the model takes {taken}, and there is no such size below the images' {images.shape[-1]} pixels: give "
            "larger images, --size on the command line"
        )
    if n < images.shape[-1]:
        images = downscale(images, n, boundary=prepare.boundary)
    return Suited(images, spread(sides, RESOLUTIONS), prepare, taken)


def _from_a_third(n: int) -> range:
    return range(max(1, n // 3), n)


def _possible(model: Callable[[Tensor], Any], example: Tensor, sides: Sequence[int]) -> list[int]:
    """The sides from the smallest one on that the model takes: deep nets do not take the smallest images."""
    first = next((number for number, side in enumerate(sides) if _takes(model, example, (side, side))), len(sides))
    return list(sides[first:])
