"""The paper's tables as experiments: which model, which recipe and which data stand behind each figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from fourierscale.lab.tables.map_tables import MAP_TABLES, NOTHING
from fourierscale.lab.tables.paper import PAPER
from fourierscale.lab.tables.rows import (
    COLOUR,
    DIGITS,
    EQUIVARIANT,
    FOURIER,
    TITLES,
    Column,
    Table,
    TableRow,
    baseline_rows,
    our_rows,
    really_downscaled,
)
from fourierscale.nn.checks import nearest
from fourierscale.training.errors import ConfigError

__all__ = ["TABLES", "find_rows", "find_table", "find_tables"]

FEW = "eval.consistency=1000"  # images for Scale-Con of baselines, in tables that do not show it
COUNTS = (5000, 2500, 1000)
BLUR = "The paper says Gaussian blur; its published code runs antialiased bicubic."


def _digits(name: str, number: str, title: str, own: Sequence[str] = (), note: str = "") -> Table:
    protocol = "mnist-scale" if name == "mnist-all" else name.replace("mnist", "mnist-scale")
    aliased = number == "6"
    augment = "early-warp" if aliased else "warp"
    rows = [*baseline_rows(DIGITS, "mnist", augment, own), *our_rows("mnist")]
    if aliased:
        rows[-1] = really_downscaled(rows[-1], augment)
    if name == "mnist-all":
        own_grids = replace(rows[-2], key="ours-paper-level", label=f"{rows[-2].label}, own grids")
        told = "each level on its own grid, as the published code does it"
        rows.insert(-1, own_grids.changed("model.overrides.grid=level", change=told))
    rows = [row.changed(f"data.protocol={protocol}") for row in rows]
    return Table(name, f"MNIST-scale, {title}", protocol, PAPER[number], tuple(rows), note=note)


def _efficiency() -> Table:
    columns = [
        Column(f"accuracy@{count}", f"Acc, {count:,} images", (f"data.protocol=mnist-scale-{count}", FEW))
        for count in COUNTS
    ]
    rows = (*baseline_rows(DIGITS, "mnist", "warp"), *our_rows("mnist"))
    title = "MNIST-scale, fewer training images"
    return Table("mnist-efficiency", title, "mnist-scale", PAPER["3"], rows, tuple(columns))


def _consistency() -> Table:
    columns = [
        Column(f"{metric}@{which}", f"{TITLES[metric]} {which}", settings)
        for which, settings in (("with", ()), ("without", ("loss.hinge=none",)))
        for metric in ("accuracy", "scale_con")
    ]
    rows: list[TableRow] = []
    for count in COUNTS:
        settings = (f"data.protocol=mnist-scale-{count}",)
        rows += our_rows("mnist", f"-{count}", f", {count:,} images", settings, str(count))
    title = "MNIST-scale, with and without the consistency loss"
    return Table("mnist-consistency", title, "mnist-scale", PAPER["5"], tuple(rows), tuple(columns))


def _ablation() -> Table:
    parts = (
        ("-no-local", " w/o local filter", "local", "Ours w/o Local Filter"),
        ("-no-nested", " w/o scale-equivariant ReLU", "nested", "Ours w/o Scale-equi. ReLU"),
    )
    rows = our_rows("mnist")
    for end, label, part, paper in parts:
        rows += our_rows("mnist", end, label, [f"model.overrides.{part}=false"], paper)
    rows += baseline_rows([FOURIER], "mnist", "warp")
    rows = [row.changed("data.protocol=mnist-scale") for row in rows]
    title = "MNIST-scale, without local filter, without scale-equivariant ReLU"
    return Table("mnist-ablation", title, "mnist-scale", PAPER["A1"], tuple(rows))


SCALES_96 = "Images have 48 to 96 pixels; the paper's 97 would be an upscaling."
COLOURS = (
    ("stl10", "stl10-scale", "STL10-scale", SCALES_96, None),
    (
        "stl10-5k",
        "stl10-scale-5k",
        "STL10-scale of 5,000 images",
        f"{SCALES_96} Only the 5,000 official training images, 3,500 of them for training: the paper trains on 7,000.",
        (15, 5),
    ),
    (
        "imagenette",
        "imagenette-scale",
        "Imagenette-scale",
        f"{SCALES_96} Other photographs and other classes than the paper's, as many of them.",
        (5, 3),
    ),
)
"""Name, protocol, title, note, and epochs of the first table and of its variants where they are not the paper's."""
VARIANTS = (
    ("", "4", "ideal downscaling", None, None),
    ("-upsample", "A2", "ideal downscaling, baselines see ideally upscaled images", "upsample", None),
    ("-gaussian", "A3", "non-ideal downscaling, baselines see zero-padded images", None, "gaussian"),
    (
        "-gaussian-upsample",
        "A4",
        "non-ideal downscaling, baselines see ideally upscaled images",
        "upsample",
        "gaussian",
    ),
    ("-padding", "A5", "ideal downscaling, other paddings for the baselines", None, None),
)
"""End of the name, number in the paper, title, how images reach baselines of one size, kind of downscaling."""
SHORTENED = (
    "{} epochs instead of the paper's 250, with the steps of the learning rate at the same shares of them, as nearly "
    "as whole epochs allow; baselines are trained in bfloat16 (mixed), and measured in it where this is said below; "
    "products of ours are in TF32 in training."
)
Images: TypeAlias = tuple[str, str, str, str, tuple[int, int] | None]
Variant: TypeAlias = tuple[str, str, str, str | None, str | None]
ONE_RUN = "Ours takes images as they are, so no padding can change it: one run stands in all columns."


