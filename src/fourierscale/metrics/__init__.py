"""What is measured, as torchmetrics metrics: exact over the whole set, and over all processes."""

from fourierscale.metrics.accuracy import LevelLoss, ResolutionAccuracy
from fourierscale.metrics.calibration import LevelCalibration, fit_temperature
from fourierscale.metrics.consistency import ScaleConsistency, one_pass_levels
from fourierscale.metrics.equivariance import EquivarianceError, shrink_features

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
