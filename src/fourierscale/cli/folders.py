"""Folders that commands write into."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_folder"]


def check_folder(path: Path, option: str = "--out") -> None:
    """Refuse, before any work is done for it, a folder that cannot be: a file has its name, or nobody may write there.

    Args:
        path: The folder, which need not be there yet.
        option: What named it.

    Raises:
        OSError: With a sentence that says what to do.
    """
    there = next(parent for parent in (path, *path.resolve().parents) if parent.exists())
    if not there.is_dir():
        raise FileExistsError(f"{there} is a file: {option} names a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} cannot be written to: choose another folder as {option}")
