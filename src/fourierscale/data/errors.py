"""What can go wrong with data, as one small family of exceptions.

Every function of :mod:`fourierscale.data` that reads, fetches or unpacks a file raises one of these, whatever is in the
file. A path that cannot be opened at all raises Python's own ``OSError``.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "CorruptFileError",
    "DataError",
    "FormatError",
    "MissingDataError",
    "SourceError",
    "UnknownNameError",
]


class DataError(Exception):
    """Base of every error of :mod:`fourierscale.data`; its text is one sentence for the user."""


class FormatError(DataError):
    """The file is not of the format, data type or shape that was asked for."""


class CorruptFileError(DataError):
    """The file is of the right kind but damaged: cut short, too long, or not the bytes that were published."""


class MissingDataError(DataError):
    """A folder does not hold the files or class folders that were expected in it."""


class UnknownNameError(DataError):
    """No dataset, protocol, augmentation or setting has this name."""


class SourceError(DataError):
    """No source could supply the data.

    Args:
        name: The dataset.
        attempts: ``(source, reason)`` for each source that was tried, in order.
        remedy: What the user can do about it.
    """

    def __init__(self, name: str, attempts: Sequence[tuple[str, str]], remedy: str) -> None:
        self.name = name
        self.attempts = tuple(attempts)
        self.remedy = remedy
        tried = "; ".join(f"{source}: {reason}" for source, reason in self.attempts)
        super().__init__(f"no source could supply {name}: {tried}. {remedy}")
