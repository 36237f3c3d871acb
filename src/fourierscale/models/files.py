"""Files that are whole or not there, whatever happens while they are written, and that end when they are read."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_regular", "put_in_place", "replacing", "write_whole"]


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, which may be read for ever; what is not there at all is left to who opens it.

    Raises:
        OSError: It is one.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "a pipe or a device, and no file", str(path))


def put_in_place(file: Path, target: Path) -> None:
    """Move a finished file to its name in one step, once the disk has it."""
    with file.open("rb+") as written:
        os.fsync(written.fileno())
    os.replace(file, target)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file beside the target that takes its place if all goes well, and vanishes if not."""
    partial = target.with_name(f"{target.stem}.partial{target.suffix}")
    try:
        yield partial
        put_in_place(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(target: Path, content: bytes | str) -> None:
    """Write all of a file, or leave what was there."""
    with replacing(target) as partial:
        partial.write_bytes(content if isinstance(content, bytes) else content.encode())
