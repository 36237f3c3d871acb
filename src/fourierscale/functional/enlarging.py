"""Bring images of any resolution to one size, for models that cannot take every size: padding or ideal upscaling."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from fourierscale.functional.resample import upscale

__all__ = ["Enlarging", "enlarge_to"]

Enlarging: TypeAlias = Literal["zero", "reflect", "replicate", "circular", "upsample"]
"""How to reach a fixed size; see :func:`enlarge_to`."""


def enlarge_to(x: Tensor, size: int, mode: Enlarging) -> Tensor:
    """Grow square images to ``size`` x ``size``.

    ``"zero"``, ``"reflect"``, ``"replicate"`` and ``"circular"`` pad as ``torch.nn.functional.pad`` does, around the
    centred image; an odd pixel goes to the right and to the bottom. Padding may be wider than the image: reflections
    and periods then repeat. ``"upsample"`` is ideal upscaling.

    Args:
        x: ``(..., n, n)`` with ``n <= size``.
        size: The side to reach.
        mode: One of the five above.

    >>> enlarge_to(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 3, "zero")
    tensor([[[[1., 2., 0.],
              [3., 4., 0.],
              [0., 0., 0.]]]])
    """
    n = x.shape[-1]
    if mode not in get_args(Enlarging):
        raise ValueError(f"unknown way {mode!r} to enlarge an image: choose one of {', '.join(get_args(Enlarging))}")
    if x.shape[-2] != n or n > size:
        raise ValueError(
            f"cannot fit an image of {x.shape[-2]} x {n} into {size} x {size}: it must be square, not larger"
        )
    if mode == "upsample":
        return upscale(x, size)
    before = (size - n) // 2
    if mode == "zero":
        after = size - n - before
        return F.pad(x, (before, after, before, after))
    source = _source(torch.arange(size, device=x.device) - before, n, mode)
    return x.index_select(-2, source).index_select(-1, source)


def _source(position: Tensor, n: int, mode: Enlarging) -> Tensor:
    """Which of ``n`` samples is seen at each position, inside the image or out."""
    if mode == "replicate" or n == 1:
        return position.clamp(0, n - 1)
    if mode == "circular":
        return position % n
    return (n - 1) - (position % (2 * (n - 1)) - (n - 1)).abs()  # there and back, the border once
