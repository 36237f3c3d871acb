"""Below each table of the report: curves over resolution, level and epoch, and how each number was made."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape

from fourierscale.demo.charts import Series, line_chart
from fourierscale.experiments.results import Result, Results
from fourierscale.experiments.runs import cell_key, train_command
from fourierscale.experiments.tables import Column, Row, Table

__all__ = ["charts", "how", "row_class"]

Found = tuple[Row, list[Result]]


def row_class(row: Row) -> str:
    """Class of a row's colour; the augmented twin of a model has the same colour, dashed.

    >>> row_class(Row("sesn-augmented", "SESN + augmentation", "mnist-baseline"))
    'row-sesn dashed'
    """
    key = row.key.removesuffix("-augmented")
    return f"row-{key} dashed" if key != row.key else f"row-{key}"


def charts(table: Table, results: Results) -> str:
    """Accuracy over resolution, loss over levels and training curves of the rows that were run.

    Where a table has several runs in a row, the curves are those of its first column.
    """
    column = table.columns[0]
    found = [(row, results.of(cell_key(row, column))) for row in table.rows]
    found = [(row, runs) for row, runs in found if runs]
    if not found:
        return ""
    of = f" ({column.title})" if column.settings else ""
    levelled = [(row, runs) for row, runs in found if runs[0].metrics.get("levels_from_one_pass")]
    over = _mean_chart(found, "accuracy_per_resolution", "resolution in pixels")
    cards = [_card(f"accuracy over resolution{of}", over)]
    if levelled:  # a model without levels has one answer, at the image's own resolution
        cards.append(_card(f"cross entropy over levels{of}", _mean_chart(levelled, "loss_per_level", "band", log=True)))
    logged = [(row, [run for run in runs if run.history.get("epoch")]) for row, runs in found]
    logged = [(row, runs) for row, runs in logged if runs]
    if logged:
        cards += [
            _card(f"training loss{of}, first seed", _history(logged, "loss", log=True)),
            _card(f"accuracy on validation images{of}, first seed", _history(logged, "val_acc")),
        ]
    legend = "".join(f'<span><i class="swatch {row_class(row)}"></i>{escape(row.label)}</span>' for row, _ in found)
    note = "" if logged else '<p class="quiet"><small>No history was kept of these runs.</small></p>'
    return f'<div class="legend">{legend}</div><div class="two">{"".join(cards)}</div>{note}'


def how(table: Table, results: Results) -> str:
    """For each figure: what differs from the paper, the command, the files, the machine and the time."""
    entries = []
    for row in table.rows:
        facts, seen = [], set()
        for column in table.columns:
            runs = results.of(cell_key(row, column))
            if not runs or column.settings in seen:
                continue
            seen.add(column.settings)
            facts.append(_facts(row, column, runs))
        if facts:
            changes = "; ".join(row.changes)
            told = f"<p>Differs from the paper: {escape(changes)}.</p>" if changes else ""
            entries.append(f"<h4>{escape(row.label)}</h4>{told}{''.join(facts)}")
    if not entries:
        return ""
    return f'<details class="how"><summary>How each number was made</summary>{"".join(entries)}</details>'


def _facts(row: Row, column: Column, runs: Sequence[Result]) -> str:
    seeds = ", ".join(str(run.seed) for run in runs)
    seconds = ", ".join(f"{run.metrics.get('train_seconds') or 0:.0f}" for run in runs)
    first = runs[0]
    images = f"{first.metrics.get('images', 0):,} test images"
    pairs = ", ".join(f"{run.metrics.get('equi_err_pairs', 0):,}" for run in runs)
    machine = sorted({f"{run.metrics.get('device', 'device')}, torch {run.versions.get('torch')}" for run in runs})
    command = train_command(row, column, first.seed)
    files = ", ".join(f"{run.name}.json" for run in runs)
    facts = [
        f"seeds {seeds}",
        f"{first.metrics.get('epochs')} epochs, trained in {seconds} s",
        f"{images}, Equi-Err over {pairs} pairs of image and resolution",
        *machine,
        files,
    ]
    return f"<pre><code>{escape(command)}</code></pre><p><small>{escape('; '.join(facts))}</small></p>"


def _card(title: str, chart: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3>{chart}</div>'


def _mean_chart(found: Sequence[Found], metric: str, x_label: str, log: bool = False) -> str:
    """Means over seeds, one line for each row."""
    series = []
    for row, runs in found:
        tables = [run.metrics.get(metric) or {} for run in runs]
        points: dict[float, float | None] = {}
        for place in tables[0]:
            values = [float(table[place]) for table in tables if table.get(place) is not None]
            points[float(place)] = statistics.fmean(values) if values else None
        series.append(Series(row_class(row), points))
    return line_chart(series, x_label, metric.replace("_", " "), log=log)


def _history(found: Sequence[Found], name: str, log: bool = False) -> str:
    series = []
    for row, runs in found:
        history = runs[0].history
        values = history.get(name) or [None] * len(history["epoch"])
        points = {float(epoch or 0) + 1: value for epoch, value in zip(history["epoch"], values, strict=True)}
        series.append(Series(row_class(row), points))
    return line_chart(series, "epoch", name.replace("_", " "), log=log)
