"""How fast is it, and how exact? Suites that ``fourierscale bench`` runs; ``docs/speed.md`` says what is compared.

A suite takes names and settings, and yields one line of a table after the other. Its main suite has cases: ours and its
peers in the same run, with a cost model beside the measurement.
"""

from fourierscale.lab.bench.anytime import measure_anytime_answers
from fourierscale.lab.bench.baselines import measure_baselines
from fourierscale.lab.bench.boundary import measure_boundary
from fourierscale.lab.bench.data import measure_data
from fourierscale.lab.bench.limits import measure_limits
from fourierscale.lab.bench.measure import measure_cases
from fourierscale.lab.bench.nested import measure_nested
from fourierscale.lab.bench.photos import measure_photos
from fourierscale.lab.bench.suites import Settings
from fourierscale.lab.bench.transforms import measure_transforms

__all__ = ["SUITES", "Settings"]

SUITES = {
    "cases": measure_cases,
    "anytime": measure_anytime_answers,
    "baselines": measure_baselines,
    "boundary": measure_boundary,
    "data": measure_data,
    "limits": measure_limits,
    "nested": measure_nested,
    "photos": measure_photos,
    "transforms": measure_transforms,
}
