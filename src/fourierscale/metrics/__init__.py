"""What is measured, as torchmetrics metrics: exact over the whole set, and over all processes.

torchmetrics is imported with the first metric that is asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fourierscale.metrics.shrinking import shrink_features

if TYPE_CHECKING:
    from fourierscale.metrics.accuracy import LevelLoss, ResolutionAccuracy
    from fourierscale.metrics.calibration import LevelCalibration, fit_temperature
    from fourierscale.metrics.consistency import ScaleConsistency, one_pass_levels
    from fourierscale.metrics.equivariance import EquivarianceError

__all__ = [
    "EquivarianceError",
    "LevelCalibration",
    "LevelLoss",
    "ResolutionAccuracy",
    "ScaleConsistency",
    "fit_temperature",
    "one_pass_levels",
    "shrink_features",
]

MODULES = {
    "accuracy": ("LevelLoss", "ResolutionAccuracy"),
    "calibration": ("LevelCalibration", "fit_temperature"),
    "consistency": ("ScaleConsistency", "one_pass_levels"),
    "equivariance": ("EquivarianceError",),
}


def __getattr__(name: str) -> Any:
    """A metric, when it is first asked for."""
    module = next((module for module, names in MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
