"""``fourierscale bench``."""

from __future__ import annotations

import importlib.util
import time
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console

from fourierscale.cli.folders import check_folder

__all__ = ["bench"]

HIDDEN = {"model", "size", "batch", "channels", "levels", "mode", "grid", "precision", "repeats", "gflop", "mbyte"}
HIDDEN |= {"quartile1_ms", "quartile3_ms", "floor_ms"}
"""Columns of cases that their names tell, or that are for the file."""
CAPTION = (
    "ours_ratio: below 1, ours is faster; graphed against graphed. peak_mib: of a step beyond parameters and input. "
    "error: against float64. times_floor: time over what the ceilings allow for the work of the cost model."
)


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Cases or groups; or a suite (anytime, baselines, boundary, data, limits, nested, photos, transforms), names in it."
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

    from fourierscale.lab.bench import SUITES, Settings
    from fourierscale.lab.bench.picture import plot_growth
    from fourierscale.lab.bench.suites import OtherProcesses, Precision, about, write_csv

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
    suite, chosen = (names[0], names[1:]) if names and names[0] in SUITES else ("cases", names or [])
    console, where, others = Console(highlight=False), about(settings.device), OtherProcesses()
    console.print(f"{where['device']}, torch {where['torch']}, commit {where['commit']}", soft_wrap=True)
    files: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    try:
        for stem, row in SUITES[suite](chosen, settings):
            rows = files[out / f"{stem}.csv"]
            line = {key: value for key, value in row.items() if suite != "cases" or key not in HIDDEN}
            widths = [max(len(key), 18 if isinstance(value, str) else 8) for key, value in line.items()]
            texts = [list(line), [_shown(value) for value in line.values()]]
            for cells in texts if not rows else texts[1:]:
                text = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
                bold = "bold" if cells is texts[0] or row.get("contestant") == "ours" else None
                console.print(text, markup=False, soft_wrap=True, style=bold)
            rows.append(row)
            write_csv(out / f"{stem}.csv", rows, where)  # each time: a run that is interrupted keeps what it has
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if suite == "cases":
        console.print(CAPTION, soft_wrap=True)
    share = others.share()
    if share is not None and share > 0.03:
        told = f"other processes took {share:.0%} of the CPU: times are not to be trusted, run again when it is quiet"
        console.print(told, style="yellow", soft_wrap=True)
    for path, rows in files.items():
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
        if path.stem != f"bench-{place}":
            continue
        if importlib.util.find_spec("matplotlib") is None:
            console.print("no picture: matplotlib is missing, pip install 'fourierscale[train]'", soft_wrap=True)
        elif plot_growth(path.with_suffix(".png"), rows, f"a Fourier layer, a nested activation; {where['device']}"):
            console.print(f"wrote {path.with_suffix('.png')}", markup=False, soft_wrap=True)
    console.print(f"all of it took {time.perf_counter() - started:.0f} s", style="dim")


def _shown(value: object) -> str:
    """Three digits of a number.

    >>> _shown(1234.5), _shown(12.345), _shown(0.00012345), _shown(None), _shown("a")
    ('1234', '12.3', '0.000123', '', 'a')
    """
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.0f}" if 1000 <= value < 1e7 else f"{value:.3g}"
