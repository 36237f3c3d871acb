"""An audit in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from fourierscale.auditing.result import Audit, Layer
from fourierscale.auditing.sizes import spread

if TYPE_CHECKING:
    from fourierscale.auditing.before_after import BeforeAfter

__all__ = ["both_table", "layer_table", "logit_table"]

COLUMNS = 4


def layer_table(audit: Audit) -> Table:
    """Layers by resolution, then the largest error of each other kind of downscaling, and shifts by so many pixels.

    Errors that are rounding are green, others red.
    """
    shown = spread(audit.resolutions, COLUMNS)
    table = Table(
        title=_title(audit),
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    table.add_column("layer", overflow="ellipsis", no_wrap=True)
    names = [*(f"{side} px" for side in shown), *audit.kinds[1:], *(f"shift {p:g}" for p in _shifts(audit))]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for layer in ((audit.input,) if len(audit.kinds) > 1 else ()) + audit.layers:
        errors = layer.errors[audit.kind]
        moved = {shift.pixels: shift.error for shift in audit.shift if shift.layer == layer.number}
        figures = [errors.get(side) for side in shown] + [_largest(layer, kind) for kind in audit.kinds[1:]]
        figures += [moved.get(pixels) for pixels in _shifts(audit)]
        cells = (_cell(value, audit.tolerance) for value in figures)
        table.add_row(str(layer.number or ""), escape(_label(layer)), *cells)
    return table


def logit_table(audit: Audit) -> Table:
    """Agreement, divergence and order of the answers by resolution."""
    labelled = audit.accuracy is not None
    title = f"{escape(audit.model)}: answers beside those at {audit.size} px"
    table = Table(
        title=title, box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left", caption_justify="left"
    )
    names = ["downscaling", "", "same class", "KL", "confidence ≥", *(["accuracy", "loss ≤"] if labelled else [])]
    for name in names:
        table.add_column(name, justify="left" if name == "downscaling" else "right", no_wrap=True)
    shown = spread(audit.resolutions, COLUMNS)
    for row in audit.logits:
        if row.resolution in shown:
            more = [f"{row.accuracy:.3f}", f"{row.scale_con:.3f}"] if labelled else []
            figures = [f"{row.agreement:.3f}", f"{row.kl:.1e}", f"{row.ordered:.3f}", *more]
            table.add_row(row.kind, f"{row.resolution} px", *figures)
    table.caption = f"≥, ≤: share of images no less sure, no worse at {audit.size} px"
    return table


def both_table(found: BeforeAfter) -> Table:
    """The errors of the bare and of the wrapped model's output, by kind of downscaling and resolution."""
    after, sides = found.after, spread(found.after.resolutions, COLUMNS)
    title = f"{escape(found.before.model)}: relative squared error of its output, {after.images} images"
    table = Table(title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    table.add_column("downscaling", no_wrap=True)
    table.add_column("", no_wrap=True)
    for side in sides:
        table.add_column(f"{side} px", justify="right", no_wrap=True)
    for kind in after.kinds:
        for name, audit in (("bare", found.before), ("nested", after)):
            errors = audit.layers[-1].errors[kind]
            table.add_row(kind, name, *(_cell(errors.get(side), audit.tolerance) for side in sides))
    return table


def _title(audit: Audit) -> str:
    padded = "" if audit.enlarge is None else f", enlarge {audit.enlarge}"
    return f"{escape(audit.model)}: relative squared error, {audit.images} images, {audit.kind}{padded}"


def _label(layer: Layer) -> str:
    """The path first, which tells layers apart where there is no room for the class."""
    return "the images" if layer.number == 0 else f"{layer.name} {layer.module}"


def _shifts(audit: Audit) -> list[float]:
    return sorted({shift.pixels for shift in audit.shift}, reverse=True)


def _largest(layer: Layer, kind: str) -> float | None:
    worst = layer.worst(kind)
    return None if worst is None else worst[0]


def _cell(value: float | None, tolerance: float) -> str:
    if value is None:
        return "-"
    return f"[{'green' if value <= tolerance else 'red'}]{value:.0e}[/]"
