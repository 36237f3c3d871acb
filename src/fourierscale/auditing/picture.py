"""An audit as a picture: layers by resolution, rings, shifts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierscale.auditing.result import Audit
from fourierscale.auditing.sizes import spread
from fourierscale.models.files import replacing

if TYPE_CHECKING:
    from fourierscale.auditing.before_after import BeforeAfter

__all__ = ["both_lines", "draw", "draw_both", "ring_lines", "shift_lines"]

FLOOR = 1e-16
LINES = 5  # at most, in a chart
FIGURES = 10  # columns at which there is room for numbers in the cells


def ring_lines(audit: Audit) -> tuple[int, dict[str, dict[float, float | None]]]:
    """Errors by frequency of the last layer that gives a map of several, for at most five resolutions.

    Returns:
        The layer's number, 0 if there is none, and points by the name of their line.
    """
    rings = [found for found in audit.rings if found.kind == audit.kind and len(found.difference) > 1]
    layer = max((found.layer for found in rings), default=0)
    rings = [found for found in rings if found.layer == layer]
    chosen = [rings[place] for place in spread(range(len(rings)), LINES)]
    return layer, {f"{found.resolution} px": dict(enumerate(found.errors)) for found in chosen}


def shift_lines(audit: Audit) -> dict[str, dict[float, float | None]]:
    """Errors by layer for each shift, the largest first; points by the name of their line."""
    pixels = sorted({shift.pixels for shift in audit.shift}, reverse=True)[:LINES]
    return {f"{p:g} px": {s.layer: s.error for s in audit.shift if s.pixels == p} for p in pixels}


def draw(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write a PNG."""
    from matplotlib.figure import Figure

    rows = len(audit.layers)
    figure = Figure(figsize=(13, max(3.8, 1.8 + 0.2 * rows)), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.35, 1, 1))
    _heat(audit, left, figure)
    layer, rings = ring_lines(audit)
    _lines(middle, rings, "frequency of the ring", f"error of each ring, {f'layer {layer}' if layer else 'no map'}")
    _lines(right, shift_lines(audit), "layer", "error under shifts")
    figure.suptitle(audit.finding, fontsize=10)
    with replacing(Path(path)) as partial:
        figure.savefig(partial, dpi=130)


def draw_both(found: BeforeAfter, path: str | os.PathLike[str]) -> None:
    """Write a PNG of the outputs of a bare and of a wrapped model, one chart for each kind of downscaling."""
    from matplotlib.figure import Figure

    kinds = found.after.kinds
    figure = Figure(figsize=(max(6.0, 3.2 * len(kinds)), 3.8), layout="constrained")
    charts = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for kind, axes in zip(kinds, charts, strict=True):
        _lines(axes, both_lines(found, kind), "resolution in pixels", kind)
    charts[0].set_ylabel("relative squared error of the output")
    figure.suptitle(f"{found.before.model}, bare and inside one nested map", fontsize=10)
    with replacing(Path(path)) as partial:
        figure.savefig(partial, dpi=130)


def both_lines(found: BeforeAfter, kind: str) -> dict[str, dict[float, float | None]]:
    """Errors of both outputs by resolution under one kind of downscaling."""
    lines: dict[str, dict[float, float | None]] = {}
    for name, audit in (("bare", found.before), ("nested", found.after)):
        lines[name] = {side: float(error) for side, error in audit.layers[-1].errors[kind].items()}
    return lines


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


def _lines(axes: Any, lines: Mapping[str, Mapping[float, float | None]], x_label: str, title: str) -> None:
    for name, points in lines.items():
        known = [(x, max(y, FLOOR)) for x, y in points.items() if y]
        if known:
            axes.plot(*zip(*known, strict=True), marker="o", markersize=3, label=name)
    axes.set(xlabel=x_label, yscale="log", title=title)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if lines:
        axes.legend(frameon=False, fontsize=8)


def _power(error: float | None) -> float:
    return math.nan if error is None else math.log10(max(error, FLOOR))
