"""Truly scale-equivariant deep nets with Fourier layers."""

__version__ = "0.1.0"
