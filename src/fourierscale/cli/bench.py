"""``fourierscale bench``."""

from __future__ import annotations

import importlib.util
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from rich.console import Console
from rich.table import Table

from fourierscale.cli.folders import check_folder

if TYPE_CHECKING:
    from fourierscale.lab.bench import Settings, Timing

__all__ = ["bench"]


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Cases or groups; or baselines, boundary, data, limits, transforms, and names in that suite."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None,
    precision: Annotated[
        str, typer.Option(help="Of products: highest, high (TF32 on GPUs), or bfloat16 (mixed).")
    ] = "highest",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and repeats: a minute on two CPU cores.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Times that are taken of everything, at least.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images in a batch of a suite.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of class folders with photographs, for boundary.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the CSV files and the picture.")] = Path("results/bench"),
) -> None:
    """Measure speed, memory and error beside plain CNNs and other peers, against a cost model."""
    import torch

    from fourierscale.lab.bench import SUITES, Settings, choose_cases
    from fourierscale.lab.bench.suites import OtherProcesses, Precision, about

    started = time.perf_counter()
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if place not in ("cpu", "cuda"):
        raise typer.BadParameter(f"{place!r} is neither cpu nor cuda", param_hint="--device")
    if place == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("torch sees no CUDA device: use --device cpu", param_hint="--device")
    if precision not in get_args(Precision):
        raise typer.BadParameter(f"{precision!r} is neither highest, high nor bfloat16", param_hint="--precision")
    check_folder(out)
    settings = Settings(torch.device(place), cast(Precision, precision), quick, repeats, batch, images)
    console, where, others = Console(highlight=False), about(settings.device), OtherProcesses()
    first, *rest = names or [""]
    try:
        cases = [] if first in SUITES else choose_cases(names or [], place, quick)
        told = f"{where['device']}, torch {where['torch']}, commit {where['commit']}, products {precision}"
        console.print(told, soft_wrap=True)
        if first in SUITES:
            run_suite(first, rest, settings, where, out, console)
        else:
            run_cases(cases, settings, where, out / f"bench-{place}.csv", console)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    share = others.share()
    if share is not None and share > 0.03:
        told = f"other processes took {share:.0%} of the CPU: times are not to be trusted, run again when it is quiet"
        console.print(told, style="yellow", soft_wrap=True)
    console.print(f"all of it took {time.perf_counter() - started:.0f} s", style="dim")


def run_suite(
    name: str, names: Sequence[str], settings: Settings, where: dict[str, str], out: Path, console: Console
) -> None:
    """Print and write each line as soon as it is measured."""
    from fourierscale.lab.bench import SUITES
    from fourierscale.lab.bench.suites import write_csv

    files: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    for stem, row in SUITES[name](names, settings):
        path = out / f"{stem}.csv"
        rows = files[path]
        cells = {key: f"{value:.3g}" if isinstance(value, float) else str(value) for key, value in row.items()}
        widths = {key: max(len(key), 20 if isinstance(value, str) else 8) for key, value in row.items()}
        if not rows:
            console.print("\n" + "  ".join(f"{key:>{widths[key]}}" for key in row), style="bold", soft_wrap=True)
        console.print("  ".join(f"{cell:>{widths[key]}}" for key, cell in cells.items()), markup=False, soft_wrap=True)
        rows.append(row)
        write_csv(path, rows, where)
    for path in files:
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def run_cases(cases: Sequence[Any], settings: Settings, where: dict[str, str], path: Path, console: Console) -> None:
    """Ours and its peers, case by case, then a table of all, a file and a picture."""
    import torch

    from fourierscale.lab.bench import measure_case, measure_ceilings
    from fourierscale.lab.bench.suites import write_csv

    ceilings = {}
    timings: list[Timing] = []
    for number, case in enumerate(cases, 1):
        products = case.precision or settings.precision
        if products not in ceilings:
            rates = ceilings[products] = measure_ceilings(settings.device, products)
            console.print(
                f"ceilings ({products}): product {rates.flops_per_second / 1e9:,.0f} GFLOP/s, "
                f"copy {rates.bytes_per_second / 1e9:,.0f} GB/s",
                soft_wrap=True,
            )
        begun = time.perf_counter()
        try:
            measured = measure_case(case, settings, ceilings[products])
        except torch.OutOfMemoryError:
            console.print(f"[{number}/{len(cases)}] {case.name}: out of memory, left out", markup=False)
            continue
        finally:
            if settings.device.type == "cuda":
                torch.cuda.empty_cache()
        timings += measured
        write_csv(path, map(vars, timings), where)  # after each case: a run that is interrupted keeps what it has
        took = time.perf_counter() - begun
        line = f"[{number}/{len(cases)}] {case.name}: {measured[0].median_ms:.2f} ms ({took:.1f} s)"
        console.print(line, markup=False, soft_wrap=True)
    if not timings:
        return
    console.print(timings_table(timings))
    console.print(
        "ms: median (quartiles). ours/this: below 1, ours is faster; graphed against graphed. "
        "MiB: of a step beyond parameters and input. "
        "error: against float64. x floor: time over what the ceilings allow for the work of the cost model.",
        soft_wrap=True,
    )
    console.print(f"wrote {path}", markup=False, soft_wrap=True)
    if importlib.util.find_spec("matplotlib") is None:
        console.print("no picture: matplotlib is missing, pip install 'fourierscale[data]'", soft_wrap=True)
        return
    from fourierscale.lab.bench.picture import plot_growth

    title = f"one Fourier layer and one nested activation; {where['device']}, {settings.precision}"
    if plot_growth(path.with_suffix(".png"), timings, title):
        console.print(f"wrote {path.with_suffix('.png')}", markup=False, soft_wrap=True)


def timings_table(timings: Sequence[Timing]) -> Table:
    """Every contestant of every case."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("case and contestants", no_wrap=True)
    for column in ("ms", "ours/this", "MiB", "error", "x floor"):
        table.add_column(column, no_wrap=True, justify="right")
    for previous, row in zip([None, *timings], timings, strict=False):
        if previous is None or previous.case != row.case:  # a line of its own: in eighty columns neither name is cut
            table.add_row(row.case)
        table.add_row(
            f"  {row.contestant}",
            f"{_three(row.median_ms)} ({_three(row.quartile1_ms)}-{_three(row.quartile3_ms)})",
            "" if row.contestant == "ours" else f"{row.ours_ratio:.2f}",
            "" if row.peak_mib is None else _three(row.peak_mib),
            f"{row.error:.0e}",
            "" if row.times_floor is None else f"{row.times_floor:.1f}",
            style="bold" if row.contestant == "ours" else None,
        )
    return table


def _three(value: float) -> str:
    """Three digits without an exponent.

    >>> _three(1234.5), _three(12.345), _three(0.012345)
    ('1234', '12.3', '0.0123')
    """
    digits = 0 if value <= 0 else 2 - math.floor(math.log10(value))
    return f"{value:.{max(0, digits)}f}"
