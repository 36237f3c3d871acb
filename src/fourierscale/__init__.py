"""Truly scale-equivariant deep nets with Fourier layers.

Downscale the image or downscale the features: the numbers agree to machine precision, at every resolution.
``fourierscale.functional`` holds the mathematics, ``fourierscale.kernels`` its fast twins, ``fourierscale.nn`` the
layers, ``fourierscale.models`` the networks, ``fourierscale.testing`` the tools that check a claim.
"""

from fourierscale import functional, kernels, models, nn, testing
from fourierscale.functional import Levels, downscale, upscale
from fourierscale.models import create_model, list_models, load_pretrained

__version__ = "0.1.0"

__all__ = [
    "Levels",
    "__version__",
    "create_model",
    "downscale",
    "functional",
    "kernels",
    "list_models",
    "load_pretrained",
    "models",
    "nn",
    "testing",
    "upscale",
]
