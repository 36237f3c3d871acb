"""The tables of README.md and docs/, written from the files in ``results/``.

A page says which table it wants between two comments; what stands there is replaced::

    <!-- table: results mnist-all -->
    <!-- end -->
"""

from __future__ import annotations

import csv
import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierscale.lab.tables.paper import OURS
from fourierscale.lab.tables.results import Result, Results, read_results
from fourierscale.lab.tables.rows import TITLES, Column
from fourierscale.lab.tables.runs import identity, setting
from fourierscale.lab.tables.summary import Cell, row_cells, shown
from fourierscale.lab.tables.tables import TABLES, find_rows, find_table
from fourierscale.models.cost import model_cost, short
from fourierscale.models.files import write_whole
from fourierscale.models.registry import list_models, model_info, pretrained_info
from fourierscale.nn.checks import nearest
from fourierscale.training.errors import ConfigError

__all__ = ["fill_page", "write_tables"]

MARKED = re.compile(r"<!-- table: (?P<what>[^>]+?) -->\n.*?(?P<end><!-- end|(?=<!-- table:)|\Z)", re.DOTALL)
BENCH = "bench"
METRICS = ("accuracy", "scale_con", "equi_err", "ece")
LOWER, ROUNDING = ("equi_err", "ece", "error_per_resolution", "strided_error_per_resolution"), 1e-9
PRECISION = {"highest": "float32", "high": "TF32", "bfloat16": "bfloat16"}
MODES = {"train": "training step", "inference": "inference"}
WHERE = ("device", "torch", "triton", "python", "commit")
Grid = list[list[str]]


@dataclass(frozen=True)
class Measured:
    """What tables are written from: results of trainings, and a folder of CSV files of the bench."""

    results: Results
    bench: Path

    def lines(self, name: str) -> list[dict[str, str]]:
        """The lines of a file of the bench."""
        path = self.bench / f"{name}.csv"
        if not path.is_file():
            raise ConfigError(f"no {path}: {nearest(name, [other.stem for other in self.bench.glob('*.csv')])}")
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def write_tables(root: Path, results: str | os.PathLike[str], check: bool = False) -> list[Path]:
    """Write the tables of ``README.md`` and ``docs/``; returns the pages that differed.

    Args:
        root: The folder of README.md and docs/.
        results: The folder of results, with those of the bench in it.
        check: Whether to leave the pages as they are.

    Raises:
        ConfigError: A table that no file can fill, with its page.
    """
    measured = Measured(read_results(results), Path(results) / BENCH)
    changed = []
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        before = path.read_text(encoding="utf-8")
        try:
            after = fill_page(before, measured)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        if after != before:
            changed.append(path)
            if not check:
                write_whole(path, after)
    return changed


def fill_page(text: str, measured: Measured) -> str:
    """A page with what stands between its markers written anew."""

    def fill(found: re.Match[str]) -> str:
        name, *words = found["what"].split()
        if not found["end"]:
            raise ConfigError(f"the table {found['what']!r} has no <!-- end -->")
        if name not in KINDS:
            raise ConfigError(f"no kind of table {name!r}: {nearest(name, KINDS)}")
        head, *rows = KINDS[name](measured, words)
        if not rows:
            raise ConfigError(f"the table {found['what']!r} has no rows")
        lines = [head, ["---"] * len(head), *rows]
        body = "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in lines)
        return f"<!-- table: {found['what']} -->\n\n{body}\n\n<!-- end"

    return MARKED.sub(fill, text)


def _results(measured: Measured, words: Sequence[str]) -> Grid:
    """``results TABLE``: every row beside the paper's; with ``ROW...`` behind it these rows alone, means only."""
    table = find_table(words[0])
    rows, whole = find_rows(table, words[1:]), len(words) == 1
    rows = tuple(sorted(rows, key=lambda row: words.index(row.key) if row.key in words else 0))
    columns = list(table.columns)
    if whole and {column.key for column in columns} == set(METRICS[:3]):
        columns.append(Column("ece", TITLES["ece"]))
    cells = [row_cells(table, row, measured.results, columns) for row in rows]
    best = [cell for place in range(len(columns)) for cell in _best([line[place] for line in cells])]
    lines = [
        [row.label, *(_text(cell, whole, any(cell is other for other in best)) for cell in line)]
        for row, line in zip(rows, cells, strict=True)
    ]
    head = ["", *(column.title for column in columns)]
    if not whole:
        ours = [figures for row, figures in zip(rows, cells, strict=True) if row.paper == OURS]
        return [head, *lines, *([f'the paper, "{OURS}"', *map(_printed, figures)] for figures in ours[:1])]
    printed = (
        []
        if table.other_protocol or not table.paper.rows
        else [place for place, column in enumerate(columns) if column.key != "ece"]
    )
    for line, figures in zip(lines, cells, strict=True):
        counts = sorted({len(cell.values) for cell in figures})
        line[1:1] = [f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])]
        line += [_printed(figures[place]) for place in printed]
    return [["", "seeds", *head[1:], *(f"paper: {columns[place].title}" for place in printed)], *lines]


