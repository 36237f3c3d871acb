"""How times grow, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fourierscale.lab.bench.cases import SWEEPS
from fourierscale.models.files import replacing

__all__ = ["plot_growth"]


def plot_growth(path: Path, rows: Sequence[Mapping[str, Any]], title: str) -> bool:
    """Time against each number that grows, ours and its peers, with the floor of the cost model.

    Returns:
        Whether there was anything to draw: two cases of a sweep.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    groups = {group: [row for row in rows if row["case"].split("-")[0] == group] for group in SWEEPS}
    drawn = [group for group in SWEEPS if len({row["case"] for row in groups[group]}) > 1]
    if not drawn:
        return False
    figure = Figure(figsize=(4.2 * len(drawn), 4.4), layout="constrained")
    names = list(dict.fromkeys(row["contestant"] for group in drawn for row in groups[group]))
    for axes, group in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
        for name in names:
            line = [row for row in groups[group] if row["contestant"] == name]
            if not line:
                continue
            x, y = zip(*((row[group], row["median_ms"]) for row in line), strict=True)
            if name != "ours":
                axes.plot(x, y, ".-", linewidth=1.2, color=f"C{names.index(name) - 1}", label=name)
                continue
            axes.plot(x, y, "o-", linewidth=2.5, color="black", label=name, zorder=3)
            floors = [row["floor_ms"] for row in line if row["floor_ms"] is not None]
            if floors:
                axes.plot(x, floors, "--", color="black", linewidth=1.2, label="ours, floor of the cost model")
        axes.set(xscale="log", yscale="log")
        ticks = sorted({row[group] for row in groups[group]})
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
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110)
    return True
