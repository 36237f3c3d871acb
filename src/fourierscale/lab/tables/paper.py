"""The paper's tables as printed: what a result is shown beside.

The figures are in ``paper.csv``, by the number that the paper gives a table (``A`` is its appendix). A line that begins
with ``table`` names the columns of those below it: a metric, and behind an ``@`` what the table varies.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from importlib import resources

__all__ = ["OURS", "PAPER", "PaperRow", "PaperTable", "paper_rows"]

OURS = "Ours"


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    Attributes:
        number: As the paper counts it.
        columns: Names of the figures in each row.
        rows: Figures by the name that stands in front of them; ``None`` where the paper prints no figure.
    """

    number: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]] = field(default_factory=dict)

    def figure(self, row: str | None, column: str) -> float | None:
        """One figure; ``None`` where none is printed.

        >>> PAPER["1"].figure("DISCO", "equi_err")
        0.44
        """
        if row is None or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


def _read() -> dict[str, PaperTable]:
    tables: dict[str, PaperTable] = {}
    columns: tuple[str, ...] = ()
    text = (resources.files("fourierscale.lab.tables") / "paper.csv").read_text(encoding="utf-8")
    for number, row, *figures in csv.reader(text.splitlines()):
        if number == "table":
            columns = tuple(figures)
        else:
            table = tables.setdefault(number, PaperTable(number, columns))
            table.rows[row] = tuple(float(figure) if figure else None for figure in figures)
    return tables


PAPER = _read()
# The paper says Gaussian blur, its published code runs antialiased bicubic: its rows stand beside both.
PROTOCOLS = {
    "mnist-scale": "1",
    "mnist-scale-missing": "2",
    "mnist-scale-gaussian": "6",
    "mnist-scale-bicubic": "6",
    "stl10-scale": "4",
}


@dataclass(frozen=True)
class PaperRow:
    """The paper's figures for one model on one protocol."""

    model: str
    accuracy: float | None
    scale_con: float | None = None
    equi_err: float | None = None


def paper_rows(protocol: str) -> tuple[PaperRow, ...]:
    """The paper's rows for a protocol, the authors' own model last; empty if the paper has none.

    For fewer training images, Scale-Con of the authors' model is that of the table on the consistency loss.

    >>> paper_rows("mnist-scale")[-1]
    PaperRow(model='Ours', accuracy=0.9889, scale_con=0.9716, equi_err=0.0)
    >>> paper_rows("mnist-scale-1000")[-1]
    PaperRow(model='Ours', accuracy=0.9606, scale_con=0.8183, equi_err=None)
    """
    if protocol in PROTOCOLS:
        return tuple(PaperRow(model, *figures) for model, figures in PAPER[PROTOCOLS[protocol]].rows.items())
    fewer, count = PAPER["3"], protocol.removeprefix("mnist-scale-")
    if f"accuracy@{count}" not in fewer.columns:
        return ()
    consistency = PAPER["5"].figure(count, "scale_con@with")
    return tuple(
        PaperRow(model, fewer.figure(model, f"accuracy@{count}"), consistency if model == OURS else None)
        for model in fewer.rows
    )
