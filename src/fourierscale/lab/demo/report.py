"""The page ``report.html``: one file that needs nothing from outside."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Literal

import torch

from fourierscale.functional import downscale
from fourierscale.lab.demo.cnn import SmallCNN
from fourierscale.lab.demo.rows import Row, result_rows
from fourierscale.lab.demo.stages import Demo, Entry, Listener, Silent
from fourierscale.models.saved import versions
from fourierscale.pages.charts import Series, heat_map, line_chart
from fourierscale.pages.pictures import BothWays, both_ways, choose_digit, judge, png

__all__ = ["page_style", "write_report"]

SHOWN = (28, 19, 11)
TITLE = "write the report"


def write_report(demo: Demo, path: str | os.PathLike[str], listener: Listener | None = None) -> Path:
    """Write the page and return its path.

    Args:
        demo: What was measured.
        path: The file.
        listener: Told when it begins and ends.
    """
    listener = listener or Silent()
    listener.stage(TITLE)
    started = time.perf_counter()
    page = Template((resources.files("fourierscale.lab.demo") / "page.html").read_text(encoding="utf-8"))
    resolutions = demo.splits.protocol.resolutions
    text = page.substitute(
        style=page_style(),
        images=f"{demo.entries[0].metrics['images']:,}",
        all_images=f"{len(demo.splits.test):,}",
        lowest=min(resolutions),
        highest=max(resolutions),
        table=_table(result_rows(demo)),
        legend=_legend(demo.entries),
        accuracy=_over_resolution(demo.entries, "accuracy"),
        loss=_over_resolution(demo.entries, "loss"),
        maps=_maps(demo),
        digits=_digits(demo),
        train_loss=_over_epochs(demo, ("loss", "val_loss")),
        train_accuracy=_over_epochs(demo, ("val_acc", "val_scale_con")),
        epochs=len(demo.epochs),
        footer=_footer(demo),
    )
    target = Path(path)
    target.write_text(text, encoding="utf-8")
    listener.done(time.perf_counter() - started)
    return target


def page_style() -> str:
    """The style sheet that all pages share."""
    return (resources.files("fourierscale.pages") / "style.css").read_text(encoding="utf-8")


def _table(rows: Sequence[Row]) -> str:
    lines = [
        f'<tr class="{row.key}"><th scope="row"><span class="swatch {row.key}"></span>{escape(row.name)}'
        f"<small>{escape(row.origin)}</small></th>"
        f"<td>{row.accuracy}</td><td>{row.scale_con}</td><td>{row.equi_err}</td></tr>"
        for row in rows
    ]
    return "\n".join(lines)


def _legend(entries: Sequence[Entry]) -> str:
    names = (f'<span><i class="swatch {entry.key}"></i>{escape(entry.name)}</span>' for entry in entries)
    return "".join(names)


def _over_resolution(entries: Sequence[Entry], what: Literal["accuracy", "loss"]) -> str:
    series = [
        Series(entry.key, {float(r): value for r, value in entry.metrics[f"{what}_per_resolution"].items()})
        for entry in entries
    ]
    return line_chart(series, "resolution of the image in pixels", what, scale="log" if what == "loss" else "nines")


def _over_epochs(demo: Demo, columns: Sequence[str]) -> str:
    keys = ("cnn", "ours") if "loss" in columns else ("tiny", "ours")
    series = [
        Series(key, {float(row["epoch"]) + 1: float(row[column]) if row.get(column) else None for row in demo.epochs})
        for key, column in zip(keys, columns, strict=True)
    ]
    return line_chart(series, "epoch", " and ".join(columns), scale="log" if "loss" in columns else "nines", whole=True)


def _maps(demo: Demo) -> str:
    """The image, then for both nets the features of the small image and the small features of the image."""
    digit = choose_digit(demo.splits)
    shown = [r for r in SHOWN if r <= demo.size]
    ours, cnn = demo.entries[0].model, next(e.model for e in demo.entries if isinstance(e.model, SmallCNN))
    prepare = demo.splits.preprocessing
    padded = replace(prepare, enlarge="zero", enlarge_size=demo.size)
    columns = both_ways(cnn, padded, digit, shown), both_ways(ours, prepare, digit, shown)
    rows = []
    for r, of_cnn, of_ours in zip(shown, *columns, strict=True):
        small = downscale(digit, r, demo.splits.protocol.kind)[0, 0].cpu()
        image = f'<img alt="the digit at {r} pixels" src="{png(small)}"><figcaption>{r} &times; {r}</figcaption>'
        pairs = _pair("small CNN", of_cnn) + _pair("ours", of_ours)
        rows.append(f'<div class="maps"><figure>{image}</figure>{pairs}</div>')
    return "\n".join(rows)


def _pair(name: str, both: BothWays) -> str:
    low = float(min(both.of_small.min(), both.shrunk.min()))
    high = float(max(both.of_small.max(), both.shrunk.max()))
    kind = "good" if both.error < 1e-6 else "bad"
    pictures = [
        f'<img alt="{name}: {what}" title="{name}: {what}" src="{png(values, low, high, "magma")}">'
        for what, values in (
            ("features of the downscaled image", both.of_small),
            ("downscaled features of the image", both.shrunk),
        )
    ]
    caption = f'{name}: difference <b class="{kind}">{both.error:.0e}</b>'
    return f'<figure class="pair">{"".join(pictures)}<figcaption>{caption}</figcaption></figure>'


def _digits(demo: Demo) -> str:
    cards = []
    for judged in judge(demo.entries[0].model, demo.splits):
        names = [f"{level} px" for level in judged.levels]
        heat = heat_map(judged.probabilities, names, demo.splits.classes, judged.label)
        last = judged.probabilities[-1]
        best = max(range(len(last)), key=last.__getitem__)
        caption = f"a {escape(demo.splits.classes[judged.label])}, taken for a {escape(demo.splits.classes[best])}"
        if best == judged.label:
            caption = f"a {escape(demo.splits.classes[best])}: {last[best]:.4f}"
        image = f'<img alt="a test digit" src="{png(judged.image, 0.0, 1.0)}">'
        cards.append(f'<figure class="digit"><div>{image}{heat}</div><figcaption>{caption}</figcaption></figure>')
    return "\n".join(cards)


def _footer(demo: Demo) -> str:
    device = torch.cuda.get_device_name() if demo.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    facts = {
        "command": f"fourierscale demo --limit {demo.settings.limit}",
        "weights": "those that ship with the package; 'fourierscale train --config mnist-best' trains such",
        "data": f"{demo.splits.source}; {demo.splits.note}",
        "device": f"{device}, {platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "parameters": "; ".join(f"{entry.name} {entry.parameters:,}" for entry in demo.entries),
        "times": "; ".join(f"{title} {seconds:.0f} s" for title, seconds in demo.seconds.items()),
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
    return "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
