"""Numbers are never broken over two lines: a hook of mkdocs, named in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"(?<![\w.-])\d[\d.,]*(?:(?:e[-+]?|[-\u2013±/])\d[\d.,]*)+")  # 2.0e-13, 8-27, 0.99±0.01
KEPT = re.compile(r"(<(pre|code|svg|script)\b.*?</\2>|<[^>]+>)", re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs for each page.

    >>> on_page_content("<td>2.0e-13</td>")
    '<td><span class="number">2.0e-13</span></td>'
    """
    parts = KEPT.split(html)  # text, what is kept, the name of its tag, text, ...
    for place in range(0, len(parts), 3):
        parts[place] = NUMBER.sub(r'<span class="number">\g<0></span>', parts[place])
    return "".join(part for place, part in enumerate(parts) if place % 3 < 2)
