"""``fourierscale export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from fourierscale.cli.found import MODEL_HELP, Trained, find_trained, folder_options

__all__ = ["export"]

FORMATS = {".onnx": "onnxruntime", ".pt2": "the program"}
"""Suffixes that can be written, and who runs them here."""


def export(
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    out: Annotated[Path, typer.Argument(help="File to write: .onnx, or .pt2 for a program of torch.export.")],
    resolution: Annotated[
        list[int] | None, typer.Option(min=1, help="Side of the images; several times for several sizes.")
    ] = None,
    resolutions: Annotated[str | None, typer.Option(help="The same as a list: 8,14,28.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Take 0..1 pixels: normalisation and padding become part of the file.")
    ] = False,
    features: Annotated[bool, typer.Option("--features", help="Give the final features as a second output.")] = False,
) -> None:
    """Write a trained model as ONNX or as a program of torch.export, and check it: difference and speed.

    One file serves every size that is named; without a size, the largest that the model was trained with.
    """
    from rich.console import Console
    from rich.table import Table

    from fourierscale.export import export_onnx, export_program

    if out.suffix not in FORMATS:
        raise typer.BadParameter(f"{out}: the name must end in .onnx or .pt2")
    sizes = [*(resolution or []), *_numbers(resolutions)]
    found = find_trained(model)
    console = Console(highlight=False)
    images, note = _real_images(found, raw)
    write = export_onnx if out.suffix == ".onnx" else export_program
    waiting = f"exporting {found.name}: a minute or two for a net of many levels"
    with console.status(waiting):
        report = write(found.model, out, sizes or None, name=found.name, raw=raw, features=features, images=images)
    taken = "0..1 pixels" if raw else "normalised images"
    wrote = f"wrote {out}: {report.bytes / 1e6:.1f} MB, {found.name}, takes {taken}"
    console.print(wrote, markup=False, soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    runner = FORMATS[out.suffix]
    for column in ("px", "max difference", f"{runner}, 1 image", "PyTorch", f"{runner}, of 32", "PyTorch"):
        table.add_column(column, justify="right")
    for check in report.checks:
        times = [f"{ms:.2f} ms" for batch in (1, 32) for ms in check.milliseconds[batch]]
        table.add_row(str(check.resolution), f"{check.difference:.1e}", *times)
    console.print(table)
    console.print(f"compared on 3 random images and {note}; median time of an image, alone and in a batch of 32")


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError:
        raise typer.BadParameter(
            f"--resolutions takes numbers with commas between, such as 8,14,28, got {text}"
        ) from None


def _real_images(found: Trained, raw: bool, count: int = 8) -> tuple[Tensor | None, str]:
    """A few test images as the file takes them, if they are on this machine; and how to call them."""
    from fourierscale.data import Scaling, load_protocol
    from fourierscale.data.errors import DataError

    prepare, protocol = found.preprocessing, found.protocol
    try:
        folder = folder_options(found, protocol)
        splits = load_protocol(protocol, offline=True, scaling=Scaling(kind=prepare.kind), folder=folder)
        x, _ = splits.test.largest(count)
    except (DataError, OSError, ImportError, IndexError):
        return None, "no real ones, which are not on this machine"
    return x if raw else prepare(x), f"{len(x)} test images of {protocol}"
