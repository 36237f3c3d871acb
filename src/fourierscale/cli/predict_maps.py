"""What ``fourierscale predict`` does with a model whose answer is a map: masks of images, and fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import typer
from torch import Tensor

from fourierscale.models.files import replacing
from fourierscale.models.maps import as_map_model

if TYPE_CHECKING:
    from fourierscale.cli.found import Trained
    from fourierscale.models import MapModel, Preprocessing

__all__ = ["find_maps", "predict_maps"]

NO_CLASS = 255


def find_maps(name: str, factory: str | None) -> Trained | None:
    """The trained model of a run, or of a file of weights, if its answer is a map.

    Args:
        name: As the user gives it.
        factory: The function that built a net of the user's own.
    """
    from fourierscale.cli.found import find_trained
    from fourierscale.models import MapModel, WeightsError, read_info

    path = Path(name).expanduser()
    try:
        task = read_info(path).get("config", {}).get("data", {}).get("task") if path.exists() else None
    except WeightsError:  # it is something else, of which others know what to say
        return None
    if task not in ("segmentation", "field"):
        return None
    found = find_trained(name, factory)
    return found if isinstance(found.model, MapModel) else None


def predict_maps(found: Trained, given: Sequence[Path], out: Path) -> bool:
    """Write a map for every file into a folder; a file that cannot be used is named, and the others go on.

    Args:
        found: The model.
        given: Images or folders of them, or arrays of fields.
        out: The folder, made if it is not there.

    Returns:
        Whether some file could not be used.
    """
    from rich.console import Console

    from fourierscale.cli.folders import check_folder
    from fourierscale.data.errors import DataError
    from fourierscale.data.folder import image_files

    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    model, prepare = as_map_model(found.model), found.preprocessing
    console, refused, used = Console(highlight=False), False, set[str]()
    write = _write_mask if found.task == "segmentation" else _write_field
    for path in (file for one in given for file in (image_files(one) if one.is_dir() else [one])):
        name = _unused(path.stem, used)
        try:
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
    from fourierscale.predicting.images import prepare_image
    from fourierscale.training.map_report import class_colours

    prepared = prepare_image(path, prepare, "no")
    note = ", ".join(prepared.notes)
    header = read_header(path)
    whole = (header.height, header.width)
    size = whole if prepare.shape == "whole" else (min(whole), min(whole))
    with torch.inference_mode():
        mask = model.at(prepare(prepared.pixels[None]), size)[0].argmax(0).to(torch.uint8)
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
