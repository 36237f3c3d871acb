"""The page as one file that needs nothing from outside."""

from __future__ import annotations

import json
from importlib import resources
from string import Template
from typing import Any

from fourierscale.pages.elements import said, skeleton

__all__ = ["build_page", "read_part"]

OURS = (
    "Move the slider: the features of the small image are the small features of the image, and the answers of every "
    "size come out of one pass."
)
OTHER = "Move the slider: are the features of the small image the small features of the image?"
BESIDE = " A plain CNN sees another picture at each size."
SINGLE = "In single precision anything near 1e-13 is rounding."


def build_page(about: dict[str, Any], engine: str | None = None, precision: str = SINGLE) -> str:
    """HTML of the page.

    Args:
        about: What the page must know about the nets: :meth:`fourierscale.lab.explore.Viewer.about`.
        engine: Elements that define ``engine``, which answers looks; by default questions to the server.
        precision: A sentence about the size of rounding.
    """
    grey, keys = about["channels"] == 1, [net["key"] for net in about["nets"]]
    body = Template(read_part("body.html")).substitute(
        lead=OTHER if keys[0] != "ours" else OURS + BESIDE * ("cnn" in keys),
        pad_label="draw here with a mouse or a finger, or drop a picture" if grey else "drop a picture here",
        precision=said(precision),
    )
    data = json.dumps(about).replace("</", "<\\/")
    scripts = "\n".join(read_part(name) for name in ("pad.js", "views.js", "page.js"))
    elements = (
        f'<script type="application/json" id="about">{data}</script>',
        engine or f"<script>\n{read_part('remote.js')}</script>",
        f"<script>\n{scripts}</script>",
    )
    return skeleton(
        "explore",
        body,
        heading="Draw, then change the size" if grey else "Choose a picture, then change its size",
        script="\n".join(elements),
        kind="explore",
    )


def read_part(name: str) -> str:
    """A file beside this one."""
    return (resources.files("fourierscale.lab.explore") / name).read_text(encoding="utf-8")
