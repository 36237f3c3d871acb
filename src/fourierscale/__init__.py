"""Truly scale-equivariant deep nets with Fourier layers.

Downscale the image or downscale the features: the numbers agree to machine precision, at every resolution.
``fourierscale.functional`` holds the mathematics, ``fourierscale.nn`` the layers, ``fourierscale.testing`` the tools
that check a layer's claim.
"""

from fourierscale import functional, nn, testing
from fourierscale.functional import Levels, downscale, upscale

__version__ = "0.1.0"

__all__ = ["Levels", "__version__", "downscale", "functional", "nn", "testing", "upscale"]
