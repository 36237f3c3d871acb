"""The paper's tables as experiments: which model, which recipe and which data stand behind each figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourierscale.lab.tables.paper import PAPER
from fourierscale.lab.tables.rows import (
    COLOUR,
    DIGITS,
    EQUIVARIANT,
    FOURIER,
    TITLES,
    Column,
    Row,
    Table,
    baseline_rows,
    metric_columns,
    our_rows,
    really_downscaled,
    with_settings,
)
from fourierscale.nn.checks import nearest
from fourierscale.training.errors import ConfigError

__all__ = ["TABLES", "find_rows", "find_table", "find_tables"]

FEW = "eval.consistency=1000"  # images for Scale-Con of baselines, in tables that do not show it
UNPADDED = "the paper has no such row"
ONE_RUN = "Ours takes images as they are, so no padding can change it: one run stands in all columns."


def _digits(name: str, protocol: str, paper: str, own: Sequence[str] = (), note: str = "", which: str = "") -> Table:
    printed = PAPER[paper]
    aliased = paper == "mnist-gaussian"
    augment = "early-warp" if aliased else "warp"
    rows = [*baseline_rows(DIGITS, "mnist", augment, own), *our_rows("mnist")]
    if aliased:
        rows[-1] = really_downscaled(rows[-1], augment)
    if name == "mnist-all":
        level = ("model.overrides.grid=level",)
        told = "each level on its own grid, as the published code does it"
        rows.insert(-1, replace(rows[-2], key="ours-paper-level", label=f"{rows[-2].label}, own grids", settings=level))
        rows[-2] = replace(rows[-2], changes=(*rows[-2].changes, told))
    return Table(
        name,
        printed.title + which,
        protocol,
        metric_columns(printed),
        with_settings(rows, f"data.protocol={protocol}"),
        printed,
        note=note,
    )


def _efficiency() -> Table:
    printed = PAPER["mnist-efficiency"]
    columns = [
        Column(f"accuracy@{count}", f"Acc, {count:,} images", (f"data.protocol=mnist-scale-{count}", FEW))
        for count in (5000, 2500, 1000)
    ]
    rows = (*baseline_rows(DIGITS, "mnist", "warp"), *our_rows("mnist"))
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
        rows += our_rows("mnist", f"-{count}", f", {count:,} images", settings, str(count))
    return Table("mnist-consistency", printed.title, "mnist-scale", tuple(columns), tuple(rows), printed)


def _ablation() -> Table:
    printed = PAPER["mnist-ablation"]
    rows = [
        *our_rows("mnist"),
        *our_rows("mnist", "-no-local", " w/o local filter", ["model.overrides.local=false"], "Ours w/o Local Filter"),
        *our_rows(
            "mnist",
            "-no-nested",
            " w/o scale-equivariant ReLU",
            ["model.overrides.nested=false"],
            "Ours w/o Scale-equi. ReLU",
        ),
        *baseline_rows([FOURIER], "mnist", "warp"),
    ]
    rows = list(with_settings(rows, "data.protocol=mnist-scale"))
    return Table("mnist-ablation", printed.title, "mnist-scale", metric_columns(printed), tuple(rows), printed)


def _colour(name: str, protocol: str, end: str, enlarge: str | None, kind: str | None, note: str) -> Table:
    printed = PAPER[f"stl10{end}"]
    settings = (f"data.protocol={protocol}", *(() if kind is None else (f"data.kind={kind}",)))
    augment = "flip-warp" if kind is None else "flip-early-warp"
    ours = our_rows("stl10")
    if end == "-padding":
        ways = ("replicate", "circular", "reflect")
        columns = tuple(Column(f"accuracy@{way}", f"Acc, {way}", (f"data.enlarge={way}", FEW)) for way in ways)
        unpadded = [replace(row, paper=None, changes=(*row.changes, UNPADDED), apart=True) for row in ours]
        rows, note = (*baseline_rows(EQUIVARIANT, "stl10", augment), *unpadded), f"{note} {ONE_RUN}"
    else:
        columns = metric_columns(printed)
        ours[-1] = ours[-1] if kind is None else really_downscaled(ours[-1], augment)
        rows = (*baseline_rows(COLOUR, "stl10", augment, (), enlarge), *ours)
    if protocol in EPOCHS:
        epochs = EPOCHS[protocol][1 if end else 0]
        rows, note = _shortened(rows, epochs), f"{note} {SHORTENED.format(epochs)}"
    return Table(
        f"{name}{end}",
        printed.title.replace("STL10-scale", TITLE[protocol]),
        protocol,
        columns,
        with_settings(rows, *settings),
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
            _colour(name, protocol, end, enlarge, kind, f"{note} {BLUR}" if kind else note)
            for name, protocol, note in COLOURS
            for end, enlarge, kind in (
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
