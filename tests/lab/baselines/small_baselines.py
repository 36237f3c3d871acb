"""Every baseline of this library with few channels, and images that reach it as the data module would send them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional.enlarging import enlarge_to
from fourierscale.models import create_model, model_info

SMALL: dict[str, dict[str, Any]] = {
    "cnn-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "per-resolution-cnn-mnist": {"widths": (2, 3, 4), "hidden": 8},
    "si-convnet-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "ss-cnn-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "fourier-cnn-mnist": {"widths": (3, 4), "hidden": 8},
    "sesn-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "sesn-vector-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "dss-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "dss-vector-mnist": {"widths": (3, 4, 5), "hidden": 8},
    "disco-mnist": {"widths": (2, 3, 4), "hidden": 8},
    "wrn-stl10": {"widths": (2, 3, 4, 5)},
    "si-convnet-stl10": {"widths": (2, 3, 4, 5)},
    "ss-cnn-stl10": {"widths": (2, 3, 4, 5)},
    "sesn-stl10": {"widths": (2, 3, 4, 5)},
    "dss-stl10": {"widths": (2, 4, 4, 6)},  # with a common divisor, or shortcuts begin with nothing random
    "disco-stl10": {"widths": (2, 3, 4, 5)},
    "fourier-cnn-stl10": {"widths": (3, 3, 4, 4, 5, 5), "stem": 2, "hidden": 8},
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
