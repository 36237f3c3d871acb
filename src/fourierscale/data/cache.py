"""One folder for everything that was fetched: written atomically, locked, verified.

A file appears in the cache under its own name only after its digest was checked, by a rename within one folder. So a
process that dies, or two that fetch the same set, never leave a half file under a good name.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fourierscale.data.errors import DataError

__all__ = ["cache_folder", "locked", "set_aside", "staging"]

VARIABLE = "FOURIERSCALE_DATA"
LOCK_NAME = ".lock"
STAGING_PREFIX = ".staging-"
LOCK_TIMEOUT = 3600.0  # STL-10 over a slow line


def cache_folder() -> Path:
    """Where data is kept: the environment variable ``FOURIERSCALE_DATA``, else the platform's cache folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("fourierscale", appauthor=False)


@contextmanager
def locked(folder: Path, waiting: Callable[[], None] | None = None, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold ``folder``, made if needed, against every other process (and thread) that asks for it.

    The operating system's file lock is used: it goes with the process that held it, so no lock is ever stale.

    Args:
        folder: What to lock.
        waiting: Called once if another process holds the lock.
        timeout: Give up after this many seconds.

    Raises:
        DataError: The lock was not free in time, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK_NAME)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if waiting is not None:
                waiting()
            lock.acquire(timeout=timeout)
    except Timeout:
        raise DataError(f"{folder}: another process has held the lock for {timeout:.0f} s; try again later") from None
    except OSError as error:
        raise DataError(f"cannot write in {folder} ({error.strerror}); set {VARIABLE} to a folder you own") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """A temporary folder inside ``folder``, so that a rename out of it is atomic. Call it with the lock held.

    Whatever an earlier process left behind when it was killed is removed first.
    """
    for stale in folder.glob(STAGING_PREFIX + "*"):
        shutil.rmtree(stale, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file to ``NAME.damaged``, where it is never read but can be looked at."""
    aside = path.with_name(path.name + ".damaged")
    os.replace(path, aside)
    return aside
