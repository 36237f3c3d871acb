"""Tables of tasks that the paper does not have: masks of pets, and Navier-Stokes fields on finer grids."""

from __future__ import annotations

from fourierscale.lab.tables.paper import PaperTable
from fourierscale.lab.tables.rows import Column, Table, TableRow

__all__ = ["MAP_TABLES", "NOTHING"]

NOTHING = PaperTable("", ())
BARE = "model.overrides.exact=false"
ONE = "loss.maps=one"


def _pets(name: str, protocol: str, resolutions: tuple[int, ...]) -> Table:
    """The U-Net inside one nested map and bare, at the sizes of one range."""
    data, top = f"data.protocol={protocol}", resolutions[-1]
    rows = (
        TableRow("exact", "inside one nested map", "pets", (data,)),
        TableRow("bare-one", "bare, one size a step", "pets", (data, BARE, ONE)),
        TableRow("bare-every", "bare, every size in each step: as much work", "pets", (data, BARE)),
        TableRow(
            f"bare-{top}",
            f"bare, {top} pixels alone",
            "pets",
            (data, BARE, f"model.overrides.resolutions=[{top}]"),
        ),
    )
    columns = [Column(f"iou_per_class.pet.{r}", f"IoU, {r} px") for r in resolutions]
    columns += [Column(f"agreement_per_resolution.{r}", f"agreement, {r} px") for r in resolutions[:-1]]
    columns += [Column("boundary", "boundary"), Column("equi_err", "Equi-Err")]
    span = f"{resolutions[0]} to {top} pixels"
    note = (
        "Intersection over union of the pets at each size; agreement is the share of pixels whose class is that of the "
        f"large image's map, downscaled. A U-Net 32-64-128-256, 16 epochs of 3,495 images, {span}."
    )
    return Table(name, f"Masks of pets, {span}", protocol, NOTHING, rows, tuple(columns), note)


def _navier_stokes(name: str, viscosity: str) -> Table:
    """The Fourier neural operator inside one nested map and bare."""
    data, alone = f"data.protocol={name}", "model.overrides.resolutions=[64]"
    rows = []
    for key, label, norm in (("fno", "FNO", "none"), ("fno-norm", "FNO, instance norm", "instance")):
        settings = (data, f"model.overrides.norm={norm}")
        rows += [
            TableRow(f"{key}-exact", f"{label}, inside one nested map", "field", settings),
            TableRow(f"{key}-bare", f"{label}, bare", "field", (*settings, BARE, alone)),
        ]
    columns = [Column(f"error_per_resolution.{r}", f"{r}") for r in (32, 64, 128, 256)]
    columns += [Column(f"strided_error_per_resolution.{r}", f"{r}, strided") for r in (32, 64, 128)]
    columns.append(Column("equi_err", "mismatch"))
    note = (
        "Relative L2 error of 200 test fields, trained on 1,000 fields on a grid of 64; other grids hold the same "
        "fields ideally downscaled, or strided, which aliases. Mismatch: relative squared difference between the "
        "answer on a coarse grid and the downscaled answer on the fine one."
    )
    title = f"Navier-Stokes, viscosity {viscosity}"
    return Table(name, title, name, NOTHING, tuple(rows), tuple(columns), note, seeds=(0,))


MAP_TABLES = (
    _pets("pets", "pets", (48, 68, 96)),
    _pets("pets-24", "pets-24", (24, 34, 48, 68, 96)),
    _navier_stokes("navier-stokes", "1e-3"),
    _navier_stokes("navier-stokes-1e-4", "1e-4"),
)
