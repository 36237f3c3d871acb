"""Truly scale-equivariant deep nets with Fourier layers.

Downscale the image or downscale the features: the numbers agree to machine precision, at every resolution.
``fourierscale.functional`` holds the mathematics, ``fourierscale.kernels`` its fast twins, ``fourierscale.nn`` the
layers, ``fourierscale.models`` the networks, ``fourierscale.testing`` the tools that check a claim;
``fourierscale.Classifier`` gives labels for image files; ``fourierscale.audit`` measures any model, layer by layer.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fourierscale import functional, kernels, models, nn, testing
from fourierscale.functional import Levels, downscale, upscale
from fourierscale.models import create_model, list_models, load_pretrained
from fourierscale.nn import equivariant

if TYPE_CHECKING:
    from fourierscale.auditing import audit as audit
    from fourierscale.predicting import Classifier as Classifier

__version__ = "0.2.0"

__all__ = [
    "Levels",
    "__version__",
    "create_model",
    "downscale",
    "equivariant",
    "functional",
    "kernels",
    "list_models",
    "load_pretrained",
    "models",
    "nn",
    "testing",
    "upscale",
]


LATER = {"audit": ("fourierscale.auditing", "train"), "Classifier": ("fourierscale.predicting", "predict")}
"""Names that are imported when they are first asked for, since they need more than torch: where from, which extra."""


def __getattr__(name: str) -> Any:
    """``fourierscale.audit`` and ``fourierscale.Classifier``, imported when they are first asked for."""
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = LATER[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"fourierscale.{name} needs {error.name}: pip install 'fourierscale[{extra}]'") from error


def __dir__() -> list[str]:
    """Every public name, those that are imported later too."""
    return sorted({*__all__, *LATER})
