"""``fourierscale predict``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn

from fourierscale.cli.folders import check_folder
from fourierscale.cli.found import MODEL_HELP, find_trained
from fourierscale.cli.predict_maps import predict_maps
from fourierscale.data.decode import open_image
from fourierscale.data.errors import DataError, FormatError
from fourierscale.data.folder import image_files
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.export.errors import ExportError
from fourierscale.models import ImageModel, MapModel

__all__ = ["predict"]


def predict(
    model: Annotated[str, typer.Argument(help=f"{MODEL_HELP} Or an ONNX file that 'fourierscale export' wrote.")],
    images: Annotated[
        list[Path],
        typer.Argument(
            help="Image files of any size, grey or coloured, or folders of them; of fields .npy or .npz files."
        ),
    ],
    onnx: Annotated[bool, typer.Option("--onnx", help="MODEL is an ONNX file, as every name in .onnx says.")] = False,
    features: Annotated[Path | None, typer.Option(help="Folder to write a picture of the feature maps in.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the masks or fields of a model that gives maps.")] = Path(
        "masks"
    ),
    factory: Annotated[
        str | None, typer.Option(help="The function that built a net of yours, package.module:function.")
    ] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Swap black and white, for dark ink on paper.")] = False,
) -> None:
    """Classify image files: the class and its probability at every level, coarse to fine. Or write masks, or fields.

    The largest centred square is used. One that is larger than the model's images is ideally downscaled to their size.
    A folder stands for every image in it and below.
    An ONNX file has certain sizes: images are downscaled to the largest that fits.
    A model of a folder of yours takes images as it did in training, at the highest level that they have.
    A file that is no such image is named, and the others go on; the exit status is then 2.
    A model of masks writes a PNG of each image's own size into --out, whose values are the numbers of the classes in
    the order in which training told them.
    """
    from rich.console import Console
    from rich.markup import escape

    if features is not None:
        check_folder(features, "--features")

    classifier: ImageModel | OnnxClassifier
    if onnx or model.endswith(".onnx"):
        classifier = OnnxClassifier(model)
        if features is not None:
            classifier.check_features()
        prepare = classifier.preprocessing
    else:
        found = find_trained(model, factory)
        classifier, prepare = found.model, found.preprocessing
        if isinstance(classifier, MapModel):
            paths = [file for given in images for file in _files(given)]
            if predict_maps(classifier, prepare, found.task, paths, out):
                raise typer.Exit(2)
            return
    console = Console(highlight=False)
    refused, drawn = False, set[Path]()
    for path in (file for given in images for file in _files(given)):
        try:
            pixels, note = open_image(path, prepare)
            if fault := prepare.faults(pixels)[0]:
                raise FormatError(f"{path}: {fault}")
        except (DataError, OSError) as error:
            typer.echo(f"fourierscale: {' '.join(str(error).split())}", err=True)
            refused = True
            continue
        try:
            x = prepare(1 - pixels if invert else pixels)
            with torch.inference_mode():
                answer = prepare.answers(classifier(x), classifier.level_names(int(x.shape[-1])))[0]
        except (ValueError, RuntimeError) as error:  # a model whose description is about another
            raise ExportError(f"{model} gives no answer for {path}: {error}") from error
        told = f"{escape(str(path))}: [bold]{escape(answer.label)}[/bold] {answer.probability:.4f}  ({note})"
        console.print(told, soft_wrap=True)
        width = max(map(len, answer.levels))
        for name, label, value in answer.per_level():
            console.print(f"  {name:>{width}} px  {value:.4f}  {label}", markup=False)
        if features is not None:
            target = _unused(features, path.stem, drawn)
            features.mkdir(parents=True, exist_ok=True)
            draw_features(classifier, x).save(target)
            drawn.add(target)
            console.print(f"  wrote {target}", markup=False, soft_wrap=True)
    if refused:
        raise typer.Exit(2)


def _files(path: Path) -> list[Path]:
    """The images of a folder, or the file itself; an empty folder is refused where it is read, as any other file."""
    return (image_files(path) or [path]) if path.is_dir() else [path]


def _unused(folder: Path, stem: str, used: set[Path]) -> Path:
    """A name for a picture that no other image of this call has, for images of one name in several folders."""
    ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(name for end in ends if (name := folder / f"{stem}{end}-features.png") not in used)


def draw_features(model: ImageModel | OnnxClassifier, x: Tensor, most: int = 64, side: int = 84) -> Any:
    """The final feature maps as one grey picture, each channel with its own contrast."""
    from PIL import Image

    from fourierscale.functional import synthesize

    with torch.inference_mode():
        maps = model.features(x)
        if model.domain == "coefficients":
            maps = synthesize(maps, side, model.boundary)
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
