"""The rows of the demo's table: what was measured, and the paper's figures beside it."""

from __future__ import annotations

from dataclasses import dataclass

from fourierscale.lab.demo.stages import Demo, Entry
from fourierscale.lab.tables.paper import OURS, PaperRow, paper_rows

__all__ = ["Row", "result_rows"]

PAPER = (OURS, "CNN")


@dataclass(frozen=True)
class Row:
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


def result_rows(demo: Demo) -> list[Row]:
    """Measured rows, best known first, then the paper's own model and its CNN."""
    known = {row.model: row for row in paper_rows(demo.splits.protocol.name)}
    return [*(_measured(entry) for entry in demo.entries), *(_printed(known[name]) for name in PAPER if name in known)]


def _measured(entry: Entry) -> Row:
    metrics = entry.metrics
    return Row(
        entry.name,
        entry.origin,
        entry.key,
        _with_error(metrics["accuracy"], metrics["accuracy_standard_error"]),
        _with_error(metrics["scale_con"], metrics["scale_con_standard_error"]),
        "-" if metrics["equi_err"] is None else f"{metrics['equi_err']:.1e}",
    )


def _printed(row: PaperRow) -> Row:
    equi_err = "-" if row.equi_err is None else f"{row.equi_err:.2f}"
    accuracy, scale_con = _with_error(row.accuracy, None), _with_error(row.scale_con, None)
    return Row(f"{row.model} (paper)", "printed in the paper", "paper", accuracy, scale_con, equi_err)


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if error is None else f"{value:.4f} ± {error:.4f}"
