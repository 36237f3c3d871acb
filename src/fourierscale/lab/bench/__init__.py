"""How fast is it? Cases as data, peers in the same run, a cost model beside the measurement.

``fourierscale bench`` runs it; ``docs/speed.md`` says what is compared.
"""

from fourierscale.lab.bench.cases import Case, choose_cases, list_cases
from fourierscale.lab.bench.contestants import make_contestants
from fourierscale.lab.bench.cost import Work, cost
from fourierscale.lab.bench.measure import Ceilings, Row, measure_case, measure_ceilings

__all__ = [
    "Case",
    "Ceilings",
    "Row",
    "Work",
    "choose_cases",
    "cost",
    "list_cases",
    "make_contestants",
    "measure_case",
    "measure_ceilings",
]