def _best_rows(measured: Measured, words: Sequence[str]) -> Grid:
    """``best TABLE...``: our best recipe beside the best baseline in each figure; names may be patterns."""
    lines = []
    named = [table for word in words for table in fnmatch.filter(TABLES, word) or [word]]
    for table in map(find_table, named):
        for variant in dict.fromkeys(column.variant for column in table.columns):
            columns = [column for column in table.columns if column.variant == variant]
            rows = [*find_rows(table, ["ours-best"]), *(row for row in table.rows if not row.ours)]
            cells = [row_cells(table, row, measured.results, columns) for row in rows]
            figures = [_text(cell, spread=False) for cell in cells[0]]
            for place in range(len(columns)):
                found = _best([line[place] for line in cells[1:]])
                figures.append(_text(found[0], spread=False) if found else "")
            split = len(columns)
            padded = (part + [""] * (3 - split) for part in (figures[:split], figures[split:]))
            lines.append(
                [f"`{table.name}`{f', {variant}' if variant else ''}", *(cell for part in padded for cell in part)]
            )
    titles = [TITLES[metric] for metric in METRICS[:3]]
    return [
        ["table", *(f"ours: {title}" for title in titles), *(f"best baseline: {title}" for title in titles)],
        *lines,
    ]


def _runs(measured: Measured, words: Sequence[str]) -> Grid:
    """``runs PATTERN...``: results by the names of their files, told by the fields in which they differ."""
    found: dict[str, list[Result]] = {}
    for word in words:
        named = [result for result in measured.results.all if fnmatch.fnmatchcase(result.name, word)]
        if not named:
            raise ConfigError(f"no result is named {word!r}")
        for result in named:
            found.setdefault(result.key, []).append(result)
    configs = [runs[0].config for runs in found.values()]
    fields = sorted({field for config in configs for field in identity(config)})
    values = {field: [setting(config, field) for config in configs] for field in fields}
    varied = [field for field in fields if any(value != values[field][0] for value in values[field])]
    lines = []
    for number, runs in enumerate(found.values()):
        cells = [Cell(metric, tuple(float(run.metrics[metric]) for run in runs)) for metric in METRICS]
        lines.append([*(str(values[field][number]) for field in varied), *(_text(cell, spread=True) for cell in cells)])
    names = [f"`{field.removeprefix('model.overrides.')}`" for field in varied]
    return [[*names, *(TITLES[metric] for metric in METRICS)], *sorted(lines)]


def _weights(measured: Measured, words: Sequence[str]) -> Grid:
    """``weights NAME...``: what the weights that ship were measured to do."""
    lines = []
    for name in words:
        metrics = pretrained_info(name)["metrics"]
        figures = [shown(float(metrics[metric]), metric) for metric in METRICS]
        lines.append([f"`{name}`", metrics["protocol"], f"{metrics['images']:,}", *figures])
    return [["weights", "protocol", "test images", *(TITLES[metric] for metric in METRICS)], *lines]


def _speed(measured: Measured, words: Sequence[str]) -> Grid:
    """``speed CASE FILE...``: ours beside a plain CNN; graphed where it was measured so."""
    pattern, *files = words
    lines: Grid = []
    where: dict[str, None] = {}
    for row in (row for file in files for row in measured.lines(file)):
        if not fnmatch.fnmatchcase(row["case"], pattern) or row["contestant"] != "ours":
            continue
        same = [other for file in files for other in measured.lines(file)]
        same = [other for other in same if (other["case"], other["precision"]) == (row["case"], row["precision"])]
        peers = {other["contestant"]: other for other in same}
        ours, cnn = (peers.get(f"{name} graphed", peers[name]) for name in ("ours", "cnn"))
        label = f"{MODES[row['mode']]}, batch {row['batch']}, {PRECISION[row['precision']]}"
        memory = (_three(peers[name]["peak_mib"]) for name in ("ours", "cnn"))
        times = (_three(ours["median_ms"]), _three(cnn["median_ms"]), f"{float(cnn['ours_ratio']):.2f}")
        lines.append([label, *times, *memory])
        where[f"`{row['model']}`, {row['size']} pixels, {row['device']}, torch {row['torch'].partition('+')[0]}"] = None
    if len(where) > 1:
        raise ConfigError(f"one table would mix {' and '.join(where)}")
    head = [*where, "ours, ms", "CNN, ms", "ours / CNN", "ours, MiB", "CNN, MiB"]
    return [head, *sorted(lines, key=lambda line: line[0].split(", ")[0] != MODES["train"])]


def _sweep(measured: Measured, words: Sequence[str]) -> Grid:
    """``sweep FILE CONTESTANT...``: milliseconds of one Fourier layer and one activation, ours and its peers."""
    name, *peers = words
    cases: dict[str, dict[str, dict[str, str]]] = {}
    for row in measured.lines(name):
        cases.setdefault(row["case"], {})[row["contestant"]] = row
    lines = []
    for case, rows in cases.items():
        ratios = [f"{float(rows[peer]['ours_ratio']):.2f}" for peer in peers]
        lines.append([f"`{case}`", *(_three(rows[peer]["median_ms"]) for peer in ("ours", *peers)), *ratios])
    first = measured.lines(name)[0]
    where = f"{first['device']}, torch {first['torch'].partition('+')[0]}"
    return [[where, "ours, ms", *(f"{peer}, ms" for peer in peers), *(f"ours / {peer}" for peer in peers)], *lines]


