"""What was measured as a CSV file and as a picture."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import torch

from fourierscale.lab.bench.cases import SWEEPS
from fourierscale.lab.bench.measure import Row

__all__ = ["OtherProcesses", "about", "plot_growth", "write_csv"]


def about(device: torch.device) -> dict[str, str]:
    """Where a run took place: device, versions, commit."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = ""
    return {
        "device": name,
        "torch": torch.__version__,
        "triton": triton,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def write_csv(path: Path, rows: Sequence[Row], where: dict[str, str]) -> None:
    """One line per contestant and case, figures in four digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)] + list(where))
        writer.writeheader()
        for row in rows:
            values = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in asdict(row).items()}
            writer.writerow({**values, **where})


def plot_growth(path: Path, rows: Sequence[Row], title: str) -> bool:
    """Time against each number that grows, ours and its peers, with the floor of the cost model.

    Returns:
        Whether there was anything to draw: two cases of a sweep.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    groups = {group: [row for row in rows if row.case.split("-")[0] == group] for group in SWEEPS}
    drawn = [group for group in SWEEPS if len({row.case for row in groups[group]}) > 1]
    if not drawn:
        return False
    figure = Figure(figsize=(4.2 * len(drawn), 4.4), layout="constrained")
    names = list(dict.fromkeys(row.contestant for group in drawn for row in groups[group]))
    for axes, group in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
        for name in names:
            line = [row for row in groups[group] if row.contestant == name]
            x = [getattr(row, group) for row in line]
            ours = name == "ours"
            axes.plot(
                x,
                [row.median_ms for row in line],
                marker="o" if ours else ".",
                linewidth=2.5 if ours else 1.2,
                color="black" if ours else f"C{names.index(name) - 1}",
                label=name,
                zorder=3 if ours else 2,
            )
            if ours and all(row.floor_ms is not None for row in line):
                floors = [row.floor_ms for row in line]
                axes.plot(
                    x, floors, color="black", linestyle="--", linewidth=1.2, label="ours, floor of the cost model"
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = sorted({getattr(row, group) for row in groups[group]})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_xlabel({"size": "side of the image", "batch": "images in a batch"}.get(group, group))
        axes.grid(alpha=0.3)
    first = figure.axes[0]
    first.set_ylabel("ms per training step")
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4 * len(drawn)), frameon=False)
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return True


class OtherProcesses:
    """How much of the CPU everybody else takes while this process measures.

    Many short operations on all cores suffer more from a neighbour than few long ones, so interleaving is not enough.
    """

    def __init__(self) -> None:
        self.begun = self._seconds()

    def share(self) -> float | None:
        """Share of the CPU's time since the beginning that went to others; None where it cannot be known."""
        now = self._seconds()
        if self.begun is None or now is None:
            return None
        (busy, total, own), (busy_before, total_before, own_before) = now, self.begun
        return max(0.0, (busy - busy_before) - (own - own_before)) / max(total - total_before, 1e-9)

    @staticmethod
    def _seconds() -> tuple[float, float, float] | None:
        """Seconds that all cores were busy, that have passed on all cores, and that this process had."""
        try:
            numbers = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:  # no Linux
            return None
        tick = os.sysconf("SC_CLK_TCK")
        idle = numbers[3] + numbers[4]  # waiting for a disk is idle too
        return (sum(numbers) - idle) / tick, sum(numbers) / tick, time.process_time()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:  # there is no git
        return "unknown"
    return found.stdout.strip() or "unknown"
