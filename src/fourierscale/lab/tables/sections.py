"""Below each table of the report: curves over resolution, level and epoch, and how each number was made."""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Mapping, Sequence
from html import escape

from fourierscale.data.protocols import find_protocol
from fourierscale.functional import band
from fourierscale.lab.tables.results import Result, Results
from fourierscale.lab.tables.rows import COLOUR, DIGITS, TITLES, Column, Table, TableRow
from fourierscale.lab.tables.runs import cell_key, run_columns, train_command
from fourierscale.pages.charts import Scale, Series, line_chart
from fourierscale.pages.elements import card, legend, two

__all__ = ["charts", "errors", "how", "row_class"]

COLOURS = 10  # of baselines in the page's style; further ones begin again
Found = tuple[TableRow, list[Result]]


def row_class(row: TableRow) -> str:
    """Class of a row's colour, by the model's place among all; its augmented twin has the same colour, dashed.

    >>> row_class(TableRow("sesn-augmented", "SESN + augmentation", "mnist-baseline"))
    'row-2 dashed'
    """
    key = row.key.removesuffix("-augmented")
    if row.ours:
        paper = "row-paper dashed" if key.endswith("-level") else "row-paper"
        return "row-best" if key.startswith("ours-best") else paper
    known = [*dict.fromkeys(model.key for model in (*DIGITS, *COLOUR))]
    if key not in known:  # a table that the paper has not
        return "row-best" if key.endswith("exact") else f"row-{zlib.crc32(key.encode()) % COLOURS}"
    place = known.index(key) % COLOURS
    return f"row-{place} dashed" if key != row.key else f"row-{place}"


def charts(table: Table, results: Results) -> str:
    """Accuracy over resolution, loss over levels and training curves of the rows that were run.

    Where a table has several runs in a row, the curves are those of its first column.
    """
    column = table.columns[0]
    found = [(row, results.of(cell_key(row, column))) for row in table.rows]
    found = [(row, runs) for row, runs in found if runs]
    if not found or "accuracy" not in found[0][1][0].metrics:
        return ""
    of = f" ({column.title})" if column.settings else ""
    levelled = [(row, runs) for row, runs in found if runs[0].metrics.get("levels_from_one_pass")]
    over = [(row, [_over_resolution(run) for run in runs]) for row, runs in found]
    cards = [card(f"accuracy over resolution{of}", _mean_chart(over, "accuracy", "resolution in pixels", "nines"))]
    if levelled:  # a model without levels has one answer, at the image's own resolution
        over = [(row, [_over_levels(run, table) for run in runs]) for row, runs in levelled]
        cards.append(card(f"cross entropy over levels{of}", _mean_chart(over, "loss", "band", "log")))
    logged = [(row, [run for run in runs if run.history.get("epoch")]) for row, runs in found]
    logged = [(row, runs) for row, runs in logged if runs]
    if logged:
        cards += [
            card(f"training loss{of}, first seed", _history(logged, "loss", "log")),
            card(f"accuracy on validation images{of}, first seed", _history(logged, "val_acc", "nines")),
        ]
    names = legend((row_class(row), row.label) for row, _ in found)
    note = "" if logged else "<p><small>No history was kept of these runs.</small></p>"
    return names + two(*cards) + note


def errors(table: Table, results: Results) -> str:
    """How far figures may be off because test images are finitely many; seeds aside, which the spread tells."""
    runs = [run for row in table.rows for column in table.columns for run in results.of(cell_key(row, column))]
    largest = []
    for metric in dict.fromkeys(column.metric for column in table.columns):
        found = [run.metrics.get(f"{metric}_standard_error") for run in runs]
        known = [error for error in found if error is not None]
        if known:
            largest.append(f"{max(known):.4f} in {TITLES[metric]}")
    if not largest:
        return ""
    return f"<p><small>Standard error from the number of images: up to {', '.join(largest)}.</small></p>"


def how(table: Table, results: Results) -> str:
    """For each figure: what differs from the paper, the command, the files, the machine and the time."""
    entries = []
    for row in table.rows:
        found = [(column, results.of(cell_key(row, column))) for column in run_columns(table, row)]
        facts = [_facts(row, column, runs) for column, runs in found if runs]
        if facts:
            changes = "; ".join(row.changes)
            told = f"<p>Differs from the paper: {escape(changes)}.</p>" if changes else ""
            entries.append(f"<h4>{escape(row.label)}</h4>{told}{''.join(facts)}")
    if not entries:
        return ""
    return f'<details class="how"><summary>How each number was made</summary>{"".join(entries)}</details>'


def _facts(row: TableRow, column: Column, runs: Sequence[Result]) -> str:
    seeds = ", ".join(str(run.seed) for run in runs)
    seconds = ", ".join(f"{run.metrics.get('train_seconds') or 0:.0f}" for run in runs)
    first = runs[0]
    images = f"{first.metrics.get('images', 0):,} test images"
    halved = " in bfloat16" if first.metrics.get("precision") == "bf16" else ""
    pairs = ", ".join(f"{run.metrics.get('equi_err_pairs', 0):,}" for run in runs)
    machine = sorted({f"{run.metrics.get('device', 'device')}, torch {run.versions.get('torch')}" for run in runs})
    command = train_command(row, column, first.seed)
    files = ", ".join(f"{run.name}.json" for run in runs)
    facts = [
        f"seeds {seeds}",
        f"{first.metrics.get('epochs')} epochs, trained in {seconds} s",
        f"{images}{halved}, Equi-Err over {pairs} pairs of image and resolution",
        *machine,
        files,
    ]
    return f"<pre><code>{escape(command)}</code></pre><p><small>{escape('; '.join(facts))}</small></p>"


def _over_resolution(run: Result) -> dict[float, float]:
    return {float(place): value for place, value in run.metrics.get("accuracy_over_resolution", {}).items()}


def _over_levels(run: Result, table: Table) -> dict[float, float]:
    """Loss over the levels that all images of a resolution or more have; others are those of few images."""
    protocol = find_protocol(table.protocol)
    shared = {str(band(resolution, protocol.boundary)) for resolution in protocol.equivariance}
    losses = run.metrics["loss_per_level"]
    return {float(level): loss for level, loss in losses.items() if level in shared and loss is not None}


def _mean_chart(
    found: Sequence[tuple[TableRow, Sequence[Mapping[float, float]]]], name: str, x_label: str, scale: Scale
) -> str:
    """Means over seeds, one line for each row."""
    series = []
    for row, runs in found:
        places = [place for place in runs[0] if all(place in run for run in runs)]
        points = {place: statistics.fmean(run[place] for run in runs) for place in places}
        series.append(Series(row_class(row), points, row.label))
    return line_chart(series, x_label, name, scale, named=False)


def _history(found: Sequence[Found], name: str, scale: Scale) -> str:
    series = []
    for row, runs in found:
        history = runs[0].history
        values = history.get(name) or [None] * len(history["epoch"])
        points = {float(epoch or 0) + 1: value for epoch, value in zip(history["epoch"], values, strict=True)}
        series.append(Series(row_class(row), points, row.label))
    return line_chart(series, "epoch", name.replace("_", " "), scale, named=False)