def _models(measured: Measured, words: Sequence[str]) -> Grid:
    """``models``: parameters and work of every net of the tables, and a training step on a GPU."""
    steps = {row["model"]: row for row in measured.lines("baselines-cuda")}
    device = next(iter(steps.values()))["device"]
    lines = []
    for name in (name for name in list_models() if name.endswith(("-mnist", "-stl10"))):
        cost, info = model_cost(name), model_info(name)
        taken = "any size" if info.enlarge is None else f"{info.enlarge} to {info.enlarge_size}"
        fixed = short(cost.fixed_flops) if cost.fixed_flops else ""
        step = [_three(steps[name]["step_ms"]), _three(steps[name]["graphed_ms"])] if name in steps else ["", ""]
        lines.append([f"`{name}`", f"{cost.parameters:,}", short(cost.flops), fixed, taken, *step])
    head = [
        "model",
        "parameters",
        "FLOPs per image",
        "FLOPs per batch",
        "input",
        f"step on {device}, ms",
        "graphed, ms",
    ]
    return [head, *lines]


def _list(measured: Measured, words: Sequence[str]) -> Grid:
    """``list FILE COLUMN... COLUMN=VALUE...``: the lines of a file of the bench; all columns if none is named."""
    rows, names = _chosen(measured, words)
    names = names or [name for name in measured.lines(words[0])[0] if name not in WHERE]
    return [
        [TITLES.get(name, name.replace("_", " ")) for name in names],
        *([_number(row[name]) for name in names] for row in rows),
    ]


def _pivot(measured: Measured, words: Sequence[str]) -> Grid:
    """``pivot FILE ROW COLUMN VALUE COLUMN=VALUE...``: one figure by two names."""
    rows, (side, top, value) = _chosen(measured, words)
    found = {(row[side], row[top]): row[value] for row in rows}
    names = [list(dict.fromkeys(row[name] for row in rows)) for name in (side, top)]
    lines = [[f"`{one}`", *(_number(found.get((one, other), "")) for other in names[1])] for one in names[0]]
    return [[side, *(f"`{name}`" for name in names[1])], *lines]


def _chosen(measured: Measured, words: Sequence[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Lines of a file that match what is asked for, and the names of columns among the words."""
    rows = measured.lines(words[0])
    wanted = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    names = [word for word in words[1:] if "=" not in word]
    for name in (*names, *wanted):
        if name not in rows[0]:
            raise ConfigError(f"{words[0]} has no column {name!r}: {nearest(name, rows[0])}")
    found = rows
    for name, patterns in wanted.items():
        found = [row for row in found if any(fnmatch.fnmatchcase(row[name], one) for one in patterns.split(","))]
    return found, names


def _number(text: str) -> str:
    """A measured number in two or three digits, and other words as they are.

    >>> _number("0.1293"), _number("1.269e-13"), _number("262.1"), _number("11"), _number("ideal")
    ('0.129', '1.3e-13', '262', '11', 'ideal')
    """
    try:
        value = float(text)
    except ValueError:
        return text
    return text if text.isdigit() else f"{value:.2g}" if value < 0.1 else f"{value:.3g}"


KINDS: dict[str, Callable[[Measured, Sequence[str]], Grid]] = {
    "results": _results,
    "best": _best_rows,
    "runs": _runs,
    "weights": _weights,
    "speed": _speed,
    "sweep": _sweep,
    "models": _models,
    "list": _list,
    "pivot": _pivot,
}


def _best(cells: Iterable[Cell]) -> list[Cell]:
    """Those with the best mean of a column; errors of equivariance that are rounding are all equally good."""
    known = [cell for cell in cells if cell.mean is not None]
    sign = -1 if known and known[0].metric.partition(".")[0] in LOWER else 1
    worth = [sign * max(float(cell.mean or 0), ROUNDING if cell.metric == "equi_err" else 0) for cell in known]
    return [cell for cell, value in zip(known, worth, strict=True) if value == max(worth)]


def _text(cell: Cell, spread: bool, best: bool = False) -> str:
    if cell.mean is None:
        return ""
    text = cell.text().replace("± ", "±\N{NO-BREAK SPACE}") if spread else shown(cell.mean, cell.metric)
    return f"**{text}**" if best else text


def _printed(cell: Cell) -> str:
    return "" if cell.paper is None else shown(cell.paper, cell.metric)


def _three(value: str) -> str:
    """A measured number in three digits.

    >>> _three("4.769"), _three("1495"), _three("55.07")
    ('4.77', '1,495', '55.1')
    """
    number = float(value)
    return f"{number:,.0f}" if number >= 99.95 else f"{number:.3g}"
