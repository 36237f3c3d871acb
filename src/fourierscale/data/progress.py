"""Work on many files at a time, and tell how far it is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

__all__ = ["ProgressCallback", "for_each"]

T = TypeVar("T")

ProgressCallback: TypeAlias = Callable[[str, float | None], None]
"""Told what happens: a line of text, and the fraction that is done of what takes time."""


def for_each(
    count: int, work: Callable[[int], T], text: str = "", report: ProgressCallback | None = None
) -> Iterator[T]:
    """Results of a function of ``0 .. count - 1``, in order, by several threads: Pillow works outside Python's lock."""
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")  # Pillow's, of huge images and odd EXIF entries; what matters is an error
        for done, result in enumerate(pool.map(work, range(count)), start=1):
            yield result
            if report is not None and (done % 64 == 0 or done == count):
                report(text, done / count)
