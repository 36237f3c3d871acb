"""What tables are made of: columns, rows, and the rows that several tables have.

A row names a preset and settings as ``fourierscale train --config PRESET --set SECTION.FIELD=VALUE`` takes them; a
column names what is measured and may add settings of its own (fewer training images, another padding).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fourierscale.lab.tables.paper import OURS, PaperTable
from fourierscale.models.registry import model_info

__all__ = ["COLOUR", "DIGITS", "EQUIVARIANT", "FOURIER", "TITLES", "Baseline", "Column", "Table", "TableRow"]

TITLES = {"accuracy": "Acc", "scale_con": "Scale-Con", "equi_err": "Equi-Err", "ece": "ECE"}


@dataclass(frozen=True)
class Column:
    """One figure of each row.

    Attributes:
        key: The paper's column: a metric, and behind an ``@`` what the table varies.
        title: Above the column.
        settings: On top of those of the row; columns with equal settings share a run.
    """

    key: str
    title: str
    settings: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """The name of the figure among a run's metrics."""
        return self.key.partition("@")[0]

    @property
    def variant(self) -> str:
        """What the table varies, or nothing."""
        return self.key.partition("@")[2]


@dataclass(frozen=True)
class TableRow:
    """One line of a table.

    Attributes:
        key: What ``--rows`` takes.
        label: In front of the line.
        preset: Name of the recipe.
        settings: Fields of the config that differ from it.
        paper: The line of the paper that stands beside; ``None`` where it has none.
        changes: What differs from the paper, in words.
        apart: Whether what the columns vary does not reach it, so that one run stands behind all of them.
    """

    key: str
    label: str
    preset: str
    settings: tuple[str, ...] = ()
    paper: str | None = None
    changes: tuple[str, ...] = ()
    apart: bool = False

    @property
    def ours(self) -> bool:
        """Whether the model is this library's own."""
        return self.key.startswith("ours")

    def settings_in(self, column: Column) -> tuple[str, ...]:
        """Fields of the config that differ from the preset in the run behind a column."""
        return self.settings if self.apart else (*self.settings, *column.settings)

    def changed(self, *settings: str, change: str = "") -> TableRow:
        """The row with further fields of the config set, and what that changes in words."""
        return replace(self, settings=(*self.settings, *settings), changes=(*self.changes, *filter(None, [change])))


@dataclass(frozen=True)
class Table:
    """A table of the paper, or one of its tables on other images.

    Attributes:
        name: What ``fourierscale reproduce run`` takes.
        title: Above the table.
        protocol: The data.
        paper: The printed table.
        rows: What is trained.
        columns: What is measured; the paper's columns if none are given.
        note: What differs from the paper in every row.
        other_protocol: Whether the paper's figures belong to other images than ours, and are no target.
        seeds: Each row is trained with these if the user names none.
    """

    name: str
    title: str
    protocol: str
    paper: PaperTable
    rows: tuple[TableRow, ...]
    columns: tuple[Column, ...] = ()
    note: str = ""
    other_protocol: bool = False
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", tuple(Column(key, TITLES[key]) for key in self.paper.columns))


@dataclass(frozen=True)
class Baseline:
    """A model of others.

    Attributes:
        key: The start of its names here.
        label: In front of its rows.
        paper: The paper's name for it; ``None`` where it has none.
        changes: What differs from the paper, in words.
    """

    key: str
    label: str
    paper: str | None = None
    changes: tuple[str, ...] = ()


VARIANT = ("the paper does not say which variant its row is",)
PADDED = ("padded to 28 pixels; the paper does not say",)
FOURIER = Baseline("fourier-cnn", "Fourier CNN", "Fourier CNN", ("the paper gives neither widths nor head",))
EQUIVARIANT = (
    Baseline("sesn", "SESN", "SESN", VARIANT),
    Baseline("dss", "DSS", "DSS", VARIANT),
    Baseline("si-convnet", "SI-ConvNet", "SI-ConvNet"),
    Baseline("ss-cnn", "SS-CNN", "SS-CNN"),
    Baseline("disco", "DISCO", "DISCO"),
)
DIGITS = (
    Baseline("cnn", "CNN", "CNN"),
    Baseline("per-resolution-cnn", "CNN per resolution", "Per Res. CNN", PADDED),
    EQUIVARIANT[0],
    Baseline("sesn-vector", "SESN, vector", "SESN", VARIANT),
    *EQUIVARIANT[1:],
    FOURIER,
)
COLOUR = (Baseline("wrn", "Wide ResNet", "Wide ResNet"), *EQUIVARIANT, FOURIER)

TAPS = "5x5 taps as in the published code; the paper says 7x7 and 11x11"
BEST = "our recipe: other head, hinge, augmentation and schedule"
AUGMENTED = "augmented as our best recipe is"
REAL = f"{BEST}; warps in front of the downscaling, and a second pass on images that are really downscaled"


def baseline_rows(
    baselines: Iterable[Baseline], data: str, augment: str, own: Sequence[str] = (), enlarge: str | None = None
) -> list[TableRow]:
    """Each baseline under its own recipe, then with the augmentation of our best recipe.

    Args:
        baselines: The models.
        data: ``"mnist"`` or ``"stl10"``, the end of the models' names.
        augment: Our augmentation.
        own: Further settings of the models' own recipe.
        enlarge: How images reach models of one input size, if not as the models say.
    """
    rows = []
    for model in baselines:
        info = model_info(f"{model.key}-{data}")
        enlarged = () if enlarge is None or info.enlarge is None else (f"data.enlarge={enlarge}",)
        settings = (f"model.name={info.name}", *enlarged)
        row = TableRow(model.key, model.label, info.recipe, settings, model.paper, model.changes)
        twin = replace(row, key=f"{row.key}-augmented", label=f"{row.label} + augmentation")
        rows += [row.changed(*own), twin.changed(f"data.augment={augment}", change=AUGMENTED)]
    return rows


def our_rows(
    data: str, end: str = "", label: str = "", settings: Sequence[str] = (), paper: str = OURS
) -> list[TableRow]:
    """Our model under the paper's recipe and under our best one."""
    name, told = f"ours{label}", (TAPS,) if data == "mnist" else ()
    return [
        TableRow(f"ours-paper{end}", f"{name}, the paper's recipe", f"{data}-paper", tuple(settings), paper, told),
        TableRow(f"ours-best{end}", f"{name}, best recipe", f"{data}-best", tuple(settings), paper, (BEST,)),
    ]


def really_downscaled(best: TableRow, augment: str) -> TableRow:
    """Our best recipe where downscaling is not ideal, so that a level is not what the downscaled image gives."""
    settings = (f"data.augment={augment}", "loss.weight=1", "loss.margin=4", "loss.real=1", "loss.features=1")
    return replace(best.changed(*settings), changes=(REAL,))
