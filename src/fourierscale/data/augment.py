"""Augmentations by name, as data that a config file can hold.

>>> get_augmentation("shift", p=1.0).to_dict()
{'name': 'shift', 'steps': [{'step': 'circular-shift', 'max_fraction': 0.25, 'p': 1.0}]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fourierscale.data.errors import UnknownNameError
from fourierscale.data.steps import (
    CircularShift,
    Colours,
    Cutout,
    HorizontalFlip,
    RandomCrop,
    RandomScaling,
    Stage,
    Step,
)
from fourierscale.data.warp import EarlyWarp, Warp
from fourierscale.nn.checks import nearest

__all__ = ["Augmentation", "get_augmentation", "list_augmentations"]

STEPS: dict[str, type[Step]] = {
    step.name: step
    for step in (CircularShift, RandomCrop, HorizontalFlip, Cutout, Colours, RandomScaling, Warp, EarlyWarp)
}


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """A named list of steps, applied in order within each stage.

    Args:
        name: What a config file calls it.
        steps: The steps; those of stage ``"image"`` act before downscaling, those of stage ``"scaled"`` after it.
    """

    name: str
    steps: tuple[Step, ...] = ()

    def __call__(self, x: Tensor, generator: torch.Generator, stage: Stage | None = None) -> Tensor:
        """Apply the steps of one stage, or all of them, to images ``(B, C, n, n)`` with values in [0, 1]."""
        for step in self.steps:
            if stage in (None, step.stage):
                x = step(x, generator)
        return x

    def paired(self, x: Tensor, shares: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Apply all steps to images ``(B, C, n, n)`` and to the shares of classes ``(B, K, n, n)`` at each pixel.

        Raises:
            ValueError: A step that cannot move a mask with its image.
        """
        for step in self.steps:
            x, shares = step.paired(x, shares, generator)
        return x, shares

    def to_dict(self) -> dict[str, Any]:
        """Plain names and numbers, for a config file."""
        steps = [{"step": step.name, **dataclasses.asdict(step)} for step in self.steps]  # type: ignore[call-overload]
        return {"name": self.name, "steps": steps}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Augmentation:
        """The augmentation that :meth:`to_dict` described; a field that is left out has its default.

        Raises:
            UnknownNameError: A step or a field that does not exist; the message suggests the nearest.
        """
        steps = []
        for entry in data.get("steps", ()):
            fields = dict(entry)
            name = str(fields.pop("step", ""))
            if name not in STEPS:
                raise UnknownNameError(f"no augmentation step {name!r}: {nearest(name, STEPS)}")
            known = [field.name for field in dataclasses.fields(STEPS[name])]  # type: ignore[arg-type]
            for field in fields:
                if field not in known:
                    raise UnknownNameError(f"{name} has no setting {field!r}: {nearest(field, known)}")
            steps.append(STEPS[name](**fields))
        return cls(str(data["name"]), tuple(steps))


PHOTO = Warp(
    rotation=10, log_scale=0.05, shear=0.1, shift=0.075, elastic=0, padding="reflection", zoom=0.2, oversample=1
)
NAMED = {
    augmentation.name: augmentation
    for augmentation in (
        Augmentation("none"),
        Augmentation("shift", (CircularShift(),)),  # the published code's default for digits
        Augmentation("crop-flip-cutout", (RandomCrop(), HorizontalFlip(), Cutout())),  # ... and for STL-10
        Augmentation("scaling", (RandomScaling(),)),
        Augmentation("warp", (Warp(),)),
        Augmentation("flip-warp", (HorizontalFlip(), Warp(padding="reflection"))),
        Augmentation("photo", (HorizontalFlip(), PHOTO, Colours())),  # cheap: for small nets on a CPU
        Augmentation("early-warp", (EarlyWarp(),)),  # where downscaling is not ideal
        Augmentation("flip-early-warp", (HorizontalFlip(), EarlyWarp(padding="reflection"))),
    )
}


def list_augmentations() -> tuple[str, ...]:
    """The names that :func:`get_augmentation` knows."""
    return tuple(NAMED)


def get_augmentation(name: str, **overrides: Any) -> Augmentation:
    """The augmentation of this name, with settings of its steps replaced.

    Args:
        name: One of :func:`list_augmentations`.
        overrides: New values for settings of its steps, for example ``rotation=20`` for ``"warp"``.

    Raises:
        UnknownNameError: No such augmentation or setting; the message suggests the nearest.
        ValueError: A value that the setting cannot have.
    """
    if name not in NAMED:
        raise UnknownNameError(f"no augmentation {name!r}: {nearest(name, NAMED)}")
    data = NAMED[name].to_dict()
    for setting, value in overrides.items():
        holders = [step for step in data["steps"] if setting in step and setting != "step"]
        if not holders:
            known = [key for step in data["steps"] for key in step if key != "step"]
            hint = nearest(setting, known) if known else "it has none"
            raise UnknownNameError(f"augmentation {name!r} has no setting {setting!r}: {hint}")
        for step in holders:
            if isinstance(step[setting], float) and (not isinstance(value, (int, float)) or isinstance(value, bool)):
                raise ValueError(f"{name}: expected {setting} to be a number, got {value!r}")
            step[setting] = value
    return Augmentation.from_dict(data)
