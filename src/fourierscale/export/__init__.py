"""Trained models as files that run without this library: ONNX, and programs of ``torch.export``."""

from fourierscale.export.check import Check, ExportReport
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.export.errors import ExportError
from fourierscale.export.write import export_onnx, export_program

__all__ = ["Check", "ExportError", "ExportReport", "OnnxClassifier", "export_onnx", "export_program"]
