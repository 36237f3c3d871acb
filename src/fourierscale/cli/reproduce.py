"""``fourierscale reproduce list | run | status | report | tables``: the paper's tables, trained again."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from fourierscale.cli.folders import check_folder

if TYPE_CHECKING:
    from fourierscale.lab.tables.engine import Job, Watch
    from fourierscale.lab.tables.results import Results
    from fourierscale.lab.tables.rows import Table, TableRow

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Train the paper's tables again and show them beside the paper's figures.")

OUT, RESULTS = Path("runs/reproduce"), Path("results")
Out = Annotated[Path, typer.Option(help="Folder of the runs' folders.")]
ResultsFolder = Annotated[Path, typer.Option(help="Folder of the small JSON files, one per finished run.")]
Seeds = Annotated[str | None, typer.Option(help="Seeds such as 0,1,2; those of the table if not given.")]
Rows = Annotated[str | None, typer.Option(help="Rows such as cnn,ours-best; all if not given.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="Any field of every config, for example train.epochs=2.")
]


@app.command("list")
def list_tables(
    table: Annotated[str | None, typer.Argument(help="A table, to list its rows; all tables if not given.")] = None,
) -> None:
    """List the tables, or the rows of one: what is trained, and the paper's figures."""
    from fourierscale.lab.tables.runs import plan, run_columns
    from fourierscale.lab.tables.tables import TABLES, find_table

    console = Console(highlight=False)
    if table is None:
        grid = _grid("table", "paper", "rows", "runs", "what")
        for found in TABLES.values():
            runs = sum(len(run_columns(found, row)) for row in found.rows) * len(found.seeds)
            number = f"({found.paper.number})" if found.other_protocol else found.paper.number
            grid.add_row(found.name, number, str(len(found.rows)), str(runs), found.title)
        grid.caption = "number in brackets: the paper's table is of other images; runs may be shared between tables"
        console.print(grid)
        return
    found = find_table(table)
    console.print(f"[bold]{found.title}[/bold] ({found.protocol}). {found.note}", soft_wrap=True)
    grid = _grid("row", "what", *(f"{column.title} (paper)" for column in found.columns))
    for row in found.rows:
        figures = (found.paper.figure(row.paper, column.key) for column in found.columns)
        grid.add_row(row.key, row.label, *("-" if value is None else f"{value:.4g}" for value in figures))
    console.print(grid)
    _tell_refused(console, plan([(found, found.rows)]).refused)


