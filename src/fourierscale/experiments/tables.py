"""The paper's tables as experiments: which model, which recipe and which data stand behind each figure.

A row names a preset and settings as ``fourierscale train --config PRESET --set SECTION.FIELD=VALUE`` takes them; a
column names what is measured and may add settings of its own (fewer training images, another padding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fourierscale.data.errors import nearest
from fourierscale.experiments.paper import OURS, PAPER, PaperTable
from fourierscale.training.errors import ConfigError

__all__ = ["TABLES", "TITLES", "Column", "Row", "Table", "find_rows", "find_table", "find_tables"]

SEEDS = (0, 1, 2)
FEW = "eval.consistency=1000"  # images for Scale-Con of baselines, in tables that do not show it
TITLES = {"accuracy": "Acc", "scale_con": "Scale-Con", "equi_err": "Equi-Err"}


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
        """Name of the figure among a run's metrics."""
        return self.key.partition("@")[0]

    @property
    def variant(self) -> str:
        """What the table varies, or nothing."""
        return self.key.partition("@")[2]


@dataclass(frozen=True)
class Row:
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

    def settings_in(self, column: Column) -> tuple[str, ...]:
        """Fields of the config that differ from the preset in the run behind a column."""
        return self.settings if self.apart else (*self.settings, *column.settings)


@dataclass(frozen=True)
class Table:
    """A table of the paper, or one of its tables on other images.

    Attributes:
        name: What ``fourierscale reproduce run`` takes.
        title: Above the table.
        protocol: The data.
        columns: What is measured.
        rows: What is trained.
        paper: The printed table.
        other_protocol: Whether the paper's figures belong to other images than ours, and are no target.
        note: What differs from the paper in every row.
        seeds: Each row is trained with these if the user names none.
    """

    name: str
    title: str
    protocol: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    paper: PaperTable
    other_protocol: bool = False
    note: str = ""
    seeds: tuple[int, ...] = SEEDS


@dataclass(frozen=True)
class Baseline:
    """A model of others: the paper's name for it, and the start of its names here."""

    key: str
    label: str
    paper: str
    changes: tuple[str, ...] = ()


VARIANT = ("the paper does not say which variant its row is",)
EQUIVARIANT = (
    Baseline("sesn", "SESN", "SESN", VARIANT),
    Baseline("dss", "DSS", "DSS", VARIANT),
    Baseline("si-convnet", "SI-ConvNet", "SI-ConvNet"),
    Baseline("ss-cnn", "SS-CNN", "SS-CNN"),
    Baseline("disco", "DISCO", "DISCO"),
)
FOURIER = Baseline("fourier-cnn", "Fourier CNN", "Fourier CNN", ("the paper gives neither widths nor head",))
DIGITS = (
    Baseline("cnn", "CNN", "CNN"),
    Baseline(
        "per-resolution-cnn", "CNN per resolution", "Per Res. CNN", ("padded to 28 pixels; the paper does not say",)
    ),
    EQUIVARIANT[0],
    Baseline("sesn-vector", "SESN, vector", "SESN", VARIANT),
    *EQUIVARIANT[1:],
    FOURIER,
)
COLOUR = (Baseline("wrn", "Wide ResNet", "Wide ResNet"), *EQUIVARIANT, FOURIER)

TAPS = "5x5 taps as in the published code; the paper says 7x7 and 11x11"
BEST = "our recipe: other head, hinge, augmentation and schedule"
AUGMENTED = "augmented as our best recipe is"
UNPADDED = "the paper has no such row"
ONE_RUN = "Ours takes images as they are, so no padding can change it: one run stands in all columns."
REAL = f"{BEST}; warps in front of the downscaling, and a second pass on images that are really downscaled"


def _beside(
    baselines: Sequence[Baseline], data: str, augment: str, own: Sequence[str] = (), fit: str | None = None
) -> tuple[Row, ...]:
    """Each baseline under its own recipe, then with the augmentation of our best recipe.

    Args:
        baselines: The models.
        data: ``"mnist"`` or ``"stl10"``, the end of the models' names and the start of their presets'.
        augment: Our augmentation.
        own: Further settings of the models' own recipe.
        fit: How images reach models of one input size, if not as the models say; the Fourier CNN takes every size.
    """
    rows = []
    for baseline in baselines:
        preset = f"{data}-fourier-cnn" if baseline is FOURIER else f"{data}-baseline"
        fitted = () if fit is None or baseline is FOURIER else (f"data.fit={fit}",)
        settings = (f"model.name={baseline.key}-{data}", *fitted)
        row = Row(baseline.key, baseline.label, preset, (*settings, *own), baseline.paper, baseline.changes)
        augmented = replace(
            row,
            key=f"{row.key}-augmented",
            label=f"{row.label} + augmentation",
            settings=(*settings, f"data.augment={augment}"),
            changes=(*row.changes, AUGMENTED),
        )
        rows += [row, augmented]
    return tuple(rows)


