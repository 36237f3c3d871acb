"""What can go wrong in an audit; each text is one sentence for the user."""

from __future__ import annotations

__all__ = ["AuditError", "SizeError"]


class AuditError(ValueError):
    """A model, a file or images that cannot be audited."""


class SizeError(AuditError):
    """Images that a model does not take, perhaps because of their size."""
