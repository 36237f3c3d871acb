"""Real images, verified: sources, readers and the cache.

``import fourierscale.data`` needs numpy and torch alone; Pillow, pooch and the rest are imported by the functions that
use them.
"""

from fourierscale.data.errors import (
    CorruptFileError,
    DataError,
    FormatError,
    MissingDataError,
    SourceError,
    UnknownNameError,
)
from fourierscale.data.idx import read_idx, write_idx

__all__ = [
    "CorruptFileError",
    "DataError",
    "FormatError",
    "MissingDataError",
    "SourceError",
    "UnknownNameError",
    "read_idx",
    "write_idx",
]
