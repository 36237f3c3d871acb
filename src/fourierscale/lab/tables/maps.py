"""Feature maps with a slider, the error of each layer, what depends on what: the computed part of the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from fourierscale.lab.tables.figures import Figures
from fourierscale.lab.tables.structure import Structure
from fourierscale.pages.charts import error_map, share_map
from fourierscale.pages.elements import card, pair, pair_state, png, section, two

__all__ = ["layer_section", "map_section", "structure_section"]

START = 12
KINDS = {"gaussian": "Gaussian"}  # named after a person; other kinds are words
NETS = (("cnn", "small CNN"), ("ours", "ours"))


def map_section(figures: Sequence[Figures]) -> str:
    """The digit, and for both nets the features of the small image beside the small features of the image."""
    about = (
        "<p>Of the weights that ship, the channel of the last layer that varies most. In each pair, left: features of "
        "the downscaled image; right: downscaled features of the image. The CNN takes one size only, so a smaller "
        "image reaches it padded with black; it was trained on ideally downscaled digits, ours on those shown. "
        '<span class="screen">Move the slider.</span></p>'
    )
    boxes = (f"<h4>{escape(_title(part))}</h4>{_slider(part)}" for part in figures)
    return section("Feature maps at every resolution", about, *boxes, key="maps")


def _title(figures: Figures) -> str:
    told = "exact for ours" if figures.kind == "ideal" else "which aliases: no net can be exact"
    return f"{figures.kind.capitalize()} downscaling, {told}"


def _slider(figures: Figures) -> str:
    """All pictures are in the page as data; a slider chooses among them."""
    states = []
    for number, resolution in enumerate(figures.resolutions):
        state = {"resolution": str(resolution), "digit": png(figures.digit[number])}
        for key, net in (("cnn", figures.cnn), ("ours", figures.ours)):
            state |= pair_state(key, *net.maps[number])
        states.append(state)
    start = min(range(len(states)), key=lambda number: abs(figures.resolutions[number] - START))
    first, last = states[start], len(states) - 1
    pairs = "".join(pair(key, name, first) for key, name in NETS)
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
    about = (
        f"<p>Relative squared difference between features of digits downscaled from {figures[0].size} pixels and "
        f"downscaled features, {figures[0].digits} test digits in single precision. The fuller a cell, the larger its "
        "power of ten; at the right the largest of each layer.</p>"
    )
    cards = []
    for part in figures:
        for key, name in NETS:
            errors = (part.cnn if key == "cnn" else part.ours).errors
            rows = [f"layer {number + 1}" for number in range(len(errors))]
            picture = error_map(errors, rows, [str(resolution) for resolution in part.resolutions], key)
            cards.append(card(f"{name}, {KINDS.get(part.kind, part.kind)} downscaling", picture))
    boxes = f'<div class="narrow">{"".join(cards)}</div>'
    return section("Equivariance error, layer by resolution", about, boxes, key="layers")


def structure_section(structures: Sequence[Structure]) -> str:
    """Which frequencies depend on which: the paper's Claim 1."""
    about = (
        "<p>The paper's Claim 1: a net is scale-equivariant if no frequency of its output depends on a finer one of "
        "its input. Measured here by differentiating at one digit, in double precision. Each line is a frequency of "
        "the output (the larger of both axes'), each column one of the input; the fuller a cell, the larger its share "
        "of the line. Grey: the derivative is exactly zero. At the right, the share of what lies beyond the level of "
        f"the line: the frequencies up to {structures[0].levels[0]} are one level, every one after them is its own.</p>"
    )
    cards = []
    for part in structures:
        rows, columns = ([str(k) for k in range(len(lines))] for lines in (part.shares, part.shares[0]))
        ends = ["0" if share == 0 else f"{share:.0%}" for share in part.beyond()]
        cards.append(card(part.name, share_map(part.shares, rows, columns, ends, part.key)))
    return section("Which frequencies depend on which", about, two(*cards), key="structure")
