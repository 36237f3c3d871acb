"""Truly scale-equivariant deep nets with Fourier layers.

Downscale the image or downscale the features: the numbers agree to machine precision, at every resolution.
``fourierscale.functional`` holds the mathematics, ``fourierscale.kernels`` its fast twins, ``fourierscale.nn`` the
layers, ``fourierscale.models`` the networks, ``fourierscale.testing`` the tools that check a claim;
``fourierscale.audit`` measures any model, layer by layer.
"""

from typing import TYPE_CHECKING, Any

from fourierscale import functional, kernels, models, nn, testing
from fourierscale.functional import Levels, downscale, upscale
from fourierscale.models import create_model, list_models, load_pretrained
from fourierscale.nn import equivariant

if TYPE_CHECKING:
    from fourierscale.auditing import audit as audit

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


def __getattr__(name: str) -> Any:
    """``fourierscale.audit`` is imported when it is first asked for."""
    if name == "audit":
        from fourierscale.auditing import audit

        return audit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
