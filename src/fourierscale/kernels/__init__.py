"""Fast twins of :mod:`fourierscale.functional`, and the choice between them and the specification.

The functions take and give what their twins do, logical shape ``(B, C, n_1, ..., n_d)`` included. Their results are
stored frequency first, ``(n_1, ..., n_d, B, C)`` in memory, as ``channels_last`` is a matter of memory alone.
``README.md`` in this folder is a map of the files.
"""

from fourierscale.kernels.choice import Backend, backend, get_backend, set_backend
from fourierscale.kernels.conv.operator import local_conv, spectrum_conv
from fourierscale.kernels.conv.spectra import Spectra
from fourierscale.kernels.nested.activations import ACTIVATIONS, Activation
from fourierscale.kernels.nested.moments import level_moments
from fourierscale.kernels.nested.operator import nested_activation, nested_pool
from fourierscale.kernels.pool.operator import level_pool

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Backend",
    "Spectra",
    "backend",
    "get_backend",
    "level_moments",
    "level_pool",
    "local_conv",
    "nested_activation",
    "nested_pool",
    "set_backend",
    "spectrum_conv",
]