@app.command()
def run(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Names of tables, 'mnist' or 'all'.")],
    rows: Rows = None,
    seeds: Seeds = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many trainings at a time.")] = 1,
    limit: Annotated[
        float | None, typer.Option(min=0, help="Minutes after which all is stopped, to be resumed next time.")
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="A queue: rows start in the order given, not the longest first.")
    ] = False,
    nice: Annotated[int, typer.Option(min=0, max=19, help="How far trainings give way to other processes.")] = 0,
    cpu_hours: Annotated[
        float | None, typer.Option(min=0, help="Hours of the processor after which all is stopped, to be resumed.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    settings: Settings = None,
    out: Out = OUT,
    results: ResultsFolder = RESULTS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands and train nothing.")] = False,
) -> None:
    """Train rows of tables, several at a time; what is finished is never trained again, what was stopped resumes."""
    from fourierscale.lab.tables.engine import run_all
    from fourierscale.lab.tables.runs import plan

    console = Console(highlight=False)
    changes = [*(settings or []), *([] if data_dir is None else [f"data.data_dir={data_dir}"])]
    found = plan(_wanted(tables, _names(rows)), _numbers(seeds), changes)
    _tell_refused(console, found.refused)
    if not found.runs:
        raise typer.Exit(1)
    if dry_run:
        for planned in found.runs:
            console.print(planned.command, markup=False, soft_wrap=True)
        return
    check_folder(out)
    check_folder(results, "--results")
    _read(console, results)
    if jobs > 1 and _takes_turns():
        remedy = "with nvidia-cuda-mps-control -d, started before, they run side by side"
        console.print(f"runs that share a GPU take turns on it: {remedy}", soft_wrap=True)
    started = time.monotonic()
    with _screen(console) as watch:
        done = run_all(
            found.runs,
            out,
            results,
            jobs,
            None if limit is None else 60 * limit,
            watch,
            in_order=in_order,
            nice=nice,
            cpu_hours=cpu_hours,
        )
    _summary(console, done, results, round(time.monotonic() - started))
    if found.refused or any(job.state == "failed" for job in done):
        raise typer.Exit(1)


@app.command()
def status(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables or 'mnist'; all if none.")
    ] = None,
    seeds: Seeds = None,
    out: Out = OUT,
    results: ResultsFolder = RESULTS,
) -> None:
    """Say how many seeds of each row are finished, under way or not run, and what was measured so far."""
    from fourierscale.lab.tables.queue_log import QueueLog
    from fourierscale.lab.tables.summary import table_states

    console = Console(highlight=False)
    wanted, known = _wanted(tables or ["all"]), _read(console, results)
    for (table, states), (_, rows) in zip(table_states(wanted, _numbers(seeds), out, known), wanted, strict=True):
        begun = [state for state in states if state.finished or state.epochs]
        if begun:
            grid = _grid("row", "runs", "under way", *(column.title for column in table.columns), title=table.name)
            for state in begun:
                under_way = ", ".join(f"epoch {done} of {of}" for done, of in state.epochs)
                figures = (cell.text() for cell in state.cells)
                grid.add_row(state.row.key, f"{state.finished} of {state.wanted}", under_way, *figures)
            console.print(grid)
        if len(begun) < len(rows):
            what = f"{len(rows) - len(begun)} rows not run" if begun else "not run"
            console.print(f"{table.name}: {what}", style="dim")
    queue = QueueLog.read(out)
    if queue.rows:
        console.print(
            f"{queue.cpu_hours:.1f} hours of the processor used, {queue.idle_hours:.1f} hours idle in between",
            soft_wrap=True,
        )


@app.command()
def report(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    results: ResultsFolder = RESULTS,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Compute feature maps from the weights that ship.")
    ] = True,
) -> None:
    """Write one page with every table, ours beside the paper's, from the results alone."""
    from fourierscale.lab.tables.report import write_report

    console = Console(highlight=False)
    if not out.resolve().parent.is_dir():
        raise FileNotFoundError(f"{out}: there is no such folder to write it in")
    with console.status("reading results") as spinner:
        problems = write_report(out, results, figures, spinner.update)
    for problem in problems:
        console.print(problem, style="yellow", markup=False, soft_wrap=True)
    console.print(f"wrote {out}: open it in a browser", markup=False, soft_wrap=True)


@app.command("tables")
def write_tables(
    root: Annotated[Path, typer.Option(help="Folder of README.md and docs/.")] = Path(),
    results: ResultsFolder = RESULTS,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; status 1 if a page differs.")] = False,
) -> None:
    """Write the tables of README.md and docs/ from the results and from what the bench measured."""
    from fourierscale.lab.tables import markdown

    changed = markdown.write_tables(root, results, check)
    for path in changed:
        typer.echo(f"{path} differs from the results" if check else f"wrote {path}")
    if not changed:
        typer.echo("every table is up to date")
    if check and changed:
        raise typer.Exit(1)


