"""Measure how far any model is from scale- and shift-equivariant: ``fourierscale.audit``.

Needs torch alone; its tables, pictures and pages need the extra ``data``, ONNX files ``export``.
"""

from fourierscale.auditing.before_after import BeforeAfter, audit_nested
from fourierscale.auditing.errors import AuditError
from fourierscale.auditing.files import FileModel, open_file
from fourierscale.auditing.logits import LogitRow
from fourierscale.auditing.measure import audit
from fourierscale.auditing.resizing import Resizing, make_smaller
from fourierscale.auditing.result import Audit, Layer, Rings, Shift

__all__ = [
    "Audit",
    "AuditError",
    "BeforeAfter",
    "FileModel",
    "Layer",
    "LogitRow",
    "Resizing",
    "Rings",
    "Shift",
    "audit",
    "audit_nested",
    "make_smaller",
    "open_file",
]
