"""An audit as a picture: layers by resolution, rings, shifts."""

from __future__ import annotations

import math
import os
from typing import Any

from fourierscale.auditing.result import Audit, Rings
from fourierscale.auditing.table import spread

__all__ = ["draw", "last_rings"]

FLOOR = 1e-16
FIGURES = 10  # columns at which there is room for numbers in the cells


def last_rings(audit: Audit, kind: str) -> list[Rings]:
    """Rings of the last layer that gives a map of several frequencies, coarse to fine."""
    numbers = [rings.layer for rings in audit.rings if rings.kind == kind and len(rings.difference) > 1]
    return [rings for rings in audit.rings if rings.kind == kind and rings.layer == max(numbers, default=0)]


def draw(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write a PNG."""
    from matplotlib.figure import Figure

    rows = len(audit.layers)
    figure = Figure(figsize=(13, max(3.8, 1.8 + 0.2 * rows)), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.35, 1, 1))
    _heat(audit, left, figure)
    _rings(audit, middle)
    _shift(audit, right)
    figure.suptitle(audit.finding, fontsize=10)
    figure.savefig(path, dpi=130)


def _heat(audit: Audit, axes: Any, figure: Any) -> None:
    cells = [[_power(layer.errors[audit.kind].get(side)) for side in audit.resolutions] for layer in audit.layers]
    image = axes.imshow(cells, cmap="magma_r", vmin=math.log10(FLOOR), vmax=0, aspect="auto", interpolation="nearest")
    if len(audit.resolutions) <= FIGURES:
        for row, layer in enumerate(audit.layers):
            for column, side in enumerate(audit.resolutions):
                error = layer.errors[audit.kind].get(side)
                told, colour = (
                    ("-", "black") if error is None else (f"{error:.0e}", "white" if error > 1e-6 else "black")
                )
                axes.text(column, row, told, ha="center", va="center", fontsize=6, color=colour)
    ticks = spread(range(len(audit.resolutions)), 8)
    axes.set_xticks(ticks, [str(audit.resolutions[tick]) for tick in ticks])
    numbers = spread(range(len(audit.layers)), 30)
    axes.set_yticks(numbers, [f"{audit.layers[n].number} {audit.layers[n].module}" for n in numbers], fontsize=7)
    axes.set(xlabel="resolution in pixels", title=f"error, layer by resolution ({audit.kind})")
    bar = figure.colorbar(image, ax=axes, shrink=0.9)
    bar.set_ticks([-16, -12, -8, -4, 0], labels=["1e-16", "1e-12", "1e-8", "1e-4", "1"])


def _rings(audit: Audit, axes: Any) -> None:
    from matplotlib import colormaps

    found = last_rings(audit, audit.kind)
    chosen = spread(range(len(found)), 6) if found else []
    for place in chosen:
        points = [(k, error) for k, error in enumerate(found[place].errors) if error]
        colour = colormaps["viridis"](0.9 * place / max(1, len(found) - 1))
        if points:
            axes.plot(
                *zip(*points, strict=True),
                marker="o",
                markersize=3,
                color=colour,
                label=f"{found[place].resolution} px",
            )
    where = f"layer {found[0].layer}" if found else "no map"
    axes.set(xlabel="frequency of the ring", yscale="log", title=f"error of each ring, {where}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _finish(axes, bool(chosen))


def _shift(audit: Audit, axes: Any) -> None:
    styles = zip(sorted({shift.pixels for shift in audit.shift}, reverse=True), "osD^v", strict=False)
    for pixels, marker in styles:
        points = [(s.layer, max(s.error, FLOOR)) for s in audit.shift if s.pixels == pixels]
        axes.plot(*zip(*points, strict=True), marker=marker, markersize=3, label=f"{pixels:g} px")
    axes.set(xlabel="layer", yscale="log", title="error under shifts")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _finish(axes, bool(audit.shift))


def _finish(axes: Any, legend: bool) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if legend:
        axes.legend(frameon=False, fontsize=8)


def _power(error: float | None) -> float:
    return math.nan if error is None else math.log10(max(error, FLOOR))