def _ours(data: str, end: str = "", label: str = "", settings: Sequence[str] = (), paper: str = OURS) -> list[Row]:
    """Our model under the paper's recipe and under our best one."""
    name, told = f"ours{label}", (TAPS,) if data == "mnist" else ()
    return [
        Row(f"ours-paper{end}", f"{name}, the paper's recipe", f"{data}-paper", tuple(settings), paper, told),
        Row(f"ours-best{end}", f"{name}, best recipe", f"{data}-best", tuple(settings), paper, (BEST,)),
    ]


def _real(best: Row, augment: str) -> Row:
    """Our best recipe where downscaling is not ideal, so that a level is not what the downscaled image gives."""
    settings = (f"data.augment={augment}", "loss.weight=1", "loss.margin=4", "loss.real=1", "loss.features=1")
    return replace(best, settings=(*best.settings, *settings), changes=(REAL,))


def _metrics(paper: PaperTable) -> tuple[Column, ...]:
    return tuple(Column(key, TITLES[key]) for key in paper.columns)


def _with(rows: Sequence[Row], *settings: str) -> tuple[Row, ...]:
    return tuple(replace(row, settings=(*row.settings, *settings)) for row in rows)


def _digits(name: str, protocol: str, paper: str, own: Sequence[str] = (), note: str = "", which: str = "") -> Table:
    printed = PAPER[paper]
    aliased = paper == "mnist-gaussian"
    augment = "early-warp" if aliased else "warp"
    rows = [*_beside(DIGITS, "mnist", augment, own), *_ours("mnist")]
    if aliased:
        rows[-1] = _real(rows[-1], augment)
    if name == "mnist-all":
        level = ("model.overrides.grid=level",)
        told = "each level on its own grid, as the published code does it"
        rows.insert(-1, replace(rows[-2], key="ours-paper-level", label=f"{rows[-2].label}, own grids", settings=level))
        rows[-2] = replace(rows[-2], changes=(*rows[-2].changes, told))
    return Table(
        name,
        printed.title + which,
        protocol,
        _metrics(printed),
        _with(rows, f"data.protocol={protocol}"),
        printed,
        note=note,
    )


def _efficiency() -> Table:
    printed = PAPER["mnist-efficiency"]
    columns = [
        Column(f"accuracy@{count}", f"Acc, {count:,} images", (f"data.protocol=mnist-scale-{count}", FEW))
        for count in (5000, 2500, 1000)
    ]
    rows = (*_beside(DIGITS, "mnist", "warp"), *_ours("mnist"))
    return Table("mnist-efficiency", printed.title, "mnist-scale", tuple(columns), rows, printed)


def _consistency() -> Table:
    printed = PAPER["mnist-consistency"]
    columns = [
        Column(f"{metric}@{which}", f"{TITLES[metric]} {which}", settings)
        for which, settings in (("with", ()), ("without", ("loss.hinge=none",)))
        for metric in ("accuracy", "scale_con")
    ]
    rows: list[Row] = []
    for count in (5000, 2500, 1000):
        settings = (f"data.protocol=mnist-scale-{count}",)
        rows += _ours("mnist", f"-{count}", f", {count:,} images", settings, str(count))
    return Table("mnist-consistency", printed.title, "mnist-scale", tuple(columns), tuple(rows), printed)


def _ablation() -> Table:
    printed = PAPER["mnist-ablation"]
    rows = [
        *_ours("mnist"),
        *_ours("mnist", "-no-local", " w/o local filter", ["model.overrides.local=false"], "Ours w/o Local Filter"),
        *_ours(
            "mnist",
            "-no-nested",
            " w/o scale-equivariant ReLU",
            ["model.overrides.nested=false"],
            "Ours w/o Scale-equi. ReLU",
        ),
        *_beside([FOURIER], "mnist", "warp"),
    ]
    rows = list(_with(rows, "data.protocol=mnist-scale"))
    return Table("mnist-ablation", printed.title, "mnist-scale", _metrics(printed), tuple(rows), printed)


def _colour(name: str, protocol: str, end: str, fit: str | None, kind: str | None, note: str) -> Table:
    printed = PAPER[f"stl10{end}"]
    settings = (f"data.protocol={protocol}", *(() if kind is None else (f"data.kind={kind}",)))
    augment = "flip-warp" if kind is None else "flip-early-warp"
    ours = _ours("stl10")
    if end == "-padding":
        ways = ("replicate", "circular", "reflect")
        columns = tuple(Column(f"accuracy@{way}", f"Acc, {way}", (f"data.fit={way}", FEW)) for way in ways)
        unpadded = [replace(row, paper=None, changes=(*row.changes, UNPADDED), apart=True) for row in ours]
        rows, note = (*_beside(EQUIVARIANT, "stl10", augment), *unpadded), f"{note} {ONE_RUN}"
    else:
        columns = _metrics(printed)
        ours[-1] = ours[-1] if kind is None else _real(ours[-1], augment)
        rows = (*_beside(COLOUR, "stl10", augment, (), fit), *ours)
    if protocol in EPOCHS:
        epochs = EPOCHS[protocol][1 if end else 0]
        rows, note = _shortened(rows, epochs), f"{note} {SHORTENED.format(epochs)}"
    return Table(
        f"{name}{end}",
        printed.title.replace("STL10-scale", TITLE[protocol]),
        protocol,
        columns,
        _with(rows, *settings),
        printed,
        other_protocol=protocol != "stl10-scale",
        note=note,
    )


