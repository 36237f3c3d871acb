"""Figures of a table from results: mean and spread over seeds, beside the paper's."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierscale.lab.tables.results import Results, is_finished
from fourierscale.lab.tables.rows import Column, Table, TableRow
from fourierscale.lab.tables.runs import cell_key, recipe_names, row_runs
from fourierscale.training.callbacks import read_log

__all__ = ["Cell", "RowState", "row_cells", "shown", "table_states"]


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        metric: What it is.
        values: One for each seed that was run; none if there is none.
        paper: The paper's figure; ``None`` where it prints none.
    """

    metric: str
    values: tuple[float, ...] = ()
    paper: float | None = None

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; one seed has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Our figure less the paper's."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper

    def text(self) -> str:
        """Mean and spread.

        >>> Cell("accuracy", (0.99, 0.992)).text(), Cell("equi_err", (4e-13,)).text(), Cell("accuracy").text()
        ('0.9910 ± 0.0014', '4.0e-13', '-')
        """
        if self.mean is None:
            return "-"
        if self.spread is None or self.metric == "equi_err":
            return shown(self.mean, self.metric)
        return f"{shown(self.mean, self.metric)} ± {shown(self.spread, self.metric)}"


def shown(value: float, metric: str) -> str:
    """A figure as the tables print it; an Equi-Err that is rounding alone by its power of ten.

    >>> shown(0.99334, "accuracy"), shown(0.283, "equi_err"), shown(4.4e-13, "equi_err")
    ('0.9933', '0.28', '4.4e-13')
    """
    if metric != "equi_err":
        return f"{value:.4f}"
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.005 else f"{value:.1e}"


def row_cells(table: Table, row: TableRow, results: Results, columns: Sequence[Column] = ()) -> list[Cell]:
    """The figures of a row, column by column; those of the table if none are named."""
    cells = []
    for column in columns or table.columns:
        values = [result.figure(column.metric) for result in results.of(cell_key(row, column))]
        measured = tuple(value for value in values if value is not None)
        cells.append(Cell(column.metric, measured, table.paper.figure(row.paper, column.key)))
    return cells


@dataclass(frozen=True)
class RowState:
    """How far a row is.

    Attributes:
        row: The row.
        cells: What was measured so far.
        finished: Runs that are finished.
        wanted: Runs that the row needs.
        epochs: Epochs done and wanted of each run that was started and is not finished.
    """

    row: TableRow
    cells: tuple[Cell, ...]
    finished: int
    wanted: int
    epochs: tuple[tuple[int, int], ...]


def table_states(
    wanted: Iterable[tuple[Table, Sequence[TableRow]]],
    seeds: Sequence[int],
    out: str | os.PathLike[str],
    known: Results,
) -> list[tuple[Table, list[RowState]]]:
    """How far tables are, from the folders of their runs and the results.

    Args:
        wanted: Tables and the rows of each; rows that this installation cannot train are left out.
        seeds: Those of the tables if none is given.
        out: Folder of the runs' folders.
        known: The results.
    """
    names = recipe_names()

    def state(table: Table, row: TableRow) -> RowState:
        runs = row_runs(table, row, seeds or table.seeds, (), names)
        started, finished = [], 0
        for run in runs:
            folder = Path(out) / run.folder
            if known.has(run) or is_finished(folder, run):
                finished += 1
            elif (folder / "config.toml").is_file():
                log = read_log(folder / "log.csv")
                started.append((int(log[-1]["epoch"]) + 1 if log else 0, run.config.train.epochs))
        return RowState(row, tuple(row_cells(table, row, known)), finished, len(runs), tuple(started))

    return [
        (table, [state(table, row) for row in rows if cell_key(row, table.columns[0]) is not None])
        for table, rows in wanted
    ]
