"""An audit as one page that needs nothing from outside."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import fourierscale
from fourierscale.auditing.picture import both_lines, ring_lines, shift_lines
from fourierscale.auditing.result import Audit, Layer
from fourierscale.models.files import write_whole
from fourierscale.pages.charts import Series, error_map, line_chart
from fourierscale.pages.elements import card, row, said, section, skeleton, table, two

if TYPE_CHECKING:
    from fourierscale.auditing.before_after import BeforeAfter

__all__ = ["build_both_page", "build_page", "write_both", "write_page"]

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
LAYER_COLUMNS = ("layer", "largest error", "module", "gives", "shape")
BOTH = (
    "<p>The output of the bare model and of the same inside one nested map. What is inside the nested map sees each "
    "level of an image in turn, so its output alone is compared: maps, or the answer of each level where the model "
    "gives vectors.</p>"
)
SHIFTS = (
    "<p><small>Shifted features against features of the shifted image, at the full size; images are periodic. What is "
    "no map should not change at all.</small></p>"
)


def write_page(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page."""
    write_whole(Path(path), build_page(audit))


def build_page(audit: Audit) -> str:
    """The text of the page."""
    verdict = "good" if audit.broken is None else "bad"
    return skeleton(
        f"audit of {audit.model}",
        f'<p class="lead {verdict}"><b>{said(audit.finding)}.</b></p>',
        _about(audit),
        *_sections(audit),
        section("The layers", table(LAYER_COLUMNS, _layers(audit))),
        _made_by("fourierscale audit MODEL --out DIR"),
        heading=f"Audit of {audit.model}",
    )


def write_both(found: BeforeAfter, path: str | os.PathLike[str]) -> None:
    """Write the page of a model and the same inside one nested map."""
    write_whole(Path(path), build_both_page(found))


def build_both_page(found: BeforeAfter) -> str:
    """The text of the page of a model and the same inside one nested map."""
    before, after = found.before, found.after
    verdict = "good" if after.broken is None else "bad"
    told = "".join(f"<li>{said(sentence)}</li>" for sentence in found.sentences[1:])
    sides = sorted({*before.resolutions, *after.resolutions})
    rows = []
    for kind in after.kinds:
        for name, audit in (("bare", before), ("nested", after)):
            errors = audit.layers[-1].errors[kind]
            rows.append(row(f"{kind}, {name}", *(_error(errors.get(side), audit.tolerance) for side in sides)))
    charts = (card(kind, _chart(both_lines(found, kind), "resolution", "error")) for kind in after.kinds)
    return skeleton(
        f"audit of {before.model}, bare and nested",
        f'<p class="lead {verdict}"><b>{said(found.sentences[0])}.</b></p>',
        f"<p>What is left of the gain when images are not made smaller ideally:</p><ul>{told}</ul>" if told else "",
        _about(after),
        section("Before and after", BOTH, table(("downscaling, model", *(f"{n} px" for n in sides)), rows), key="both"),
        two(*charts),
        section("The answers of the nested model", _logits(after), key="answers-nested"),
        section("The bare model", _about(before)),
        *_sections(before),
        section("The layers", table(LAYER_COLUMNS, _layers(before))),
        _made_by("fourierscale audit MODEL --nested LEVELS --out DIR"),
        heading=f"Audit of {before.model}, bare and inside one nested map",
    )


def _about(audit: Audit) -> str:
    reached = "" if audit.enlarge is None else f" The model takes one size, reached by {ENLARGED[audit.enlarge]}."
    return (
        f"<p>{audit.images:,} images of {audit.size} pixels, computed in {audit.dtype}.{reached} Errors are relative "
        "and squared, between features of the downscaled image and downscaled features of the image, over all channels "
        "and all frequencies that both have.</p>"
    )


def _sections(audit: Audit) -> list[str]:
    return [
        section("Layer by resolution", LAYERS, two(*(_map(audit, kind) for kind in audit.kinds)), key="layers"),
        two(card("Ring by ring", _rings(audit), RINGS), card("Under shifts", _shift(audit), SHIFTS)),
        section("The answers", _logits(audit), key="logits"),
    ]


def _made_by(command: str) -> str:
    versions = f"fourierscale {fourierscale.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    return section(
        "How this was made",
        f"<pre><code>{command}</code></pre>",
        f"<p><small>{time.strftime('%Y-%m-%d')}, {versions}</small></p>",
    )


def _error(value: float | None, tolerance: float) -> str:
    if value is None:
        return '<span class="none">not taken</span>'
    return f'<b class="{"good" if value <= tolerance else "bad"}">{value:.1e}</b>'


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
