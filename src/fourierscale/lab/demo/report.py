"""The page ``report.html``: one file that needs nothing from outside."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Literal

import torch

from fourierscale.functional import downscale
from fourierscale.lab.demo.lines import result_lines
from fourierscale.lab.demo.stages import Demo, Listener, Silent
from fourierscale.lab.tables.figures import both_ways, choose_digit
from fourierscale.models.files import write_whole
from fourierscale.models.saved import versions
from fourierscale.pages.charts import Series, heat_map, line_chart
from fourierscale.pages.elements import card, facts, pair, pair_state, png, row, section, skeleton, spread, table, two
from fourierscale.training.report import history_charts

__all__ = ["write_report"]

MAPS = (28, 19, 11)
KINDS = {"ours": "strong", "paper": "faint"}
DIGITS, AMONG = 6, 96  # how many digits are shown, among how many the hardest are looked for
LEAD = """<p class="lead">An image is a square of Fourier coefficients and downscaling crops its corner; a net whose
every layer writes in the corner only what the corner says gives exact features, and exact answers, at every
resolution.</p>"""
TABLE = """<p><small>± standard error. Scale-Con: how often an image's loss is no larger than that of its downscaled
versions. Equi-Err: relative squared difference between features of the downscaled image and downscaled features of the
image; in single precision, anything near <span class="number">1e-13</span> is rounding.</small></p>"""
FEATURES = """<p>The channel of the last layer that varies most. In each pair, left: features of the downscaled image;
right: downscaled features of the image. The CNN takes one size only, so a smaller image reaches it padded with
black.</p>"""


def write_report(demo: Demo, path: str | os.PathLike[str], listener: Listener | None = None) -> Path:
    """Write the page and return its path.

    Args:
        demo: What was measured.
        path: The file.
        listener: Told when it begins and ends.
    """
    listener = listener or Silent()
    listener.stage("write the report")
    started, resolutions = time.perf_counter(), demo.splits.protocol.resolutions
    lines = [
        row(line.name, *cells, note=line.origin, kind=KINDS.get(line.key, ""), colour=line.key)
        for line in result_lines(demo)
        for cells in [(spread(line.accuracy), spread(line.scale_con), line.equi_err)]
    ]
    text = skeleton(
        "the demo's results",
        LEAD,
        section(
            "Results",
            f"<p>MNIST digits, each at one resolution from {min(resolutions)} to {max(resolutions)} pixels; "
            f"{demo.entries[0].metrics['images']:,} of {len(demo.splits.test):,} test images, the same for each net "
            "measured here. The paper's figures are its own, as printed.</p>",
            table(("model", "accuracy", "Scale-Con", "Equi-Err"), lines),
            TABLE,
        ),
        section(
            "Over resolution",
            f"<p>Each of {demo.entries[0].metrics['images']:,} test digits at every resolution.</p>",
            two(
                card("accuracy", _over_resolution(demo, "accuracy")),
                card("cross entropy, lower is better", _over_resolution(demo, "loss")),
            ),
        ),
        section("Feature maps, both ways round", FEATURES, f'<div class="card">{"".join(_maps(demo))}</div>'),
        section(
            "One pass, an answer at every level",
            f"<p>What the shipped net says of test digits at {demo.size} pixels: the probability of each class from "
            "the coarsest level to the image itself, as if the digit had been downscaled. First three plain ones, then "
            f'the hardest when small.</p><div class="cards">{"".join(_digits(demo))}</div>',
        ),
        section(
            "Training, just now",
            f"<p>scalenet-tiny, {len(demo.epochs)} epochs over the training images. Its training loss is a sum over "
            "all levels, the validation loss that of the prediction alone.</p>",
            history_charts(demo.epochs, ("log", "nines")),
        ),
        section("How this was made", facts(_made(demo))),
        heading="Downscale the image or the features: the same numbers",
    )
    target = Path(path)
    write_whole(target, text)
    listener.done(time.perf_counter() - started)
    return target


def _over_resolution(demo: Demo, what: Literal["accuracy", "loss"]) -> str:
    series = [
        Series(entry.key, {size: both[what == "loss"] for size, both in entry.at_sizes.items()}, entry.name)
        for entry in demo.entries
    ]
    return line_chart(series, "resolution of the image in pixels", what, scale="log" if what == "loss" else "nines")


def _maps(demo: Demo) -> Iterator[str]:
    """The image, then for both nets the features of the small image and the small features of the image."""
    digit, shown = choose_digit(demo.splits), [r for r in MAPS if r <= demo.size]
    ours, _, cnn = (entry.model for entry in demo.entries)
    found = (both_ways(net, net.preprocessing or demo.splits.preprocessing, digit, shown) for net in (cnn, ours))
    for r, *both in zip(shown, *found, strict=True):
        small = downscale(digit, r, demo.splits.protocol.kind)[0, 0]
        image = f'<img alt="the digit at {r} pixels" src="{png(small)}"><figcaption>{r} &times; {r}</figcaption>'
        pairs = (
            pair(key, name, pair_state(key, *maps))
            for key, name, maps in zip(("cnn", "ours"), ("small CNN", "ours"), both, strict=True)
        )
        yield f'<div class="maps"><figure>{image}</figure>{"".join(pairs)}</div>'


@torch.inference_mode()
def _digits(demo: Demo) -> Iterator[str]:
    """Test digits at full resolution with their probabilities: half the first ones, half the hardest when small."""
    model, test, classes = demo.entries[0].model, demo.splits.test, [escape(name) for name in demo.splits.classes]
    images = test.images[torch.arange(min(AMONG, len(test)))].float() / 255
    x, labels = demo.splits.preprocessing(images).to(demo.device), test.labels[: len(images)].cpu()
    logits = torch.cat([model(part) for part in torch.split(x, 32)])
    answers = demo.splits.preprocessing.answers(logits, model.level_names(demo.size))
    shares = torch.stack([answer.probabilities for answer in answers])  # (B, L, classes)
    levels = [name if "," in name else f"{name} px" for name in answers[0].levels]
    easy = list(range(min(DIGITS - DIGITS // 2, len(x))))
    coarsest = shares[torch.arange(len(x)), 0, labels]
    hard = [item for item in coarsest.argsort().tolist() if item not in easy][: DIGITS // 2]
    for item in (*easy, *hard):
        label, last = int(labels[item]), shares[item, -1]
        best = int(last.argmax())
        told = f": {last[best]:.4f}" if best == label else f", taken for a {classes[best]}"
        heat = heat_map(shares[item].tolist(), levels, demo.splits.classes, label)
        image = f'<img alt="a test digit" src="{png(images[item], 0.0, 1.0)}">'
        caption = f"<figcaption>a {classes[label]}{told}</figcaption>"
        yield f'<figure><div class="beside">{image}{heat}</div>{caption}</figure>'


def _made(demo: Demo) -> dict[str, str]:
    device = torch.cuda.get_device_name() if demo.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return {
        "command": f"fourierscale demo --limit {demo.settings.limit}",
        "weights": "those that ship with the package; 'fourierscale train --config mnist-best' trains such",
        "data": f"{demo.splits.source}; {demo.splits.note}",
        "device": f"{device}, {platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "parameters": "; ".join(f"{entry.name} {entry.parameters:,}" for entry in demo.entries),
        "times": "; ".join(f"{title} {seconds:.0f} s" for title, seconds in demo.seconds.items()),
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
