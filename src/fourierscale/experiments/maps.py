"""Feature maps with a slider over resolution, and the error of each layer: the computed part of the report."""

from __future__ import annotations

import json
from html import escape

from fourierscale.demo.charts import error_map
from fourierscale.demo.pictures import BothWays, png
from fourierscale.experiments.figures import Figures

__all__ = ["layer_section", "map_section"]

START = 12
NETS = (("cnn", "small CNN"), ("ours", "ours, shipped weights"))


def map_section(figures: Figures) -> str:
    """The digit, and for both nets the features of the small image beside the small features of the image.

    All pictures are in the page as data; a slider chooses among them.
    """
    states = []
    for number, resolution in enumerate(figures.resolutions):
        state = {"resolution": resolution, "digit": png(figures.digit[number].cpu())}
        for key, maps in (("cnn", figures.cnn.maps), ("ours", figures.ours.maps)):
            state |= _pair(key, maps[number])
        states.append(state)
    start = min(range(len(states)), key=lambda number: abs(figures.resolutions[number] - START))
    first, last = states[start], len(states) - 1
    pairs = "".join(
        f'<figure class="pair"><img data-show="{key}-small" alt="{name}: features of the downscaled image" '
        f'src="{first[f"{key}-small"]}"><img data-show="{key}-shrunk" alt="{name}: downscaled features of the image" '
        f'src="{first[f"{key}-shrunk"]}"><figcaption>{name}: difference <b data-tell="{key}-error" '
        f'class="{first[f"{key}-class"]}">{first[f"{key}-error"]}</b></figcaption></figure>'
        for key, name in NETS
    )
    data = json.dumps(states).replace("</", "<\\/")
    return (
        '<section id="maps"><h2>Feature maps at every resolution</h2>'
        "<p>The channel of the last layer that varies most. In each pair, left: features of the downscaled image; "
        "right: downscaled features of the image. The CNN takes one size only, so a smaller image reaches it padded "
        'with black. <span class="screen">Move the slider.</span></p>'
        f'<div class="card" data-maps><label class="slider">resolution <output data-tell="resolution">'
        f'{first["resolution"]}</output> px<input type="range" min="0" max="{last}" value="{start}" step="1" '
        f'aria-label="resolution"></label><div class="maps"><figure><img data-show="digit" alt="the digit" '
        f'src="{first["digit"]}"><figcaption>the image</figcaption></figure>{pairs}</div>'
        f'<script type="application/json">{data}</script></div></section>'
    )


def layer_section(figures: Figures) -> str:
    """Equivariance error, layer by resolution."""
    names = [str(resolution) for resolution in figures.resolutions]
    cards = []
    for key, name in NETS:
        errors = (figures.cnn if key == "cnn" else figures.ours).errors
        rows = [f"layer {number + 1}" for number in range(len(errors))]
        cards.append(f'<div class="card"><h3>{escape(name)}</h3>{error_map(errors, rows, names, key)}</div>')
    return (
        '<section id="layers"><h2>Equivariance error, layer by resolution</h2>'
        f"<p>Relative squared difference between features of digits downscaled from {figures.size} pixels and "
        f"downscaled features, {figures.digits} test digits in single precision. The fuller a cell, the larger its "
        f"power of ten, from 1e-16 to 1; at the right the largest of each layer.</p>{''.join(cards)}</section>"
    )


def _pair(key: str, both: BothWays) -> dict[str, str | int]:
    low = float(min(both.of_small.min(), both.shrunk.min()))
    high = float(max(both.of_small.max(), both.shrunk.max()))
    return {
        f"{key}-small": png(both.of_small, low, high, "magma"),
        f"{key}-shrunk": png(both.shrunk, low, high, "magma"),
        f"{key}-error": f"{both.error:.0e}",
        f"{key}-class": "good" if both.error < 1e-6 else "bad",
    }
