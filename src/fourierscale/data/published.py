"""A file as its authors published it: name, size and digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierscale.data.errors import CorruptFileError

__all__ = ["Published", "digest_of", "find_published"]


def digest_of(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


@dataclass(frozen=True)
class Published:
    """One published file.

    Args:
        name: File name, without folder.
        size: Length in bytes.
        digest: ``"sha256:..."``, or ``"md5:..."`` where the authors published nothing stronger.
    """

    name: str
    size: int
    digest: str

    def matches(self, path: Path) -> bool:
        """Whether ``path`` holds exactly the published bytes; the digest is only computed when the size is right."""
        algorithm, _, expected = self.digest.partition(":")
        return path.stat().st_size == self.size and digest_of(path, algorithm) == expected

    def check(self, path: Path) -> None:
        """Raise :class:`CorruptFileError` unless ``path`` holds exactly the published bytes."""
        size = path.stat().st_size
        if size != self.size:
            raise CorruptFileError(f"{path}: expected the {self.size} bytes of {self.name}, got {size}; fetch it again")
        algorithm, _, expected = self.digest.partition(":")
        got = digest_of(path, algorithm)
        if got != expected:
            raise CorruptFileError(f"{path}: expected {algorithm} {expected}, got {got}; fetch the file again")


def find_published(folder: Path, forms: Sequence[Published]) -> Path | None:
    """The first of several ``forms`` of one file that ``folder`` holds, byte for byte; None if it holds none."""
    for form in forms:
        path = folder / form.name
        if path.is_file() and form.matches(path):
            return path
    return None
