"""The mathematics, stateless: coefficients in, coefficients out, for 1, 2 or 3 axes of any size."""

from fourierscale.functional.areas import area_average
from fourierscale.functional.bands import as_size, axis_bands, band, grid, grids, period, widest
from fourierscale.functional.boundary import extend
from fourierscale.functional.constants import clear_constants
from fourierscale.functional.conv import delta_spectrum, fourier_conv, local_spectrum, local_spectrum_from_dft
from fourierscale.functional.enlarging import enlarge_to
from fourierscale.functional.levels import Levels
from fourierscale.functional.nested import (
    Level,
    Pooling,
    keep_rims,
    level_pool,
    nested_activation,
    nested_map,
    nested_merge,
    nested_pool,
    plan_levels,
    pool_samples,
)
from fourierscale.functional.norms import InstanceNorm, LevelAffine, level_moments
from fourierscale.functional.resample import crop, downscale, upscale
from fourierscale.functional.transform import analyze, synthesize

__all__ = [
    "InstanceNorm",
    "Level",
    "LevelAffine",
    "Levels",
    "Pooling",
    "analyze",
    "area_average",
    "as_size",
    "axis_bands",
    "band",
    "clear_constants",
    "crop",
    "delta_spectrum",
    "downscale",
    "enlarge_to",
    "extend",
    "fourier_conv",
    "grid",
    "grids",
    "keep_rims",
    "level_moments",
    "level_pool",
    "local_spectrum",
    "local_spectrum_from_dft",
    "nested_activation",
    "nested_map",
    "nested_merge",
    "nested_pool",
    "period",
    "plan_levels",
    "pool_samples",
    "synthesize",
    "upscale",
    "widest",
]
