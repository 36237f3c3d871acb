"""Take named files out of a tar.gz stream, and nothing else.

Archives come from the network, so nothing in them is believed: only regular files with the names the caller asked for
are taken, they are written under names the caller chose, links and sparse files are refused, and no more than a given
number of bytes is ever unpacked. Reading stops as soon as the wanted files are there.
"""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, cast

from fourierscale.data.errors import CorruptFileError, MissingDataError

__all__ = ["extract", "members"]


class Readable(Protocol):
    """All that is asked of an archive's stream."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most ``size``."""
        ...


class _Bounded(io.RawIOBase):
    """The unpacked stream, cut with an error after ``max_bytes``."""

    def __init__(self, stream: Readable, name: str, max_bytes: int) -> None:
        self._unpacked = gzip.GzipFile(fileobj=cast("IO[bytes]", stream), mode="rb")  # it only ever reads
        self._name = name
        self._left = max_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._unpacked.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(block)
        if self._left < 0:
            raise CorruptFileError(f"{self._name}: unpacks to more bytes than this archive should hold")
        return block


@contextmanager
def _naming_damage(name: str) -> Iterator[None]:
    """Turn whatever a damaged archive makes the standard library raise into the documented error."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError, struct.error) as error:
        raise CorruptFileError(f"{name}: damaged archive ({error or type(error).__name__}); fetch it again") from error


Read = Callable[[int], bytes]


def members(stream: Readable, name: str, wanted: Callable[[str], bool], max_bytes: int) -> Iterator[tuple[str, Read]]:
    """Yield ``(member name, read)`` for each wanted regular file of a tar.gz, in the archive's order.

    ``read(size)`` gives the file's next bytes, all that are left for size -1, and must be done with before the next
    member is asked for.

    Args:
        stream: The archive's bytes; need not be seekable.
        name: What to call the archive in messages.
        wanted: Whether a member of this name is wanted.
        max_bytes: Refuse to unpack more than this in all, skipped members included.

    Raises:
        CorruptFileError: A damaged archive, too many bytes, or a wanted name that is not a regular file.
    """
    with _naming_damage(name), tarfile.open(fileobj=_Bounded(stream, name, max_bytes), mode="r|") as tar:
        for member in tar:
            path = member.name.removeprefix("./")
            if member.isdir() or not wanted(path):
                continue
            file = tar.extractfile(member) if member.isreg() and not member.issparse() else None
            if file is None:
                raise CorruptFileError(f"{name}: expected {path} to be a regular file, it is a link or a device")

            def read(size: int, file: IO[bytes] = file) -> bytes:
                with _naming_damage(name):
                    return file.read(size)

            yield path, read


def extract(stream: Readable, name: str, files: Mapping[str, str], target: Path, max_bytes: int) -> None:
    """Write the members named by ``files`` (member name to file name) into ``target``, then stop reading.

    Raises:
        MissingDataError: The archive does not hold all of them.
        CorruptFileError: As :func:`members`.
    """
    left = dict(files)
    if any(Path(file_name).name != file_name for file_name in left.values()):
        raise ValueError(f"expected plain file names to write, got {sorted(left.values())}")
    for member, read in members(stream, name, lambda path: path in left, max_bytes):
        with (target / left.pop(member)).open("wb") as out:
            while block := read(1 << 20):
                out.write(block)
        if not left:
            return
    raise MissingDataError(f"{name}: expected {', '.join(sorted(left))} in the archive, not found")