def _colour(images: Images, variant: Variant) -> Table:
    (name, protocol, start, note, epochs), (end, number, title, enlarge, kind) = images, variant
    augment = "flip-early-warp" if kind else "flip-warp"
    columns: tuple[Column, ...] = ()
    ours = our_rows("stl10")
    if kind:
        ours[-1], note = really_downscaled(ours[-1], augment), f"{note} {BLUR}"
    if end == "-padding":
        ways = ("replicate", "circular", "reflect")
        columns = tuple(Column(f"accuracy@{way}", f"Acc, {way}", (f"data.enlarge={way}", FEW)) for way in ways)
        ours = [replace(row, paper=None, apart=True).changed(change="the paper has no such row") for row in ours]
        rows, note = [*baseline_rows(EQUIVARIANT, "stl10", augment), *ours], f"{note} {ONE_RUN}"
    else:
        rows = [*baseline_rows(COLOUR, "stl10", augment, (), enlarge), *ours]
    if epochs:
        length = epochs[1 if end else 0]
        rows, note = [_shortened(row, length) for row in rows], f"{note} {SHORTENED.format(length)}"
    settings = (f"data.protocol={protocol}", *([f"data.kind={kind}"] if kind else []))
    return Table(
        f"{name}{end}",
        f"{start}, {title}",
        protocol,
        PAPER[number],
        tuple(row.changed(*settings) for row in rows),
        columns,
        note,
        other_protocol=epochs is not None,
    )


def _shortened(row: TableRow, epochs: int) -> TableRow:
    """A row of the paper's 250 epochs as it is trained in so many, in a precision that tensor cores have."""
    # the schedule of our best recipe has no steps
    steps = [] if row.preset == "stl10-best" else [f"optim.step_size={round(epochs * 100 / 250)}"]
    precision = ["train.matmul=high"] if row.ours else ["train.precision=bf16", "eval.precision=bf16"]
    return row.changed(f"train.epochs={epochs}", *steps, *precision)


MADE = (
    ("bare", "plain residual net", ()),
    ("bare-every-size", "plain residual net, every size in each step", ("loss.hinge=none",)),
    ("consistent", "made consistent", ()),
    ("exact", "made exact, one nested map", ()),
)
"""Ends of the rows' names, labels and settings of what is made of one plain net."""


def _made() -> Table:
    """One plain net of today, bare and made exact, on the paper's photographs."""
    columns = tuple(Column(key, TITLES[key]) for key in ("accuracy", "scale_con", "equi_err", "ece"))
    rows = tuple(
        TableRow(f"small-{made}", label, "stl10-residual", (f"model.overrides.made={made}", *settings))
        for made, label, settings in MADE
    )
    note = f"{SCALES_96} Widths 32-64-128, one recipe for all rows, chosen on validation images."
    title = "STL10-scale, one plain net and what is made of it"
    return Table("stl10-made", title, "stl10-scale", NOTHING, rows, columns, note, seeds=(0,))


SCALING = "Trained at 28 pixels alone. The baselines' own recipe has random scaling, as in the paper."
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _digits("mnist-all", "1", "ideal downscaling, all scales"),
        _digits("mnist-missing", "2", "ideal downscaling, missing scales", ["data.augment=scaling"], SCALING),
        _efficiency(),
        _consistency(),
        _ablation(),
        _digits("mnist-gaussian", "6", "non-ideal downscaling, Gaussian", note=BLUR),
        _digits("mnist-bicubic", "6", "non-ideal downscaling, bicubic", note=BLUR),
        _made(),
        *(_colour(images, variant) for images in COLOURS for variant in VARIANTS),
        *MAP_TABLES,
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


def find_rows(table: Table, keys: Sequence[str] = ()) -> tuple[TableRow, ...]:
    """Rows of a table by their keys, in the order in which they are named; all of them if none is.

    Raises:
        ConfigError: A key that is none; the message suggests the nearest.
    """
    known = [row.key for row in table.rows]
    for key in keys:
        if key not in known:
            raise ConfigError(f"table {table.name} has no row {key!r}: {nearest(key, known)}")
    by_key = {row.key: row for row in table.rows}
    return tuple(by_key[key] for key in keys) if keys else table.rows