def _grid(first: str, *others: str, title: str | None = None) -> Grid:
    """A table without lines whose first column is never cut."""
    grid = Grid(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(first, no_wrap=True)
    for other in others:
        grid.add_column(other)
    return grid


def _wanted(names: Sequence[str], rows: Sequence[str] = ()) -> list[tuple[Table, tuple[TableRow, ...]]]:
    from fourierscale.lab.tables.tables import find_rows, find_tables
    from fourierscale.nn.checks import nearest
    from fourierscale.training.errors import ConfigError

    tables = find_tables(names)
    if len(tables) == 1:
        return [(tables[0], find_rows(tables[0], rows))]
    # of several tables each has its own rows: a key must belong to one of them at least
    anywhere = {row.key for table in tables for row in table.rows}
    for key in rows:
        if key not in anywhere:
            raise ConfigError(f"none of the tables has a row {key!r}: {nearest(key, sorted(anywhere))}")
    return [(table, tuple(row for row in table.rows if not rows or row.key in rows)) for table in tables]


def _read(console: Console, folder: Path) -> Results:
    """The results of a folder; of files that are none, the user is told."""
    from fourierscale.lab.tables.results import read_results

    found = read_results(folder)
    for problem in found.problems:
        console.print(problem, style="yellow", markup=False, soft_wrap=True)
    return found


def _tell_refused(console: Console, refused: Mapping[str, str]) -> None:
    """Why rows cannot be run; a reason that many have is told once."""
    for reason in dict.fromkeys(refused.values()):
        first, *others = (name for name, why in refused.items() if why == reason)
        more = f" and {len(others)} more" if others else ""
        console.print(f"cannot be run: {first}{more}: {reason}", style="red", markup=False, soft_wrap=True)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(name) for name in _names(text)]
    except ValueError:
        raise typer.BadParameter(f"expected seeds such as 0,1,2, got {text!r}") from None


def _takes_turns() -> bool:
    """Whether NVIDIA's multi-process service is installed but not running."""
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    return shutil.which("nvidia-cuda-mps-control") is not None and not (pipes / "control").exists()


def _summary(console: Console, jobs: Sequence[Job], results: Path, seconds: int) -> None:
    counts = {state: sum(job.state == state for job in jobs) for state in ("done", "failed", "stopped")}
    before = sum(job.known for job in jobs)
    console.print(
        f"{counts['done']} of {len(jobs)} runs finished ({before} of them before), {counts['failed']} failed, "
        f"{counts['stopped']} to be resumed; {seconds // 60} min {seconds % 60} s; results are in {results}",
        markup=False,
        soft_wrap=True,
    )
    for job in jobs:
        if job.state == "failed":
            console.print(
                f"failed: {job.run.name}: {job.reason} ({job.log})", style="red", markup=False, soft_wrap=True
            )


@contextmanager
def _screen(console: Console) -> Iterator[Watch]:
    """A picture that is drawn again and again in a terminal; elsewhere a line whenever a run ends."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda jobs: live.update(_picture(jobs))
        return
    told: set[str] = set()

    def tell(jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.state in ("done", "failed") and not job.known and job.run.name not in told:
                told.add(job.run.name)
                console.print(f"{job.state}: {job.run.name}", markup=False, soft_wrap=True)

    yield tell


def _picture(jobs: Sequence[Job]) -> Group:
    """How many runs are where, a bar for each that is running, and how long it will still take."""
    from fourierscale.lab.tables.queue_log import seconds_left, shown_hours

    states = ("done", "running", "waiting", "failed")
    counts = {state: sum(job.state == state for job in jobs) for state in states}
    line = Text("  ").join(
        Text(f"{count} {state}", "bold red" if state == "failed" and count else "bold")
        for state, count in counts.items()
    )
    bars = Grid.grid(padding=(0, 2))
    estimates = seconds_left([(job.run, job.folder, job.state == "done") for job in jobs])
    left = {id(job): seconds for job, seconds in zip(jobs, estimates, strict=True) if job.state != "done"}
    for job in jobs:
        if job.state == "running":
            epochs = job.run.config.train.epochs
            told = f"epoch {job.epoch} of {epochs}, {shown_hours(left[id(job)])} left"
            bars.add_row(job.run.name, ProgressBar(epochs, job.epoch, width=30), told)
    known = [seconds for seconds in left.values() if seconds is not None]
    unknown = len(left) - len(known)
    told = f"{shown_hours(sum(known))} of work left" + (f" and {unknown} runs nobody can tell" if unknown else "")
    return Group(line, bars, Text(told, "dim"))
