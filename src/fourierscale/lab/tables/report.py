"""The page ``docs/report.html``: every table, ours beside the paper's, in one file that needs nothing from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from fourierscale.data.errors import DataError
from fourierscale.lab.tables.figures import Figures, shipped_figures
from fourierscale.lab.tables.maps import layer_section, map_section, structure_section
from fourierscale.lab.tables.results import Result, Results, read_results
from fourierscale.lab.tables.rows import Table, TableRow
from fourierscale.lab.tables.runs import cell_key, identity
from fourierscale.lab.tables.sections import charts, errors, how, row_class
from fourierscale.lab.tables.structure import Structure, structures
from fourierscale.lab.tables.summary import Cell, row_cells, shown
from fourierscale.lab.tables.tables import TABLES
from fourierscale.models.files import write_whole
from fourierscale.pages.elements import row, section, skeleton, spread
from fourierscale.pages.elements import table as grid

__all__ = ["build_page", "write_report"]

LEAD = """<p class="lead"><i>Truly Scale-Equivariant Deep Nets with Fourier Layers</i> (Rahman and Yeh, NeurIPS 2023),
table by table: what this library measures, what the paper prints, and the difference.</p>"""
FIGURES = """Figures are means over seeds, ± their standard deviation. Acc counts every test image. Scale-Con: how often
an image's loss is no larger than that of its downscaled versions, over all of them. Equi-Err: relative squared
difference between features of the downscaled image and downscaled features of the image; in single precision, anything
near <span class="number">1e-13</span> is rounding."""
COMMANDS = "<pre><code>fourierscale reproduce run TABLE\nfourierscale reproduce report</code></pre>"
ALONE = "From the files in results/ alone, feature maps from the weights that ship with the package, on"


def write_report(
    path: str | os.PathLike[str],
    results: str | os.PathLike[str],
    figures: bool = True,
    tell: Callable[[str], None] = lambda what: None,
) -> list[str]:
    """Write the page from the results alone.

    Args:
        path: The file.
        results: Folder of the small JSON files.
        figures: Whether to compute feature maps from the shipped weights; needs digits.
        tell: Told what is being computed.

    Returns:
        What could not be shown, one sentence each.
    """
    found = read_results(results)
    problems = list(found.problems)
    maps: list[Figures] = []
    measured: list[Structure] = []
    if figures:
        try:
            maps = shipped_figures(tell)
            tell("which frequencies depend on which")
            measured = structures(maps[0].ours.model, maps[0].cnn.model, maps[0].original)
        except (DataError, ImportError, OSError, ValueError) as error:  # no digits, or no weights in this installation
            problems.append(f"no feature maps: {error}")
    write_whole(Path(path), build_page(found, maps, measured))
    return problems


def build_page(results: Results, figures: Sequence[Figures] = (), measured: Sequence[Structure] = ()) -> str:
    """The text of the page.

    Args:
        results: What fills the tables.
        figures: Feature maps and errors of layers, for each kind of downscaling.
        measured: Which frequencies depend on which, for layers and nets.
    """
    cells = {table.name: [row_cells(table, row, results) for row in table.rows] for table in TABLES.values()}
    begun = {name for name, rows in cells.items() if any(cell.values for row in rows for cell in row)}
    tables = [table for table in TABLES.values() if table.name in begun]
    others = [table for table in TABLES.values() if table.name not in begun]
    rows = sum(len(table.rows) for table in TABLES.values())
    filled = sum(any(cell.values for cell in line) for lines in cells.values() for line in lines)
    links = [(table.name, table.title) for table in tables]
    links += [("maps", "Feature maps"), ("layers", "Equivariance error, layer by layer")] if figures else []
    links += [("structure", "Which frequencies depend on which")] if measured else []
    links += [("not-run", "Tables not run")] if others else []
    contents = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in links)
    summary = f"{len(results.all)} runs fill {filled} of {rows} rows; the others are marked as not run."
    script = (resources.files("fourierscale.lab.tables") / "page.js").read_text(encoding="utf-8")
    return skeleton(
        "the paper's tables, trained again",
        LEAD,
        f"<p>{summary} {FIGURES}</p><nav><ul>{contents}</ul></nav>",
        *(_section(table, cells[table.name], results) for table in tables),
        "" if tables else '<p class="card">No row has been run yet.</p>',
        map_section(figures) + layer_section(figures) if figures else "",
        structure_section(measured) if measured else "",
        _not_run([(table, cells[table.name]) for table in others]),
        _other_runs(results),
        section("How this page was made", COMMANDS, f"<p><small>{ALONE} {time.strftime('%Y-%m-%d')}.</small></p>"),
        heading="The paper's tables, trained again",
        script=f"<script>\n{script}</script>",
    )


def _section(table: Table, cells: Sequence[Sequence[Cell]], results: Results) -> str:
    below = errors(table, results), charts(table, results), how(table, results)
    return section(table.title, _about(table), _grid(table, cells), *below, key=table.name)


def _not_run(tables: Sequence[tuple[Table, Sequence[Sequence[Cell]]]]) -> str:
    """Tables without a result, closed."""
    if not tables:
        return ""
    parts = []
    for table, cells in tables:
        summary = f"<summary>{escape(table.title)}<small>{table.name}</small></summary>"
        parts.append(f'<details class="card" id="{table.name}">{summary}{_about(table)}{_grid(table, cells)}</details>')
    intro = "<p>No row of these has a result yet; they open to the paper's figures.</p>"
    return section("Tables not run", intro, *parts, key="not-run")


def _about(table: Table) -> str:
    number = f"Table {table.paper.number} of the paper" if table.paper.number else "Not in the paper"
    if table.other_protocol:
        number = f"As table {table.paper.number} of the paper, on other images: its STL-10 figures are no target here"
    return f"<p>{number}. Protocol <code>{table.protocol}</code>. {escape(table.note)}</p>"


def _grid(table: Table, cells: Sequence[Sequence[Cell]]) -> str:
    lines = (_line(table, line, figures) for line, figures in zip(table.rows, cells, strict=True))
    return grid(("model", *(column.title for column in table.columns), "seeds"), lines)


def _line(table: Table, line: TableRow, cells: Sequence[Cell]) -> str:
    seeds = sorted({len(cell.values) for cell in cells if cell.values})
    if not seeds:  # one short line: the paper's figures, and that nothing stands beside them
        return row(line.label, *(_paper(table, cell) for cell in cells), "not run", kind="faint")
    count = " to ".join(map(str, seeds[:1] if len(seeds) == 1 else (seeds[0], seeds[-1])))
    kind = "strong" if line.key.startswith("ours-best") else ""
    return row(line.label, *(_cell(table, cell) for cell in cells), count, kind=kind, colour=row_class(line))


def _cell(table: Table, cell: Cell) -> str:
    """Ours, and below it the paper's and the difference; nothing is invented where nothing was run."""
    ours = spread(cell.text()) if cell.values else '<span class="none">not run</span>'
    difference = None if table.other_protocol else cell.difference
    # the paper prints two digits of Equi-Err: a smaller difference says nothing
    if difference is None or (cell.metric == "equi_err" and abs(difference) < 0.005):
        return ours + _paper(table, cell)
    better = difference < 0 if cell.metric == "equi_err" else difference > 0
    told = f"{difference:+.2f}" if cell.metric == "equi_err" else f"{difference:+.4f}"
    return ours + _paper(table, cell, f' <b class="{"good" if better else "bad"}">{told}</b>')


def _paper(table: Table, cell: Cell, difference: str = "") -> str:
    if cell.paper is None:
        return ""
    whose = "STL-10" if table.other_protocol else "paper"
    return f"<small>{whose} {shown(cell.paper, cell.metric)}{difference}</small>"


def _other_runs(results: Results) -> str:
    """Runs that are no row of a table, with the fields that make them what they are."""
    keys = {cell_key(row, column) for table in TABLES.values() for row in table.rows for column in table.columns}
    lines = [_other_run(result) for result in results.all if result.key not in keys]
    if not lines:
        return ""
    about = "<p>Results that belong to no row, because something in their recipe differs.</p>"
    return section("Other runs", about, grid(("result", "Acc", "Scale-Con", "Equi-Err"), lines))


def _other_run(result: Result) -> str:
    fields = ", ".join(f"{name}={value}" for name, value in identity(result.config).items())
    metrics = [
        "-" if result.metrics.get(name) is None else shown(float(result.metrics[name]), name)
        for name in ("accuracy", "scale_con", "equi_err")
    ]
    return row(result.name, *metrics, note=fields)
