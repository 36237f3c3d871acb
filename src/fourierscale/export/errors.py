"""What can go wrong with exported files; the text is one sentence for the user."""

from __future__ import annotations

__all__ = ["ExportError"]


class ExportError(Exception):
    """A model that cannot be exported as asked, or an exported file that cannot be used."""
