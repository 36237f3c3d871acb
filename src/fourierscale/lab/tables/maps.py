"""Feature maps with a slider, the error of each layer, what depends on what: the computed part of the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from fourierscale.lab.tables.figures import Figures
from fourierscale.lab.tables.structure import Structure
from fourierscale.pages.charts import error_map, share_map
from fourierscale.pages.pictures import BothWays, png

__all__ = ["layer_section", "map_section", "structure_section"]

START = 12
KINDS = {"gaussian": "Gaussian"}  # named after a person; other kinds are words
NETS = (("cnn", "small CNN"), ("ours", "ours"))


def map_section(figures: Sequence[Figures]) -> str:
    """The digit, and for both nets the features of the small image beside the small features of the image."""
    boxes = "".join(f"<h3>{escape(_title(part))}</h3>{_slider(part)}" for part in figures)
    return (
        '<section id="maps"><h2>Feature maps at every resolution</h2>'
        "<p>Of the weights that ship, the channel of the last layer that varies most. In each pair, left: features of "
        "the downscaled image; right: downscaled features of the image. The CNN takes one size only, so a smaller "
        "image reaches it padded with black; it was trained on ideally downscaled digits, ours on those shown. "
        '<span class="screen">Move the slider.</span></p>'
        f"{boxes}</section>"
    )


def _title(figures: Figures) -> str:
    told = "exact for ours" if figures.kind == "ideal" else "which aliases: no net can be exact"
    return f"{figures.kind.capitalize()} downscaling, {told}"


def _slider(figures: Figures) -> str:
    """All pictures are in the page as data; a slider chooses among them."""
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
        f'<div class="card" data-maps><label class="slider">resolution <output data-tell="resolution">'
        f'{first["resolution"]}</output> px<input type="range" min="0" max="{last}" value="{start}" step="1" '
        f'aria-label="resolution"></label><div class="maps"><figure><img data-show="digit" alt="the digit" '
        f'src="{first["digit"]}"><figcaption>the image</figcaption></figure>{pairs}</div>'
        f'<script type="application/json">{data}</script></div>'
    )


def layer_section(figures: Sequence[Figures]) -> str:
    """Equivariance error, layer by resolution."""
    cards = []
    for part in figures:
        names = [str(resolution) for resolution in part.resolutions]
        for key, name in NETS:
            errors = (part.cnn if key == "cnn" else part.ours).errors
            rows = [f"layer {number + 1}" for number in range(len(errors))]
            heading = f"<h3>{escape(name)}, {KINDS.get(part.kind, part.kind)} downscaling</h3>"
            cards.append(f'<div class="card">{heading}{error_map(errors, rows, names, key)}</div>')
    return (
        '<section id="layers"><h2>Equivariance error, layer by resolution</h2>'
        f"<p>Relative squared difference between features of digits downscaled from {figures[0].size} pixels and "
        f"downscaled features, {figures[0].digits} test digits in single precision. The fuller a cell, the larger its "
        f"power of ten, from 1e-16 to 1; at the right the largest of each layer.</p>{''.join(cards)}</section>"
    )


def structure_section(structures: Sequence[Structure]) -> str:
    """Which frequencies depend on which: the paper's Claim 1."""
    cards = []
    for part in structures:
        rows, columns = ([str(k) for k in range(len(lines))] for lines in (part.shares, part.shares[0]))
        ends = ["0" if share == 0 else f"{share:.0%}" for share in part.beyond()]
        picture = share_map(part.shares, rows, columns, ends, part.key)
        cards.append(f'<div class="card"><h3>{escape(part.name)}</h3>{picture}</div>')
    lowest = structures[0].levels[0]
    return (
        '<section id="structure"><h2>Which frequencies depend on which</h2>'
        "<p>The paper's Claim 1: a net is scale-equivariant if no frequency of its output depends on a finer one of "
        "its input. Measured here by differentiating at one digit, in double precision. Each line is a frequency of "
        "the output (the larger of both axes'), each column one of the input; the fuller a cell, the larger its share "
        "of the line. Grey: the derivative is exactly zero. At the right, the share of what lies beyond the level of "
        f"the line: the frequencies up to {lowest} are one level, every one after them is its own.</p>"
        f'<div class="two">{"".join(cards)}</div></section>'
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
