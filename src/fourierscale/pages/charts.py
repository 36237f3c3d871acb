"""Line charts and heat maps as inline SVG: they take their colours from the page, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

from fourierscale.pages.elements import legend, row, table

__all__ = ["Scale", "Series", "error_map", "heat_map", "line_chart", "share_map"]

WIDTH, HEIGHT = 440, 280
RIGHT, TOP, BOTTOM = 12, 14, 40
SIDE = 20  # of a cell of a heat map


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes:
        key: Class of the line; the page gives it a colour.
        points: Values by position; ``None`` leaves a gap.
        name: For the legend.
    """

    key: str
    points: Mapping[float, float | None]
    name: str = ""


Scale: TypeAlias = Literal["linear", "log", "nines"]
"""How values become heights: as they are, by their logarithm, or shares by that of what they lack to 1."""
NINES = (0.999, 0.998, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.2, 0.0)


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    scale: Scale = "linear",
    whole: bool = False,
    named: bool = True,
) -> str:
    """Lines over a common axis, below their legend; a table where there is one position alone.

    Args:
        series: What to draw; a series without points is left out.
        x_label: Under the chart.
        y_label: Its description, for readers who cannot see it too.
        scale: Of the values; of a logarithmic one, values that are 0 or less are left out.
        whole: Positions are counted: a tick at each of them, if they are few.
        named: Whether there is a legend, of the lines that have names.
    """
    lines = [(s, points) for s in series if (points := _drawable(s.points, scale))]
    if not lines:
        return "<p>There is nothing to draw: no image was tested.</p>"
    names = legend((s.key, s.name) for s, _ in lines if s.name) if named else ""
    xs = sorted({x for _, points in lines for x, _ in points})
    if len(xs) == 1:
        figures = (row(s.name or y_label, f"{points[0][1]:.4g}", colour=s.key) for s, points in lines)
        return table(["", f"{x_label} {xs[0]:.4g}"], figures)
    ys = [_height(y, scale) for _, points in lines for _, y in points]
    (left, right), (low, high) = (xs[0], xs[-1]), _padded(min(ys), max(ys), 0.06)
    ticks = {"linear": _ticks, "log": _log_ticks, "nines": _nines}[scale](low, high)
    margin = 14 + 7 * max((len(f"{value:.4g}") for value in ticks), default=0)

    def across(x: float) -> float:
        return margin + (x - left) / (right - left) * (WIDTH - margin - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (_height(y, scale) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)} over {escape(x_label)}">']
    for value in ticks:
        y = up(value)
        parts.append(f'<line class="rule" x1="{margin}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(margin - 7, y + 4, f"{value:.4g}", "end"))
    for value in xs if whole and len(xs) <= 12 else _ticks(left, right):
        parts.append(_text(across(value), HEIGHT - BOTTOM + 17, f"{value:.4g}", "middle"))
    parts.append(_text((margin + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle"))
    for s, points in lines:
        placed = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line {s.key}" points="{placed}"/>')
        radius = 3 if len(points) <= 30 else 1.5  # many dots would hide the lines
        for x, y in points:
            title = f"<title>{x:.4g}: {y:.4g}</title>"
            parts.append(
                f'<circle class="dot {s.key}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="{radius}">{title}</circle>'
            )
    return names + "".join([*parts, "</svg>"])


def heat_map(
    values: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], marked: int | None = None
) -> str:
    """Cells from 0 (empty) to 1 (full), with one column marked.

    >>> heat_map([[0.25, 0.75]], ["8 px"], ["a", "b"]).count("<rect")
    2
    """

    def cell(value: float, column: int) -> str:
        return f'class="{"ours" if column == marked else "cnn"}" fill-opacity="{max(value, 0.04):.3f}"'

    return _cells(values, rows, columns, [""] * len(rows), "probability of each class", cell, marked)


def error_map(errors: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], key: str) -> str:
    """Cells by their power of ten, with the largest of each row; what is empty and what is full is said below.

    >>> error_map([[1e-13, 1e-12]], ["layer 1"], ["8", "9"], "ours").count("<rect")
    2
    """
    least = min((error for line in errors for error in line if error > 0), default=1.0)
    power = min(-4, max(-16, 4 * math.floor(math.log10(least) / 4)))  # what is empty

    def cell(error: float, column: int) -> str:
        share = 1 - math.log10(max(error, 1e-30)) / power
        return f'class="error {key}" fill-opacity="{max(min(share, 1.0), 0.04):.3f}"'

    largest = [f"{max(line):.0e}" for line in errors]
    below = f"<small>empty: 1e{power} or less; full: 1 or more</small>"
    return _cells(errors, rows, columns, largest, "error of each layer", cell) + below


def share_map(
    shares: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], ends: Sequence[str], key: str
) -> str:
    """Cells by the root of their share; what is exactly zero looks different from what is small.

    >>> share_map([[0.75, 0.25, 0.0]], ["0"], ["0", "1", "2"], ["25 %"], "cnn").count('class="zero"')
    1
    """

    def cell(share: float, column: int) -> str:
        return f'class="{key}" fill-opacity="{max(math.sqrt(share), 0.06):.3f}"' if share else 'class="zero"'

    return _cells(shares, rows, columns, ends, "share of each column in each line", cell)


def _cells(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    ends: Sequence[str],
    label: str,
    cell: Callable[[float, int], str],
    marked: int | None = None,
) -> str:
    """A matrix with names above and to the left, and a word behind each row; ``cell`` gives a value's attributes."""
    left, right = (7 * max(map(len, names), default=0) + (14 if any(names) else 2) for names in (rows, ends))
    width, height, top = left + SIDE * len(columns) + right, 20 + SIDE * len(rows) + 2, 20
    parts = [f'<svg class="heat" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    every = math.ceil(7 * max(map(len, columns), default=0) / SIDE)  # where names are long there is room for some
    for j, name in enumerate(columns):
        if j % every == 0:
            kind = "marked" if j == marked else ""
            parts.append(_text(left + SIDE * j + SIDE / 2 - 1, top - 6, name, "middle", kind))
    for i, (name, end, line) in enumerate(zip(rows, ends, values, strict=True)):
        y = top + SIDE * i
        parts += [_text(left - 6, y + 14, name, "end"), _text(left + SIDE * len(columns) + 4, y + 14, end, "start")]
        for j, value in enumerate(line):
            title = f"<title>{escape(name)}, {escape(columns[j])}: {value:.3g}</title>"
            place = f'x="{left + SIDE * j}" y="{y}" width="{SIDE - 2}" height="{SIDE - 2}"'
            parts.append(f"<rect {cell(value, j)} {place}>{title}</rect>")
    return "".join([*parts, "</svg>"])


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>' if text else ""


def _drawable(points: Mapping[float, float | None], scale: Scale) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points.items() if y is not None and math.isfinite(y) and (y > 0 or scale != "log")]


def _height(value: float, scale: Scale) -> float:
    """What is drawn for a value; a share of 1, which lacks nothing, stands at the highest tick.

    >>> round(_height(0.99, "nines"), 9), _height(1.0, "nines") == _height(0.999, "nines")
    (2.0, True)
    """
    if scale == "linear":
        return value
    return math.log10(value) if scale == "log" else -math.log10(max(1 - value, 1 - NINES[0]))


def _padded(low: float, high: float, share: float) -> tuple[float, float]:
    room = (high - low) * share or (0.5 if high == low else 0.0)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough)
    return [round(number * step, 10) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; of a range of many powers some of them alone, of a short one equal steps.

    >>> _log_ticks(-1, 1), _log_ticks(math.log10(1.2), math.log10(1.9))
    ([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0], [1.2, 1.4, 1.6, 1.8])
    """
    if high - low < 0.5:
        return _ticks(10**low, 10**high)
    steps, every = (1, 2, 5) if high - low < 2.5 else (1,), math.ceil((high - low) / 9)
    powers = (power for power in range(math.floor(low), math.ceil(high) + 1) if power % every == 0)
    values = [step * 10.0**power for power in powers for step in steps]
    return [value for value in values if low <= math.log10(value) <= high]


def _nines(low: float, high: float) -> list[float]:
    """Shares in a range of heights, as many as can be read; of a short range equal steps.

    >>> _nines(0.0, 2.0)
    [0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.2]
    >>> _nines(-math.log10(1 - 0.922), -math.log10(1 - 0.949))
    [0.93, 0.94]
    """
    ticks: list[float] = []
    for share in NINES:
        height = _height(share, "nines")
        if low <= height <= high and (not ticks or _height(ticks[-1], "nines") - height > (high - low) / 16):
            ticks.append(share)
    return ticks if len(ticks) > 1 else _ticks(1 - 10**-low, 1 - 10**-high)
