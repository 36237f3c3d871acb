"""Line charts and heat maps as inline SVG: they take their colours from the page, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

__all__ = ["Scale", "Series", "error_map", "heat_map", "line_chart", "share_map"]

WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 40


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes:
        key: Class of the line; the page gives it a colour.
        points: Values by position; ``None`` leaves a gap.
    """

    key: str
    points: Mapping[float, float | None]


Scale: TypeAlias = Literal["linear", "log", "nines"]
"""How values become heights: as they are, by their logarithm, or shares by that of what they lack to 1."""
NINES = (0.999, 0.998, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.2, 0.0)


def line_chart(
    series: Sequence[Series], x_label: str, y_label: str, scale: Scale = "linear", whole: bool = False
) -> str:
    """Lines over a common axis.

    Args:
        series: What to draw; a series without points is left out.
        x_label: Under the chart.
        y_label: Its description, for readers who cannot see it too.
        scale: Of the values; of a logarithmic one, values that are 0 or less are left out.
        whole: Positions are counted: a tick at each of them, if they are few.
    """
    lines = [(s.key, _drawable(s.points, scale)) for s in series]
    lines = [(key, points) for key, points in lines if points]
    if not lines:
        return "<p>There is nothing to draw: no image was tested.</p>"
    xs = [x for _, points in lines for x, _ in points]
    ys = [_height(y, scale) for _, points in lines for _, y in points]
    x_range, y_range = _padded(min(xs), max(xs), 0.0), _padded(min(ys), max(ys), 0.06)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_range[0]) / (x_range[1] - x_range[0])
        up = (_height(y, scale) - y_range[0]) / (y_range[1] - y_range[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)} over {escape(x_label)}">']
    for value in {"linear": _ticks, "log": _log_ticks, "nines": _nines}[scale](*y_range):
        _, y = place(x_range[0], value)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for value in sorted(set(xs)) if whole and len(set(xs)) <= 12 else _ticks(*x_range):
        x = place(value, lines[0][1][0][1])[0]
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{value:.4g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    for key, points in lines:
        placed = [place(x, y) for x, y in points]
        parts.append(f'<polyline class="line {key}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in placed)}"/>')
        radius = 3 if len(points) <= 30 else 1.5  # many dots would hide the lines
        for (x, y), (at, value) in zip(placed, points, strict=True):
            title = f"<title>{at:.4g}: {value:.4g}</title>"
            parts.append(f'<circle class="dot {key}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{title}</circle>')
    return "".join([*parts, "</svg>"])


def heat_map(
    values: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], marked: int | None = None
) -> str:
    """Cells from 0 (empty) to 1 (full), with one column marked.

    >>> heat_map([[0.25, 0.75]], ["8 px"], ["a", "b"]).count("<rect")
    2
    """
    cell, left, top = 20, 46, 20
    width, height = left + cell * len(columns) + 2, top + cell * len(rows) + 2
    parts = [f'<svg class="heat" viewBox="0 0 {width} {height}" role="img" aria-label="probability of each class">']
    for j, name in enumerate(columns):
        style = ' class="marked"' if j == marked else ""
        x = left + cell * (j + 0.5)
        parts.append(f'<text{style} x="{x:.0f}" y="{top - 6}" text-anchor="middle">{escape(name)}</text>')
    for i, (name, row) in enumerate(zip(rows, values, strict=True)):
        y = top + cell * i
        parts.append(f'<text x="{left - 6}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        for j, value in enumerate(row):
            kind = "cell right" if j == marked else "cell"
            parts.append(
                f'<rect class="{kind}" x="{left + cell * j}" y="{y}" width="{cell - 2}" height="{cell - 2}" '
                f'fill-opacity="{max(value, 0.04):.3f}"><title>{escape(columns[j])}: {value:.4f}</title></rect>'
            )
    return "".join([*parts, "</svg>"])


def error_map(errors: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], key: str) -> str:
    """Cells by their power of ten, from 1e-16 or less (empty) to 1 or more (full), with the largest of each row.

    >>> error_map([[1e-13, 1e-12]], ["layer 1"], ["8", "9"], "ours").count("<rect")
    2
    """

    def cell(error: float) -> str:
        return f'class="error" fill-opacity="{max(min(1 + math.log10(max(error, 1e-30)) / 16, 1.0), 0.04):.3f}"'

    largest = [f"{max(row):.0e}" for row in errors]
    return _cells(errors, rows, columns, largest, f"heat {key}", "error of each layer", cell)


def share_map(
    shares: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], ends: Sequence[str], key: str
) -> str:
    """Cells by the root of their share; what is exactly zero looks different from what is small.

    >>> share_map([[0.75, 0.25, 0.0]], ["0"], ["0", "1", "2"], ["25 %"], "cnn").count('class="zero"')
    1
    """

    def cell(share: float) -> str:
        return f'class="error" fill-opacity="{max(math.sqrt(share), 0.06):.3f}"' if share else 'class="zero"'

    return _cells(shares, rows, columns, ends, f"heat {key}", "share of each column in each line", cell)


def _cells(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    ends: Sequence[str],
    classes: str,
    label: str,
    cell: Callable[[float], str],
) -> str:
    """A matrix with names above and to the left, and a word behind each row; ``cell`` gives a value's attributes."""
    side, right, top = 20, 52, 20
    left = max(56, 12 + 7 * max(map(len, rows), default=0))
    width, height = left + side * len(columns) + right, top + side * len(rows) + 2
    parts = [f'<svg class="{classes}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    for j, name in enumerate(columns):
        parts.append(f'<text x="{left + side * j + side / 2 - 1:.0f}" y="{top - 6}" text-anchor="middle">{name}</text>')
    for i, (name, end, row) in enumerate(zip(rows, ends, values, strict=True)):
        y = top + side * i
        parts.append(f'<text x="{left - 6}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<text x="{left + side * len(columns) + 4}" y="{y + 14}">{end}</text>')
        for j, value in enumerate(row):
            parts.append(
                f'<rect {cell(value)} x="{left + side * j}" y="{y}" width="{side - 2}" height="{side - 2}">'
                f"<title>{escape(name)}, {columns[j]}: {value:.1e}</title></rect>"
            )
    return "".join([*parts, "</svg>"])


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
    """1, 2 and 5 times powers of ten; of a range of many powers the powers alone, of a short one equal steps.

    >>> _log_ticks(-1, 1), _log_ticks(math.log10(1.2), math.log10(1.9))
    ([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0], [1.2, 1.4, 1.6, 1.8])
    """
    if high - low < 0.5:
        return _ticks(10**low, 10**high)
    steps = (1, 2, 5) if high - low < 2.5 else (1,)
    values = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [value for value in values if low <= math.log10(value) <= high]


def _nines(low: float, high: float) -> list[float]:
    """Shares in a range of heights, as many as can be read.

    >>> _nines(0.0, 2.0)
    [0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.2]
    """
    ticks: list[float] = []
    for share in NINES:
        height = _height(share, "nines")
        if low <= height <= high and (not ticks or _height(ticks[-1], "nines") - height > (high - low) / 16):
            ticks.append(share)
    return ticks
