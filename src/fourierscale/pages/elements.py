"""What every page is made of: the skeleton, and elements as text. Arguments called ``text`` or ``name`` are escaped."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources

from torch import Tensor

__all__ = [
    "card",
    "facts",
    "legend",
    "pair",
    "pair_state",
    "png",
    "row",
    "said",
    "section",
    "skeleton",
    "spread",
    "swatch",
    "table",
    "two",
]

EXACT = 1e-6
"""Relative squared errors below it are shown as good."""

POWER = re.compile(r"\d[\d.]*e[+-]\d+")


def skeleton(title: str, *content: str, heading: str = "", script: str = "", kind: str = "") -> str:
    """A whole page that needs nothing from outside.

    Args:
        title: Text of the window's title.
        content: HTML, one piece after the other.
        heading: Text of the headline; the title if not given.
        script: Elements behind the content.
        kind: Class of the body.
    """
    style = (resources.files("fourierscale.pages") / "style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>fourierscale: {escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body class="{kind}">
<main>
<h1>{escape(heading or title)}</h1>
{chr(10).join(content)}
</main>
{script}
</body>
</html>
"""


def said(text: str) -> str:
    """Text in which no power of ten is broken.

    >>> said("below <1e-13>")
    'below &lt;<span class="number">1e-13</span>&gt;'
    """
    return POWER.sub(lambda found: f'<span class="number">{found[0]}</span>', escape(text))


def section(title: str, *content: str, key: str = "") -> str:
    """A headline and what belongs to it."""
    start = f'<section id="{key}">' if key else "<section>"
    return f"{start}<h2>{escape(title)}</h2>{''.join(content)}</section>"


def card(title: str, *content: str) -> str:
    """A box with a small headline."""
    return f'<div class="card"><h3>{escape(title)}</h3>{"".join(content)}</div>'


def two(*cards: str) -> str:
    """Boxes side by side where there is room."""
    return f'<div class="two">{"".join(cards)}</div>'


def table(head: Iterable[str], rows: Iterable[str]) -> str:
    """A table in a box that scrolls; the head is text."""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if names else ""
    return f'<div class="card scroll"><table>{top}<tbody>{"".join(rows)}</tbody></table></div>'


def row(name: str, *cells: object, note: str = "", kind: str = "", colour: str = "") -> str:
    """A line of a table: a name, a remark below it, a swatch before it, and cells of HTML."""
    below = f"<small>{said(note)}</small>" if note else ""
    start = f'<tr class="{kind}">' if kind else "<tr>"
    own = f'<th scope="row">{colour and swatch(colour)}{escape(name)}{below}</th>'
    return f"{start}{own}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def spread(text: str) -> str:
    """A figure and its spread, which stands below it where there is little room.

    >>> spread("0.99 ± 0.01"), spread("-")
    ('0.99 <span class="spread">± 0.01</span>', '-')
    """
    mean, _, rest = escape(text).partition(" ± ")
    return f'{mean} <span class="spread">± {rest}</span>' if rest else mean


def swatch(key: str) -> str:
    """A spot of a line's colour."""
    return f'<i class="swatch {key}"></i>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    """Keys of lines and their names."""
    entries = "".join(f"<span>{swatch(key)}{escape(name)}</span>" for key, name in names)
    return f'<div class="legend">{entries}</div>' if entries else ""


def facts(values: Mapping[str, str]) -> str:
    """Names and what is to be said of each, as text."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in values.items())
    return f'<div class="card"><dl>{lines}</dl></div>'


def pair_state(key: str, of_small: Tensor, shrunk: Tensor, error: float) -> dict[str, str]:
    """Features of the downscaled image and downscaled features of the image as pictures in the same colours."""
    low, high = float(min(of_small.min(), shrunk.min())), float(max(of_small.max(), shrunk.max()))
    return {
        f"{key}-small": png(of_small, low, high, "magma"),
        f"{key}-shrunk": png(shrunk, low, high, "magma"),
        f"{key}-error": f"{error:.0e}",
        f"{key}-class": "good" if error < EXACT else "bad",
    }


def pair(key: str, name: str, state: Mapping[str, object]) -> str:
    """Both pictures side by side; a script may show another state."""
    whats = {"small": "features of the downscaled image", "shrunk": "downscaled features of the image"}
    pictures = "".join(
        f'<img data-show="{key}-{part}" alt="{name}: {what}" title="{name}: {what}" src="{state[f"{key}-{part}"]}">'
        for part, what in whats.items()
    )
    told = f'<b data-tell="{key}-error" class="{state[f"{key}-class"]}">{state[f"{key}-error"]}</b>'
    return f'<figure class="pair">{pictures}<figcaption>{name}: difference {told}</figcaption></figure>'


def png(values: Tensor, low: float | None = None, high: float | None = None, colours: str | None = None) -> str:
    """A map ``(m, n)`` or an image ``(C, m, n)`` as a PNG in the text of a ``data:`` address.

    Args:
        values: What to draw.
        low: Value of the darkest colour; the smallest value if not given.
        high: Value of the brightest; the largest if not given.
        colours: Name of a colour map of matplotlib for a map; grey or as the channels say if not given.
    """
    from PIL import Image

    x = values.detach().double().cpu()
    bottom, top = float(x.min() if low is None else low), float(x.max() if high is None else high)
    shares = ((x - bottom) / max(top - bottom, 1e-12)).clamp(0, 1)
    if colours is None:
        pixels = (255 * shares).round().byte().numpy()
        pixels = pixels if x.ndim == 2 else pixels[0] if len(x) == 1 else pixels.transpose(1, 2, 0)
    else:
        from matplotlib import colormaps

        pixels = colormaps[colours](shares.numpy(), bytes=True)[..., :3]
    buffer = io.BytesIO()
    Image.fromarray(pixels.copy()).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
