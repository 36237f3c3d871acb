"""Docstrings for the site: examples as code, roles as names, formulas as pictures that need no script and no network.

The docstrings are written as the rest of the scientific Python world writes them, with ``.. math::`` and ``:func:``.
mkdocstrings reads Markdown. This extension of griffe, which mkdocs.yml names, translates.
"""

from __future__ import annotations

import functools
import html
import re
from typing import Any

import griffe
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.path import Path
from matplotlib.textpath import TextPath

UNITS = 100  # of the drawing, per em
WORDS = {  # what TeX knows and matplotlib does not, or not in this form
    r"\\tfrac\s*(\w)(\w)": r"\\frac{\1}{\2}",
    r"\\tfrac": r"\\frac",
    r"\\[lr]Vert": r"\\|",
    r"\\[lr]vert": "|",
    r"\\[bB]ig[lr]?(?![a-z])": "",
    r"\\(mathcal|mathbb|sqrt|hat)\s*(\w)": r"\\\1{\2}",
    r"\\([lg])e(?![a-z])": r"\\\1eq",
    r"\^\\top": r"^{\\mathsf{T}}",
    r"\\frac(\w)": r"\\frac{\1}",
    r"\\(operatorname|text)\{([^}]*)\}": lambda m: r"\mathrm{" + m[2].replace(" ", r"\ ") + "}",
}


class DocstringsAsMarkdown(griffe.Extension):
    """Translates each docstring as griffe finds it."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """A docstring with its examples, formulas and roles in Markdown.

    A formula that matplotlib cannot set is a ``ValueError``.

    >>> to_markdown("See :func:`~fourierscale.functional.crop`.")
    'See `functional.crop`.'
    """
    text = re.sub(r"^( *)\.\. math::((?:.*\n?)(?:\1 +\S.*\n?)*)", _display, text, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]*)`", lambda m: formula(m[1]), text)
    text = re.sub(r":[a-z]+:`~?([^`]*)`", lambda m: f"`{m[1].removeprefix('fourierscale.')}`", text)
    return re.sub(r"^( *)>>> .*(?:\n\1 *\S.*)*", _example, text, flags=re.MULTILINE)


def _display(match: re.Match[str]) -> str:
    parts = re.split(r",?\s*\\qquad\s*", " ".join(match[2].split()))  # wide formulas: one line for each
    lines = "".join(f"<span class='formula'>{formula(part)}</span>" for part in parts)
    return f"{match[1]}{lines}\n"


def _example(match: re.Match[str]) -> str:
    return f"{match[1]}```python\n{match[0]}\n{match[1]}```"


@functools.cache
def formula(tex: str) -> str:
    """A formula as an inline SVG in the colour and at the size of the text around it."""
    source = f"${' '.join(tex.split())}$"
    for pattern, replacement in WORDS.items():
        source = re.sub(pattern, replacement, source)
    font = FontProperties(size=UNITS, math_fontfamily="dejavuserif")
    width, height, depth, _, _ = MathTextParser("path").parse(source, dpi=72, prop=font)
    outline = _outline(TextPath((0, 0), source, prop=font))
    box = f"0 {-(height - depth):.0f} {width:.0f} {height:.0f}"
    style = f"height:{height / UNITS:.2f}em;width:{width / UNITS:.2f}em;vertical-align:{-depth / UNITS:.2f}em"
    label = html.escape(tex, quote=True).replace("\\", "&#92;").replace("_", "&#95;").replace("*", "&#42;")
    return (
        f'<svg class="maths" role="img" aria-label="{label}" viewBox="{box}" style="{style}">'
        f'<path fill="currentColor" d="{outline}"/></svg>'
    )


def _outline(path: TextPath) -> str:
    """The letters as an SVG path; y points down there."""
    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
    steps = []
    for points, code in path.iter_segments(simplify=False, curves=True):
        pairs = [] if code == Path.CLOSEPOLY else zip(points[::2], -points[1::2], strict=True)
        steps.append(letters[code] + " ".join(f"{x:.0f},{y:.0f}" for x, y in pairs))
    return "".join(steps)
