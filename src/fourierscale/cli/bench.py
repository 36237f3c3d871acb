"""``fourierscale bench``."""

from __future__ import annotations

import importlib.util
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer
from rich.console import Console
from rich.table import Table

from fourierscale.cli.folders import check_folder

if TYPE_CHECKING:
    from fourierscale.lab.bench import Row

__all__ = ["bench"]

Products = Literal["highest", "high"]


def bench(
    cases: Annotated[list[str] | None, typer.Argument(help="Names of cases or groups; default: all.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None,
    precision: Annotated[str, typer.Option(help="Of float32 products: highest, or high (TF32 on GPUs).")] = "highest",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and repeats: a minute on two CPU cores.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the CSV file and the picture.")] = Path("results/bench"),
) -> None:
    """Measure speed, memory and error beside plain CNNs and other peers, against a cost model."""
    import torch

    from fourierscale.lab.bench import choose_cases, measure_case, measure_ceilings
    from fourierscale.lab.bench.report import OtherProcesses, about, plot_growth, write_csv

    started = time.perf_counter()
    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise typer.BadParameter(f"{name!r} is neither cpu nor cuda", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("torch sees no CUDA device: use --device cpu", param_hint="--device")
    if precision not in get_args(Products):
        raise typer.BadParameter(f"{precision!r} is neither highest nor high", param_hint="--precision")
    check_folder(out)
    try:
        chosen = choose_cases(cases or [], name, quick)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    where = torch.device(name)
    seconds, least = (0.3, 3) if quick else (1.0 if name == "cuda" else 4.0, 5)

    console = Console(highlight=False)
    run = about(where)
    console.print(
        f"{run['device']}, torch {run['torch']}, commit {run['commit']}, products {precision}", soft_wrap=True
    )
    others = OtherProcesses()
    ceilings = {}
    rows: list[Row] = []
    path = out / f"bench-{name}.csv"
    for number, case in enumerate(chosen, 1):
        products = case.precision or precision
        if products not in ceilings:
            ceilings[products] = measure_ceilings(where, products)  # type: ignore[arg-type]
            rates = ceilings[products]
            console.print(
                f"ceilings ({products}): product {rates.flops_per_second / 1e9:,.0f} GFLOP/s, "
                f"copy {rates.bytes_per_second / 1e9:,.0f} GB/s",
                soft_wrap=True,
            )
        begun = time.perf_counter()
        try:
            measured = measure_case(case, where, products, seconds, least, ceilings[products])  # type: ignore[arg-type]
        except torch.OutOfMemoryError:
            console.print(f"[{number}/{len(chosen)}] {case.name}: out of memory, left out", markup=False)
            continue
        finally:
            if name == "cuda":
                torch.cuda.empty_cache()
        rows += measured
        write_csv(path, rows, run)  # after each case: a run that is interrupted keeps what it has
        took = time.perf_counter() - begun
        line = f"[{number}/{len(chosen)}] {case.name}: {measured[0].median_ms:.2f} ms ({took:.1f} s)"
        console.print(line, markup=False, soft_wrap=True)
    share = others.share()
    if not rows:
        return
    console.print(results_table(rows))
    console.print(
        "ms: median (quartiles). ours/this: below 1, ours is faster; graphed against graphed. "
        "MiB: of a step beyond parameters and input. "
        "error: against float64. x floor: time over what the ceilings allow for the work of the cost model.",
        soft_wrap=True,
    )
    if share is not None and share > 0.03:
        console.print(
            f"other processes took {share:.0%} of the CPU: times are not to be trusted, run again when it is quiet",
            style="yellow",
            soft_wrap=True,
        )
    console.print(f"wrote {path}", markup=False, soft_wrap=True)
    if importlib.util.find_spec("matplotlib") is None:
        console.print("no picture: matplotlib is missing, pip install 'fourierscale[data]'", soft_wrap=True)
    else:
        picture = path.with_suffix(".png")
        if plot_growth(picture, rows, f"one Fourier layer and one nested activation; {run['device']}, float32"):
            console.print(f"wrote {picture}", markup=False, soft_wrap=True)
    console.print(f"all of it took {time.perf_counter() - started:.0f} s", style="dim")


def results_table(rows: list[Row]) -> Table:
    """Every contestant of every case."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("case and contestants", no_wrap=True)
    for column in ("ms", "ours/this", "MiB", "error", "x floor"):
        table.add_column(column, no_wrap=True, justify="right")
    for previous, row in zip([None, *rows], rows, strict=False):
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
