"""An audit as one page that needs nothing from outside."""

from __future__ import annotations

import os
import time
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fourierscale.auditing.picture import last_rings
from fourierscale.auditing.result import Audit, Layer
from fourierscale.auditing.table import spread
from fourierscale.lab.demo.report import page_style
from fourierscale.models.saved import versions
from fourierscale.pages.charts import Series, error_map, line_chart

__all__ = ["build_page", "write_page"]

ENLARGED = {
    "zero": "padding with zeros",
    "reflect": "reflection at their borders",
    "replicate": "repeating their borders",
    "circular": "periodic repetition",
    "upsample": "ideal upscaling",
}
LINES = ("line-1", "line-2", "line-3", "line-4", "line-5")


def write_page(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page."""
    Path(path).write_text(build_page(audit), encoding="utf-8")


def build_page(audit: Audit) -> str:
    """The text of the page."""
    folder = resources.files("fourierscale.auditing")
    page = Template((folder / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        style=page_style() + (folder / "page.css").read_text(encoding="utf-8"),
        model=escape(audit.model),
        verdict="good" if audit.broken is None else "bad",
        finding=escape(f"{audit.finding}."),
        images=f"{audit.images:,}",
        size=audit.size,
        dtype=audit.dtype,
        enlarged="" if audit.enlarge is None else f" The model takes one size, reached by {ENLARGED[audit.enlarge]}.",
        maps="".join(_map(audit, kind) for kind in audit.kinds),
        rings=_rings(audit),
        shift=_shift(audit),
        logits=_logits(audit),
        layers=_layers(audit),
        versions=escape(", ".join(f"{name} {number}" for name, number in versions().items())),
        made=time.strftime("%Y-%m-%d"),
    )


def _map(audit: Audit, kind: str) -> str:
    """Layers by resolution for one kind of downscaling; the images themselves on top where it is not ideal."""
    layers = [layer for layer in (audit.input, *audit.layers) if layer.errors[kind]]
    complete = [layer for layer in layers if set(layer.errors[kind]) == set(audit.resolutions)]
    if kind == "ideal":
        complete = [layer for layer in complete if layer.number]
    if not complete:
        return ""
    errors = [[layer.errors[kind][side] for side in audit.resolutions] for layer in complete]
    worst = max(max(row) for row in errors)
    names = [_name(layer) for layer in complete]
    columns = [str(side) for side in audit.resolutions]
    key = "ours" if worst <= audit.tolerance else "cnn"
    return f'<div class="card"><h3>{kind} downscaling</h3>{error_map(errors, names, columns, key)}</div>'


def _name(layer: Layer) -> str:
    return "the images" if layer.number == 0 else f"{layer.number} {layer.module}"


def _rings(audit: Audit) -> str:
    found = last_rings(audit, audit.kind)
    chosen = [found[place] for place in spread(range(len(found)), len(LINES))] if found else []
    if not chosen:
        return "<p>No layer gives a map.</p>"
    series = [
        Series(key, {float(k): error for k, error in enumerate(rings.errors)})
        for key, rings in zip(LINES, chosen, strict=False)
    ]
    legend = "".join(
        f'<span><i class="swatch {key}"></i>{rings.resolution} px</span>'
        for key, rings in zip(LINES, chosen, strict=False)
    )
    chart = line_chart(series, f"frequency, layer {chosen[0].layer}", "error of each ring", scale="log")
    return f'<div class="legend">{legend}</div>{chart}'


def _shift(audit: Audit) -> str:
    pixels = sorted({shift.pixels for shift in audit.shift}, reverse=True)
    if not pixels:
        return "<p>No shift was asked for.</p>"
    series = [
        Series(key, {float(shift.layer): shift.error for shift in audit.shift if shift.pixels == amount})
        for key, amount in zip(LINES, pixels, strict=False)
    ]
    legend = "".join(
        f'<span><i class="swatch {key}"></i>{amount:g} px</span>' for key, amount in zip(LINES, pixels, strict=False)
    )
    chart = line_chart(series, "layer", "error under shifts", scale="log", whole=True)
    return f'<div class="legend">{legend}</div>{chart}'


def _logits(audit: Audit) -> str:
    if not audit.logits:
        return "<p>The output is a map, so there are no answers to compare.</p>"
    labelled = audit.accuracy is not None
    names = ["same class", "KL", "confidence no smaller", *(["accuracy", "loss no larger"] if labelled else [])]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = []
    for row in audit.logits:
        figures = [f"{row.agreement:.3f}", f"{row.kl:.1e}", f"{row.ordered:.3f}"]
        figures += [f"{row.accuracy:.3f}", f"{row.scale_con:.3f}"] if labelled else []
        cells = "".join(f"<td>{figure}</td>" for figure in figures)
        lines.append(f'<tr><th scope="row">{row.resolution} px, {row.kind}</th>{cells}</tr>')
    full = f"<p>Accuracy at {audit.size} px: {audit.accuracy:.3f}.</p>" if labelled else ""
    return (
        f'{full}<div class="card scroll"><table><thead><tr><th scope="col">image</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _layers(audit: Audit) -> str:
    lines = []
    for layer in audit.layers:
        worst = layer.worst(audit.kind)
        told = '<span class="none">not compared</span>'
        if worst is not None:
            verdict = "good" if worst[0] <= audit.tolerance else "bad"
            told = f'<b class="{verdict}">{worst[0]:.1e}</b> at {worst[1]} px'
        note = f"<small>{escape(layer.note)}</small>" if layer.note else ""
        shape = " &times; ".join(map(str, layer.shape))
        lines.append(
            f'<tr><th scope="row">{layer.number} {escape(layer.name)}{note}</th><td>{escape(layer.module)}</td>'
            f"<td>{layer.form}</td><td>{shape}</td><td>{told}</td></tr>"
        )
    return "".join(lines)
