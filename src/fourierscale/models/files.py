"""Files that are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["put_in_place", "replacing", "write_whole"]


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
