"""Every baseline of this library with few channels, and images that reach it as the data module would send them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional.enlarging import enlarge_to
from fourierscale.models import create_model, list_models, model_info

OF_MAPS = ("segmentation", "field")  # recipes of models that give maps
SMALL = {
    name: dict(info.small)
    for name, info in ((name, model_info(name)) for name in list_models())
    if info.small and info.recipe not in OF_MAPS
}
DIGITS = [name for name in SMALL if name.endswith("mnist")]
PHOTOS = [name for name in SMALL if name.endswith("stl10")]


def small_model(name: str, **options: Any) -> nn.Module:
    return create_model(name, **{**SMALL[name], **options})


def resolutions(name: str) -> range:
    return range(8, 29) if name in DIGITS else range(48, 97, 8)


def images(name: str, resolution: int, count: int = 2) -> Tensor:
    """Random images of this resolution, fitted as the model's entry in the registry says."""
    info = model_info(name)
    x = torch.rand(count, info.default("in_channels"), resolution, resolution)
    return x if info.enlarge is None else enlarge_to(x, info.enlarge_size, info.enlarge)
