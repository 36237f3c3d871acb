"""``fourierscale predict``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn

from fourierscale.cli.folders import check_folder
from fourierscale.cli.found import MODEL_HELP, find_model
from fourierscale.data.errors import DataError
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.models.classifier import boundary_of, level_names

__all__ = ["predict"]


def predict(
    model: Annotated[str, typer.Argument(help=f"{MODEL_HELP} Or an ONNX file that 'fourierscale export' wrote.")],
    images: Annotated[list[Path], typer.Argument(help="Image files of any size, grey or coloured.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="MODEL is an ONNX file, as every name in .onnx says.")] = False,
    features: Annotated[Path | None, typer.Option(help="Folder to write a picture of the feature maps in.")] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Swap black and white, for dark ink on paper.")] = False,
) -> None:
    """Classify image files: the class and its probability at every level, coarse to fine.

    The largest centred square is used. One that is larger than the model's images is ideally downscaled to their size.
    An ONNX file has certain sizes: images are downscaled to the largest that fits.
    A model of a folder of yours takes images as it did in training, at the highest level that they have.
    A file that is no such image is named, and the others go on; the exit status is then 2.
    """
    from rich.console import Console
    from rich.markup import escape

    if features is not None:
        check_folder(features, "--features")

    classifier: nn.Module | OnnxClassifier
    if onnx or model.endswith(".onnx"):
        classifier = OnnxClassifier(model)
        if features is not None:
            classifier.check_features()
        about = classifier.preparation
    else:
        found = find_model(model)
        classifier, about = found.model, found.data
    console = Console(highlight=False)
    refused, drawn = False, set[Path]()
    for path in images:
        try:
            x, note = load_image(path, about, invert)
        except (DataError, OSError) as error:
            typer.echo(f"fourierscale: {' '.join(str(error).split())}", err=True)
            refused = True
            continue
        with torch.inference_mode():
            logits = classifier(x)
        logits = logits[:, None] if logits.ndim == 2 else logits
        names = level_names(classifier, int(x.shape[-1]))[-logits.shape[1] :]
        probabilities = logits[0].float().softmax(-1)
        best, label = probabilities[-1].max(-1)
        classes = about["classes"]
        answer = f"{escape(str(path))}: [bold]{escape(classes[int(label)])}[/bold] {best:.4f}  ({note})"
        console.print(answer, soft_wrap=True)
        for name, row in zip(names, probabilities, strict=True):
            value, at = row.max(-1)
            console.print(f"  {name:>4} px  {value:.4f}  {classes[int(at)]}", markup=False)
        if features is not None:
            target = _unused(features, path.stem, drawn)
            features.mkdir(parents=True, exist_ok=True)
            draw_features(classifier, x).save(target)
            drawn.add(target)
            console.print(f"  wrote {target}", markup=False, soft_wrap=True)
    if refused:
        raise typer.Exit(2)


def _unused(folder: Path, stem: str, used: set[Path]) -> Path:
    """A name for a picture that no other image of this call has, for images of one name in several folders."""
    ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(name for end in ends if (name := folder / f"{stem}{end}-features.png") not in used)


def load_image(path: Path, about: dict[str, Any], invert: bool = False) -> tuple[Tensor, str]:
    """An image as the model takes it, ``(1, C, m, m)``, and what was done to it in words."""
    from fourierscale.data.decode import Colour, decode_image
    from fourierscale.data.errors import FormatError
    from fourierscale.data.survey import own_resolutions
    from fourierscale.functional import downscale

    if not path.is_file():
        what = "it is a folder, name its images" if path.is_dir() else "there is no such file"
        raise FileNotFoundError(f"{path}: {what}")
    colour: Colour = "grey" if about["channels"] == 1 else "rgb"
    pixels = decode_image(path, colour=colour)
    height, width = pixels.shape[1:]
    side, lowest, highest = min(height, width), min(about["resolutions"]), max(about["resolutions"])
    if side < lowest:
        raise FormatError(f"{path}: {width} x {height} pixels, the model needs at least {lowest} x {lowest}")
    shape = about.get("shape")
    if shape is not None:  # a folder of images: as in training
        size = int(own_resolutions([side], about["resolutions"])[0])
        pixels = decode_image(path, colour=colour, size=size, shape=shape)
        what = "all of it" if shape == "whole" else "centred square"
        note = f"{width} x {height}" if width == height == size else f"{width} x {height}, {what} at {size} px"
        return _normalised(torch.from_numpy(pixels[None]).float() / 255, about, invert), note
    if about.get("exact"):  # no size between those of the list
        highest = max(n for n in about["resolutions"] if n <= side)
    top, left = (height - side) // 2, (width - side) // 2
    x = torch.from_numpy(np.ascontiguousarray(pixels[None, :, top : top + side, left : left + side])).float() / 255
    note = f"{width} x {height}"
    if side > highest:
        x = downscale(x, highest, boundary=about.get("boundary", "circular"))
        note += f", downscaled to {highest} x {highest}"
    elif height != width:
        note += f", centred square of {side} x {side}"
    return _normalised(x, about, invert), note


def _normalised(x: Tensor, about: dict[str, Any], invert: bool) -> Tensor:
    """Images with values in [0, 1] as the model takes them; padding is black, so it comes before normalisation."""
    from fourierscale.functional.enlarging import enlarge_to

    x = 1 - x if invert else x
    if about["fit"] is not None:
        x = enlarge_to(x, about["fit_size"], about["fit"])
    mean, std = (torch.tensor(about[name]).view(-1, 1, 1) for name in ("mean", "std"))
    return (x - mean) / std


def draw_features(model: nn.Module | OnnxClassifier, x: Tensor, most: int = 64, side: int = 84) -> Any:
    """The final feature maps as one grey picture, each channel with its own contrast."""
    from PIL import Image

    from fourierscale.functional import synthesize

    with torch.inference_mode():
        maps: Tensor = model.features(x)  # type: ignore[operator]
        if getattr(model, "features_domain", "coefficients") == "coefficients":
            maps = synthesize(maps, side, boundary_of(model))
        else:
            maps = nn.functional.interpolate(maps.float(), (side, side), mode="nearest")
    maps = maps[0, :most]
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    grey = ((maps - low) / (high - low).clamp(min=1e-12) * 255).round().to(torch.uint8)
    columns = max(1, round(len(grey) ** 0.5))
    rows = -(-len(grey) // columns)
    sheet = torch.full((rows * (side + 2), columns * (side + 2)), 255, dtype=torch.uint8)
    for number, tile in enumerate(grey):
        row, column = divmod(number, columns)
        sheet[row * (side + 2) : row * (side + 2) + side, column * (side + 2) : column * (side + 2) + side] = tile
    return Image.fromarray(sheet.numpy())
