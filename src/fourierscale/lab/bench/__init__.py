"""How fast is it, and how exact? Suites that ``fourierscale bench`` runs; ``docs/speed.md`` says what is compared.

Cases are data: ours and its peers in the same run, with a cost model beside the measurement. The other suites are
functions that yield one line of a table after the other.
"""

from fourierscale.lab.bench.baselines import measure_baselines
from fourierscale.lab.bench.boundary import measure_boundary
from fourierscale.lab.bench.cases import Case, choose_cases, list_cases
from fourierscale.lab.bench.contestants import make_contestants
from fourierscale.lab.bench.cost import StepCost, step_cost
from fourierscale.lab.bench.data import measure_data
from fourierscale.lab.bench.limits import measure_limits
from fourierscale.lab.bench.measure import Ceilings, Timing, measure_case, measure_ceilings
from fourierscale.lab.bench.suites import Settings
from fourierscale.lab.bench.transforms import measure_transforms

__all__ = [
    "SUITES",
    "Case",
    "Ceilings",
    "Settings",
    "StepCost",
    "Timing",
    "choose_cases",
    "list_cases",
    "make_contestants",
    "measure_case",
    "measure_ceilings",
    "step_cost",
]

SUITES = {
    "baselines": measure_baselines,
    "boundary": measure_boundary,
    "data": measure_data,
    "limits": measure_limits,
    "transforms": measure_transforms,
}
"""Each takes names and settings, and yields files' stems and rows."""
