"""Weights of one model as the beginning of another, also with other classes and other levels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fourierscale.functional.bands import Box
from fourierscale.functional.levels import Levels

__all__ = ["transfer_weights"]


@torch.no_grad()
def transfer_weights(model: nn.Module, source: nn.Module) -> tuple[list[str], list[str]]:
    """Copy into a model what fits of another one's weights.

    A tensor fits where the other model has one of this name and shape. What a layer learns for each level is taken from
    the level of the other net that is nearest, relative to the highest of each: the taps of both nets are samples of
    their highest resolution. What does not fit, such as the last layer where the classes are others, stays as it is.

    Args:
        model: Gets the weights.
        source: Has them.

    Returns:
        Names of the tensors that were copied, and of those that were not.

    >>> from fourierscale.models import create_model
    >>> ten, three = create_model("scalenet-tiny"), create_model("scalenet-tiny", classes=3, resolutions=(10, 20))
    >>> transfer_weights(three, ten)[1]
    ['head.outer.2.weight', 'head.outer.2.bias']
    """
    have, copied, left = source.state_dict(), [], []
    parts, others = dict(model.named_modules()), dict(source.named_modules())
    for name, target in model.state_dict().items():
        place = name.rpartition(".")[0]
        levels, known = (getattr(found.get(place), "levels", None) for found in (parts, others))
        value = have.get(name)
        if value is not None and isinstance(levels, Levels) and isinstance(known, Levels):
            value = _of_levels(value, levels, known)
        if value is None or value.shape != target.shape:
            left.append(name)
            continue
        target.copy_(value)
        copied.append(name)
    return copied, left


def _of_levels(value: Tensor, levels: Levels, known: Levels) -> Tensor:
    """One row for each level of another set, if the rows are levels."""
    if levels.is_open or known.is_open or len(value) != len(known):
        return value
    there = _relative(known.bands)
    nearest = [min(range(len(there)), key=lambda row: abs(there[row] - share)) for share in _relative(levels.bands)]
    return value[nearest]


def _relative(bands: Sequence[Box]) -> list[float]:
    highest = max(max(box) for box in bands)
    return [max(box) / max(highest, 1) for box in bands]
