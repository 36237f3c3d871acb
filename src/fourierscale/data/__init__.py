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
from fourierscale.data.folder import ImageFolder
from fourierscale.data.idx import read_idx, write_idx
from fourierscale.data.sources import FileReport, RawImages, get, verify, where

__all__ = [
    "CorruptFileError",
    "DataError",
    "FileReport",
    "FormatError",
    "ImageFolder",
    "MissingDataError",
    "RawImages",
    "SourceError",
    "UnknownNameError",
    "get",
    "read_idx",
    "verify",
    "where",
    "write_idx",
]
