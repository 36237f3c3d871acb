"""How pixels become the input of a model, and its logits answers: the one description that travels with a model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.functional import downscale, enlarge_to
from fourierscale.functional.bands import Boundary, Size, check_boundary
from fourierscale.functional.enlarging import Enlarging
from fourierscale.functional.resample import Kind
from fourierscale.models.answer import Answer

__all__ = ["Polarity", "Preprocessing", "Shape", "dark_on_light"]

Shape: TypeAlias = Literal["crop", "whole"]
"""How an image becomes square: its largest centred square, or all of it, squeezed."""

Polarity: TypeAlias = Literal["light on dark"]
"""What a model was trained to see as ink, where it matters."""

LIGHT = 0.5
"""A border that is lighter on average, from 0 to 1, is paper."""


def dark_on_light(pixels: Tensor) -> Tensor:
    """Whether images ``(..., C, m, m)`` show dark ink on light paper: by the average lightness of their border.

    >>> digit = torch.zeros(1, 5, 5)
    >>> digit[:, 1:4, 2] = 1.0
    >>> bool(dark_on_light(digit)), bool(dark_on_light(1 - digit))
    (False, True)
    """
    sides = pixels[..., 0, :], pixels[..., -1, :], pixels[..., :, 0], pixels[..., :, -1]
    return torch.stack([side.mean(dim=(-2, -1)) for side in sides]).mean(0) > LIGHT


LARGEST_SIDE = 1 << 16
LARGEST_VALUE = 1e6
"""Of a pixel: far above what images hold, far below where float32 overflows in a net."""
BLANK = 1 / 512
"""An image that varies by less than this is blank: half a step of 8 bits."""


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What is done to images on their way into a model, and what its logits stand for.

    It is saved with weights, runs and ONNX files, and is a model's ``preprocessing``.

    Attributes:
        mean: Subtracted from each channel of pixels from 0 to 1.
        std: Each channel is then divided by it.
        sizes: Resolutions of the images that the model was made for, increasing; empty: not known.
        only_sizes: Whether images are brought to one of ``sizes``; if not, sizes between them are taken as they are.
        enlarge: How a smaller image reaches a model of one input size; see :func:`fourierscale.functional.enlarge_to`.
        enlarge_size: The input size of such a model.
        kind: How images are downscaled.
        boundary: What lies beyond their edge then.
        shape: How an image that is not square becomes so; None: its largest centred square, ideally downscaled.
        classes: Names of the classes; empty: their numbers.
        polarity: What the model takes for ink; None: it does not matter.

    >>> digits = Preprocessing(mean=(0.5,), std=(0.25,), sizes=(8, 28), classes=("zero", "one"))
    >>> digits(torch.ones(1, 1, 2, 2)).unique(), digits.channels
    (tensor([2.]), 1)
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    sizes: tuple[int, ...] = ()
    only_sizes: bool = False
    enlarge: Enlarging | None = None
    enlarge_size: int | None = None
    kind: Kind = "ideal"
    boundary: Boundary = "circular"
    shape: Shape | None = None
    classes: tuple[str, ...] = field(default=(), repr=False)
    polarity: Polarity | None = None

    def __post_init__(self) -> None:
        finite = all(map(math.isfinite, (*self.mean, *self.std)))
        if not self.mean or len(self.mean) != len(self.std) or not finite or min(self.std) <= 0:
            raise ValueError(f"expected as many means as positive stds, got {self.mean} and {self.std}")
        if list(self.sizes) != sorted(set(self.sizes)) or not all(0 < n <= LARGEST_SIDE for n in self.sizes):
            raise ValueError(f"expected sizes from 1 to {LARGEST_SIDE}, increasing, got {self.sizes}")
        if self.enlarge_size is not None and not 0 < self.enlarge_size <= LARGEST_SIDE:
            raise ValueError(f"expected an enlarge_size from 1 to {LARGEST_SIDE}, got {self.enlarge_size}")
        check_boundary(self.boundary)
        if self.kind not in get_args(Kind):
            raise ValueError(f"unknown kind of downscaling {self.kind!r}: choose one of {', '.join(get_args(Kind))}")
        if self.enlarge is not None and self.enlarge not in get_args(Enlarging):
            raise ValueError(f"unknown enlarge {self.enlarge!r}: choose one of {', '.join(get_args(Enlarging))}")
        if (self.enlarge is None) != (self.enlarge_size is None):
            raise ValueError(f"enlarge is {self.enlarge}, enlarge_size {self.enlarge_size}: give both or neither")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preprocessing:
        """From plain values: those of :meth:`to_dict`, or what descriptions said before version 0.2."""
        values = cls.values(data)
        plain: dict[str, Any] = {name: tuple(v) if isinstance(v, (list, range)) else v for name, v in values.items()}
        return cls(**plain)

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Preprocessing:
        """From the description that stands beside weights.

        Raises:
            KeyError: The description does not say how images are prepared.
        """
        return cls.from_dict(cls.told(info)["preprocessing"])

    @staticmethod
    def told(info: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """The part of a description that is about images, as ``preprocessing``; nothing where there is none."""
        parts = (info.get(name) or {} for name in ("preprocessing", "data"))  # data: before version 0.2
        return next(({"preprocessing": part} for part in parts if "mean" in part), {})

    @classmethod
    def values(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that plain values name, under the names of today; what else they say is left out."""
        values = {RENAMED.get(name, name): value for name, value in data.items()}
        if "polarity" not in values and str(values.get("protocol")).startswith("mnist"):
            values["polarity"] = "light on dark"
        return {each.name: values[each.name] for each in dataclasses.fields(cls) if each.name in values}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return len(self.mean)

    @property
    def largest(self) -> int | None:
        """Side of the largest image the model was made for; None if nobody says."""
        return self.enlarge_size or max(self.sizes, default=None)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Pixels from 0 to 1, ``(..., C, n, n)``, as the model takes them; padding is black, so it comes first."""
        pixels = self.enlarged(pixels)
        return (pixels - self._each(self.mean, pixels)) / self._each(self.std, pixels)

    @staticmethod
    def faults(pixels: Tensor) -> list[str]:
        """Why a model has nothing to say of each image of a batch ``(B, C, n, n)``; empty where it may have.

        Norms turn the rounding errors of a blank image into features, so that its answer means nothing.

        >>> Preprocessing.faults(torch.stack([torch.rand(1, 4, 4), torch.ones(1, 4, 4)]))
        ['', 'it is blank: all its pixels are alike']
        """
        high, low = pixels.amax((-2, -1)), pixels.amin((-2, -1))  # (B, C)
        wild = torch.maximum(high, -low).amax(1)
        sorts = zip(wild.tolist(), (high - low).amax(1).tolist(), strict=True)
        return [
            f"its values are not finite, or beyond {LARGEST_VALUE:.0e}"
            if not most <= LARGEST_VALUE
            else "it is blank: all its pixels are alike"
            if contrast < BLANK
            else ""
            for most, contrast in sorts
        ]

    def enlarged(self, pixels: Tensor) -> Tensor:
        """Pixels of the model's one input size, if it has one; as they are if not."""
        if self.enlarge is None or self.enlarge_size is None:
            return pixels
        return enlarge_to(pixels, self.enlarge_size, self.enlarge)

    def to_pixels(self, x: Tensor) -> Tensor:
        """Normalised images as pixels."""
        return x * self._each(self.std, x) + self._each(self.mean, x)

    def downscale(self, x: Tensor, size: Size) -> Tensor:
        """Images of a smaller size, downscaled as those of training were."""
        return downscale(x, size, self.kind, boundary=self.boundary)

    def size_for(self, height: int, width: int) -> int:
        """Side of the square as which an image of these sides reaches the model.

        Raises:
            ValueError: The image is smaller than all that the model was made for.

        >>> between, listed = Preprocessing(sizes=(8, 28)), Preprocessing(sizes=(8, 28), only_sizes=True)
        >>> between.size_for(20, 30), listed.size_for(20, 30)
        (20, 8)
        """
        side = min(height, width)
        if self.sizes and side < min(self.sizes):
            lowest = min(self.sizes)
            raise ValueError(f"{width} x {height} pixels, the model needs at least {lowest} x {lowest}")
        if self.only_sizes:
            return max(size for size in self.sizes if size <= side)
        return min(side, max(self.sizes, default=side))

    def answers(self, logits: Tensor, names: Sequence[str]) -> list[Answer]:
        """What a model says of each image of a batch: :meth:`probabilities` with the names of levels and classes."""
        probabilities = self.probabilities(logits, names).cpu()
        classes = self.classes or tuple(map(str, range(probabilities.shape[-1])))
        return [Answer(one, classes, tuple(names[-len(one) :])) for one in probabilities]

    def probabilities(self, logits: Tensor, names: Sequence[str]) -> Tensor:
        """What logits stand for, ``(B, levels, classes)``.

        Args:
            logits: ``(B, levels, classes)`` or ``(B, classes)``.
            names: Of the levels, coarse to fine; the last ones count where the logits have fewer.

        Raises:
            ValueError: The logits are not finite, or not those of the classes that the description names.
        """
        if not bool(logits.isfinite().all()):
            raise ValueError("its logits are not finite numbers: the weights are damaged, or the input is out of range")
        logits = logits[:, None] if logits.ndim == 2 else logits
        classes = len(self.classes) or logits.shape[-1]
        if logits.shape[1] > len(names) or logits.shape[2] != classes:
            raise ValueError(
                f"expected logits of {classes} classes at {len(names)} level(s) at most, as the description says, got "
                f"shape {tuple(logits.shape)}: export or train the model again"
            )
        return logits.float().softmax(-1)

    @staticmethod
    def _each(values: Sequence[float], x: Tensor) -> Tensor:
        return torch.tensor(values, dtype=x.dtype, device=x.device).view(-1, 1, 1)


RENAMED = {"fit": "enlarge", "fit_size": "enlarge_size", "resolutions": "sizes"}
"""Names of fields in descriptions from before version 0.2."""
