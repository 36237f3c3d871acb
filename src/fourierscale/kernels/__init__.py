"""Fast twins of :mod:`fourierscale.functional`, and the choice between them and the specification.

The functions take and give what their twins do, logical shape ``(B, C, n_1, ..., n_d)`` included. Their results are
stored frequency first, ``(n_1, ..., n_d, B, C)`` in memory, as ``channels_last`` is a matter of memory alone.
"""

from fourierscale.kernels.backend import Backend, backend, get_backend, set_backend
from fourierscale.kernels.layers import Spectra, level_pool, local_conv, nested_activation, nested_pool, spectrum_conv

__all__ = [
    "Backend",
    "Spectra",
    "backend",
    "get_backend",
    "level_pool",
    "local_conv",
    "nested_activation",
    "nested_pool",
    "set_backend",
    "spectrum_conv",
]
