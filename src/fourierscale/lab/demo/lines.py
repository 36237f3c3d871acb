"""The lines of the demo's table: what was measured, and the paper's figures beside it."""

from __future__ import annotations

from dataclasses import dataclass

from fourierscale.lab.demo.stages import Demo
from fourierscale.lab.tables.paper import OURS, paper_rows

__all__ = ["ResultLine", "result_lines"]

PAPER = (OURS, "CNN")


@dataclass(frozen=True)
class ResultLine:
    """One line of the table, as text.

    Attributes:
        name: The model.
        origin: Where its weights, or its figures, come from.
        key: One short word for each kind: ``"ours"``, ``"tiny"``, ``"cnn"``, ``"paper"``.
        accuracy: With its standard error.
        scale_con: With its standard error.
        equi_err: Mean over pairs of image and resolution.
    """

    name: str
    origin: str
    key: str
    accuracy: str
    scale_con: str
    equi_err: str


def result_lines(demo: Demo) -> list[ResultLine]:
    """Measured lines, best known first, then the paper's own model and its CNN."""
    lines = []
    for entry in demo.entries:
        m = entry.metrics
        accuracy, scale_con = (
            f"{m[name]:.4f} ± {m[f'{name}_standard_error']:.4f}" for name in ("accuracy", "scale_con")
        )
        lines.append(ResultLine(entry.name, entry.origin, entry.key, accuracy, scale_con, f"{m['equi_err']:.1e}"))
    known = {row.model: row for row in paper_rows(demo.splits.protocol.name)}
    for name in PAPER:
        if row := known.get(name):
            figures = (row.accuracy, ".4f"), (row.scale_con, ".4f"), (row.equi_err, ".2f")
            told = ("-" if value is None else format(value, spec) for value, spec in figures)
            lines.append(ResultLine(f"{row.model} (paper)", "printed in the paper", "paper", *told))
    return lines
