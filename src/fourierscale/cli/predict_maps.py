"""What ``fourierscale predict`` does with a model whose answer is a map: masks of images, and fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import typer
from torch import Tensor

if TYPE_CHECKING:
    from fourierscale.models import MapModel, Preprocessing

__all__ = ["predict_maps"]

NO_CLASS = 255


def predict_maps(model: MapModel, prepare: Preprocessing, task: str, files: Sequence[Path], out: Path) -> bool:
    """Write a map for every file into a folder; a file that cannot be used is named, and the others go on.

    Args:
        model: Trained.
        prepare: How pixels become its input.
        task: ``"segmentation"`` or ``"field"``.
        files: Images, or arrays of fields.
        out: The folder, made if it is not there.

    Returns:
        Whether some file could not be used.
    """
    from rich.console import Console

    from fourierscale.cli.folders import check_folder
    from fourierscale.data.errors import DataError

    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    console, refused, used = Console(highlight=False), False, set[str]()
    for path in files:
        name = _unused(path.stem, used)
        try:
            write = _write_mask if task == "segmentation" else _write_field
            told = write(model, prepare, path, out / name)
        except (DataError, OSError, ValueError) as error:
            typer.echo(f"fourierscale: {' '.join(str(error).split())}", err=True)
            refused = True
            continue
        console.print(f"{path}: {told}", markup=False, soft_wrap=True)
    return refused


def _unused(stem: str, used: set[str]) -> str:
    """A name that no other file of this call has."""
    name, number = stem, 2
    while name in used:
        name, number = f"{stem}-{number}", number + 1
    used.add(name)
    return name


def _write_mask(model: MapModel, prepare: Preprocessing, path: Path, target: Path) -> str:
    """A PNG of the image's own size whose values are the numbers of the classes; returns what is in it, in words."""
    from PIL import Image

    from fourierscale.data.decode import read_header
    from fourierscale.models.files import replacing
    from fourierscale.predicting import prepare_image
    from fourierscale.training.map_report import class_colours

    prepared = prepare_image(path, prepare, "no")
    pixels, note = prepared.pixels[None], ", ".join(prepared.notes)
    header = read_header(path)
    whole = (header.height, header.width)
    size = whole if prepare.shape == "whole" else (min(whole), min(whole))
    with torch.inference_mode():
        mask = model.at(prepare(pixels), size)[0].argmax(0).to(torch.uint8)
    if size != whole:  # the centred square was looked at alone
        square, mask = mask, torch.full(whole, NO_CLASS, dtype=torch.uint8)
        top, left = (whole[0] - size[0]) // 2, (whole[1] - size[1]) // 2
        mask[top : top + size[0], left : left + size[1]] = square
        note += f", {NO_CLASS} beside it"
    picture = Image.fromarray(mask.numpy(), "P")
    colours = (255 * class_colours(max(2, len(prepare.classes)))).round().byte().flatten().tolist()
    picture.putpalette([*colours, *[128] * (768 - len(colours))])
    file = target.with_name(f"{target.name}.png")
    with replacing(file) as partial:
        picture.save(partial)
    counts = torch.bincount(mask.flatten().long(), minlength=len(prepare.classes)).tolist()
    total = max(1, sum(counts[: len(prepare.classes)]))
    shares = ", ".join(
        f"{name} {100 * count / total:.1f} %" for name, count in zip(prepare.classes, counts, strict=False) if count
    )
    return f"{shares} ({note}); wrote {file}"


def _write_field(model: MapModel, prepare: Preprocessing, path: Path, target: Path) -> str:
    """A ``.npz`` with the answers ``y`` on the grid of the given fields."""
    from fourierscale.data.fields import read_inputs
    from fourierscale.models.files import replacing

    x = read_inputs(path)
    if x.shape[1] != prepare.channels:
        raise ValueError(f"{path}: expected fields of {prepare.channels} channels, got {x.shape[1]}")
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (prepare.mean, prepare.std))
    answers: list[Tensor] = []
    with torch.inference_mode():
        for part in torch.split(x, 20):
            answers.append(model((part - mean) / std).float())
    file = target.with_name(f"{target.name}.npz")
    with replacing(file) as partial:
        np.savez(partial, y=torch.cat(answers).numpy())
    return f"{len(x)} fields on a grid of {x.shape[-2]} x {x.shape[-1]}; wrote {file}"
