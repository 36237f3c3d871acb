"""An audit as one page that needs nothing from outside."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

import torch

import fourierscale
from fourierscale.auditing.picture import ring_lines, shift_lines
from fourierscale.auditing.result import Audit, Layer
from fourierscale.pages.charts import Series, error_map, line_chart
from fourierscale.pages.elements import card, row, said, section, skeleton, table, two

__all__ = ["build_page", "write_page"]

ENLARGED = {
    "zero": "padding with zeros",
    "reflect": "reflection at their borders",
    "replicate": "repeating their borders",
    "circular": "periodic repetition",
    "upsample": "ideal upscaling",
}
LAYERS = (
    "<p>The fuller a cell, the larger its power of ten; at the right the largest of each layer. Where downscaling is "
    "not ideal, the first row is what it does to the images themselves.</p>"
)
RINGS = "<p><small>The last map, the error of each frequency relative to what the map has there.</small></p>"
SHIFTS = (
    "<p><small>Shifted features against features of the shifted image, at the full size; images are periodic. What is "
    "no map should not change at all.</small></p>"
)


def write_page(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page."""
    Path(path).write_text(build_page(audit), encoding="utf-8")


def build_page(audit: Audit) -> str:
    """The text of the page."""
    verdict = "good" if audit.broken is None else "bad"
    reached = "" if audit.enlarge is None else f" The model takes one size, reached by {ENLARGED[audit.enlarge]}."
    versions = f"fourierscale {fourierscale.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    return skeleton(
        f"audit of {audit.model}",
        f'<p class="lead {verdict}"><b>{said(audit.finding)}.</b></p>',
        f"<p>{audit.images:,} images of {audit.size} pixels, computed in {audit.dtype}.{reached} Errors are relative "
        "and squared, between features of the downscaled image and downscaled features of the image, over all channels "
        "and all frequencies that both have.</p>",
        section("Layer by resolution", LAYERS, two(*(_map(audit, kind) for kind in audit.kinds)), key="layers"),
        two(card("Ring by ring", _rings(audit), RINGS), card("Under shifts", _shift(audit), SHIFTS)),
        section("The answers", _logits(audit), key="logits"),
        section("The layers", table(("layer", "largest error", "module", "gives", "shape"), _layers(audit))),
        section(
            "How this was made",
            "<pre><code>fourierscale audit MODEL --out DIR</code></pre>",
            f"<p><small>{time.strftime('%Y-%m-%d')}, {versions}</small></p>",
        ),
        heading=f"Audit of {audit.model}",
    )


def _map(audit: Audit, kind: str) -> str:
    """Layers by resolution for one kind of downscaling; the images themselves on top where it is not ideal."""
    layers = (audit.input, *audit.layers)[kind == "ideal" :]
    complete = [layer for layer in layers if set(layer.errors[kind]) == set(audit.resolutions)]
    if not complete:
        return ""
    errors = [[layer.errors[kind][side] for side in audit.resolutions] for layer in complete]
    key = "ours" if max(map(max, errors)) <= audit.tolerance else "cnn"
    names = ["the images" if layer.number == 0 else f"{layer.number} {layer.module}" for layer in complete]
    return card(f"{kind} downscaling", error_map(errors, names, [str(side) for side in audit.resolutions], key))


def _rings(audit: Audit) -> str:
    layer, lines = ring_lines(audit)
    return _chart(lines, f"frequency, layer {layer}", "error of each ring") if lines else "<p>No layer gives a map.</p>"


def _shift(audit: Audit) -> str:
    lines = shift_lines(audit)
    return _chart(lines, "layer", "error under shifts") if lines else "<p>No shift was asked for.</p>"


def _chart(lines: Mapping[str, Mapping[float, float | None]], x_label: str, y_label: str) -> str:
    series = [Series(f"line-{number}", points, name) for number, (name, points) in enumerate(lines.items(), 1)]
    return line_chart(series, x_label, y_label, scale="log", whole=True)


def _logits(audit: Audit) -> str:
    if not audit.logits:
        return "<p>The output is a map, so there are no answers to compare.</p>"
    labelled = audit.accuracy is not None
    names = ["image", "same class", "KL", "confidence no smaller"] + ["accuracy", "loss no larger"] * labelled
    rows = []
    for answers in audit.logits:
        figures = [f"{answers.agreement:.3f}", f"{answers.kl:.1e}", f"{answers.ordered:.3f}"]
        figures += [f"{answers.accuracy:.3f}", f"{answers.scale_con:.3f}"] if labelled else []
        rows.append(row(f"{answers.resolution} px, {answers.kind}", *figures))
    full = f" Its accuracy there is {audit.accuracy:.3f}." if labelled else ""
    beside = f"What the model says of the downscaled image beside what it says of the image at {audit.size} pixels."
    return f"<p>{beside}{full}</p>{table(names, rows)}"


def _layers(audit: Audit) -> Iterator[str]:
    for layer in audit.layers:
        shape = " &times; ".join(map(str, layer.shape))
        cells = (_largest(layer, audit), escape(layer.module), layer.form, shape)
        yield row(f"{layer.number} {layer.name}", *cells, note=layer.note)


def _largest(layer: Layer, audit: Audit) -> str:
    worst = layer.worst(audit.kind)
    if worst is None:
        return '<span class="none">not compared</span>'
    return f'<b class="{"good" if worst[0] <= audit.tolerance else "bad"}">{worst[0]:.1e}</b> at {worst[1]} px'
