"""Read and write idx files, the format of MNIST and its relatives.

An idx file is two zero bytes, a data type, the number of axes, each axis' length as a big-endian 32-bit integer, then
the values. Only unsigned bytes (type ``0x08``) are read: that is what every published image set holds. The header is
never believed: what it promises is compared with what the file can hold before anything is allocated.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.errors import CorruptFileError, FormatError
from fourierscale.models.files import check_regular, write_whole

__all__ = ["read_idx", "write_idx"]

UBYTE = 0x08
MAX_AXES = 4
MAX_BYTES = 1 << 31  # 2 GiB, forty times MNIST
GZIP_MAGIC = b"\x1f\x8b"
DEFLATE_RATIO = 1032  # no deflate stream expands more than this


def read_idx(path: str | os.PathLike[str], ndim: int | None = None, max_bytes: int = MAX_BYTES) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, plain or gzipped (told apart by content, not by name).

    Args:
        path: The file.
        ndim: Number of axes the caller expects (3 for images, 1 for labels); any up to 4 if not given.
        max_bytes: Refuse files that promise more values than this.

    Raises:
        FormatError: Not an idx file of unsigned bytes with ``ndim`` axes, or larger than ``max_bytes``.
        CorruptFileError: The header promises more or fewer bytes than there are, or the gzip stream is damaged.
        OSError: The file cannot be opened, or is a pipe or a device.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels-idx1-ubyte.gz"
        >>> write_idx(path, np.array([3, 1, 4], dtype=np.uint8))
        >>> read_idx(path, ndim=1)
        array([3, 1, 4], dtype=uint8)
    """
    path = Path(path)
    check_regular(path)
    with path.open("rb") as file:
        on_disk = os.fstat(file.fileno()).st_size
        zipped = file.read(2) == GZIP_MAGIC
        file.seek(0)
        if not zipped:
            return _read(file, path, ndim, max_bytes, room=on_disk, exact=True)
        try:
            with gzip.GzipFile(fileobj=file) as unzipped:
                return _read(unzipped, path, ndim, max_bytes, room=on_disk * DEFLATE_RATIO, exact=False)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CorruptFileError(f"{path}: damaged gzip stream ({error}); fetch the file again") from error


def _read(
    file: io.BufferedIOBase, path: Path, ndim: int | None, max_bytes: int, room: int, exact: bool
) -> NDArray[np.uint8]:
    """Read header and values; the stream holds ``room`` bytes, or at most that many unless ``exact``."""
    shape = _read_header(file, path, ndim)
    header = 4 + 4 * len(shape)
    size = math.prod(shape)  # Python integers do not overflow
    # numpy refuses (0, 2**32 - 1, 2**32 - 1) although it is empty: bound the axes even where one of them is 0
    if math.prod(max(axis, 1) for axis in shape) > max_bytes:
        raise FormatError(f"{path}: header promises {_times(shape)} bytes, more than the limit of {max_bytes}")
    if header + size > room or (exact and header + size != room):
        raise CorruptFileError(
            f"{path}: header promises {_times(shape)} = {size} bytes after {header} of header, "
            f"but the file holds {'' if exact else 'at most '}{room} in all; fetch the file again"
        )
    try:
        values = np.empty(size, dtype=np.uint8)
    except MemoryError as error:
        raise FormatError(f"{path}: {size} bytes do not fit in memory") from error
    done = 0
    while done < size:
        count = file.readinto(values.data[done:])
        if not count:
            raise CorruptFileError(f"{path}: expected {size} bytes after the header, got {done}; fetch the file again")
        done += count
    if file.read(1):  # also makes gzip check its CRC
        raise CorruptFileError(f"{path}: bytes are left after the {size} that the header promises")
    return values.reshape(shape)


def _read_header(file: io.BufferedIOBase, path: Path, ndim: int | None) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise FormatError(
            f"{path}: not an idx file: expected two zero bytes, type and axes, got {magic.hex() or 'none'}"
        )
    kind, axes = magic[2], magic[3]
    if kind != UBYTE:
        raise FormatError(f"{path}: expected unsigned bytes (idx type 0x08), got type {kind:#04x}")
    if not 1 <= axes <= MAX_AXES:
        raise FormatError(f"{path}: expected 1 to {MAX_AXES} axes, got {axes}")
    if ndim is not None and axes != ndim:
        raise FormatError(f"{path}: expected {ndim} axes, got {axes}: images have 3 and labels 1; are they swapped?")
    lengths = file.read(4 * axes)
    if len(lengths) < 4 * axes:
        raise CorruptFileError(f"{path}: expected {axes} axis lengths of 4 bytes, got {len(lengths)} bytes")
    return struct.unpack(f">{axes}I", lengths)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def write_idx(path: str | os.PathLike[str], array: NDArray[np.uint8]) -> None:
    """Write an array of unsigned bytes with 1 to 4 axes as idx, gzipped where ``path`` ends in ``.gz``.

    Raises:
        FormatError: The array has another type or number of axes, or an axis too long for 32 bits.
    """
    array = np.asarray(array)
    if array.dtype != np.uint8 or not 1 <= array.ndim <= MAX_AXES:
        raise FormatError(f"idx holds uint8 with 1 to {MAX_AXES} axes, got {array.dtype} with {array.ndim}")
    if max(array.shape) >= 1 << 32:
        raise FormatError(f"idx holds axes of less than 2**32, got {_times(array.shape)}")
    content = struct.pack(f">4B{array.ndim}I", 0, 0, UBYTE, array.ndim, *array.shape) + array.tobytes()
    path = Path(path)
    # mtime 0: the same array gives the same file
    write_whole(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