def _shortened(rows: Sequence[Row], epochs: int) -> tuple[Row, ...]:
    """Rows of the paper's 250 epochs as they are trained in so many, in a precision that tensor cores have."""
    changed = []
    for row in rows:
        settings = [*row.settings, f"train.epochs={epochs}"]
        if row.preset != "stl10-best":  # whose schedule has no steps
            settings.append(f"optim.step_size={round(epochs * 100 / 250)}")
        halved = ["train.precision=bf16", "eval.precision=bf16"]
        settings += ["train.matmul=high"] if row.key.startswith("ours") else halved
        changed.append(replace(row, settings=tuple(settings)))
    return tuple(changed)


EPOCHS = {"stl10-scale-5k": (15, 5), "imagenette-scale": (5, 3)}
"""Of the table that the paper prints first, and of its variants."""
SHORTENED = (
    "{} epochs instead of the paper's 250, with the steps of the learning rate at the same shares of them, as nearly "
    "as whole epochs allow; baselines are trained in bfloat16 (mixed), and measured in it where this is said below; "
    "products of ours are in TF32 in training."
)
TITLE = {
    "stl10-scale": "STL10-scale",
    "stl10-scale-5k": "STL10-scale of 5,000 images",
    "imagenette-scale": "Imagenette-scale",
}
SCALES_96 = "Images have 48 to 96 pixels; the paper's 97 would be an upscaling."
COLOURS = (
    ("stl10", "stl10-scale", SCALES_96),
    (
        "stl10-5k",
        "stl10-scale-5k",
        f"{SCALES_96} Only the 5,000 official training images, 3,500 of them for training: the paper trains on 7,000.",
    ),
    (
        "imagenette",
        "imagenette-scale",
        f"{SCALES_96} Other photographs and other classes than the paper's, as many of them.",
    ),
)
BLUR = "The paper says Gaussian blur; its published code runs antialiased bicubic."

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _digits("mnist-all", "mnist-scale", "mnist-all"),
        _digits(
            "mnist-missing",
            "mnist-scale-missing",
            "mnist-missing",
            ("data.augment=scaling",),
            "Trained at 28 pixels alone. The baselines' own recipe has random scaling, as in the paper.",
        ),
        _efficiency(),
        _consistency(),
        _ablation(),
        _digits("mnist-gaussian", "mnist-scale-gaussian", "mnist-gaussian", note=BLUR, which=", Gaussian"),
        _digits("mnist-bicubic", "mnist-scale-bicubic", "mnist-gaussian", note=BLUR, which=", bicubic"),
        *(
            _colour(name, protocol, end, fit, kind, f"{note} {BLUR}" if kind else note)
            for name, protocol, note in COLOURS
            for end, fit, kind in (
                ("", None, None),
                ("-upsample", "upsample", None),
                ("-gaussian", None, "gaussian"),
                ("-gaussian-upsample", "upsample", "gaussian"),
                ("-padding", None, None),
            )
        ),
    )
}


GROUPS: dict[str, tuple[Table, ...]] = {
    "all": tuple(TABLES.values()),
    "mnist": tuple(table for name, table in TABLES.items() if name.startswith("mnist-")),
}
"""Names that stand for several tables."""


def find_tables(names: Sequence[str]) -> list[Table]:
    """The tables that names of tables or of groups stand for, each once.

    >>> [table.name for table in find_tables(["mnist-missing", "mnist"])][:3]
    ['mnist-missing', 'mnist-all', 'mnist-efficiency']
    """
    found = [table for name in names for table in GROUPS.get(name) or (find_table(name),)]
    return list({table.name: table for table in found}.values())


def find_table(name: str) -> Table:
    """The table of this name.

    Raises:
        ConfigError: There is none; the message suggests the nearest.

    >>> find_table("mnist-all").rows[-1].label
    'ours, best recipe'
    """
    if name not in TABLES:
        raise ConfigError(f"no table {name!r}: {nearest(name, [*TABLES, *GROUPS])}")
    return TABLES[name]


def find_rows(table: Table, keys: Sequence[str] = ()) -> tuple[Row, ...]:
    """Rows of a table by their keys, in the order of the table; all of them if none is named.

    Raises:
        ConfigError: A key that is none; the message suggests the nearest.
    """
    known = [row.key for row in table.rows]
    for key in keys:
        if key not in known:
            raise ConfigError(f"table {table.name} has no row {key!r}: {nearest(key, known)}")
    return tuple(row for row in table.rows if not keys or row.key in keys)
