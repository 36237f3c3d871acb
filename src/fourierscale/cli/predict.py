"""``fourierscale predict``."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn

from fourierscale.cli.folders import check_folder
from fourierscale.cli.found import MODEL_HELP
from fourierscale.cli.predict_maps import find_maps, predict_maps
from fourierscale.cli.progress import progress_bars
from fourierscale.data.errors import DataError
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.export.errors import ExportError
from fourierscale.models import Answer, ImageModel
from fourierscale.models.files import replacing
from fourierscale.predicting import Classifier, Invert, Refused, each_image

__all__ = ["predict"]

ONNX_FILE = "model.onnx"


def predict(
    model: Annotated[str, typer.Argument(help=f"{MODEL_HELP} Or an ONNX file that 'fourierscale export' wrote.")],
    images: Annotated[
        list[Path],
        typer.Argument(
            help="Image files of any size, grey or coloured, or folders of them; of fields .npy or .npz files."
        ),
    ],
    sure: Annotated[
        float | None, typer.Option(help="Stop at the coarsest level whose probability is at least this.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes to name.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, on standard output.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A table with commas, on standard output.")] = False,
    invert: Annotated[
        Invert,
        typer.Option(help="Swap black and white; auto: where light ink is wanted and the image's border is light."),
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    onnx: Annotated[
        bool, typer.Option("--onnx", help=f"Use MODEL's ONNX file: {ONNX_FILE} of a run, or a file of any name.")
    ] = False,
    features: Annotated[Path | None, typer.Option(help="Folder to write a picture of the feature maps in.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the masks or fields of a model that gives maps.")] = Path(
        "masks"
    ),
    factory: Annotated[
        str | None, typer.Option(help="The function that built a net of yours, package.module:function.")
    ] = None,
) -> None:
    """Classify image files: the class and its probability; for files that are named, at every level, coarse to fine.

    The largest centred square is used. One that is larger than the model's images is ideally downscaled to their size.
    A folder stands for every image in it and below, and each of them gets one line.
    An ONNX file has certain sizes: images are downscaled to the largest that fits.
    A model of a folder of yours takes images as it did in training, at the highest level that they have.
    A file that is no such image is named, and the others go on; the exit status is then 2.
    A model of masks writes a PNG of each image's own size into --out, whose values are the numbers of the classes in
    the order in which training told them.
    """
    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    if features is not None:
        check_folder(features, "--features")
    maps = None if onnx else find_maps(model, factory)
    if maps is not None:
        if predict_maps(maps, images, out):
            raise typer.Exit(2)
        return
    try:
        classifier = Classifier(_onnx_file(model) if onnx else model, device=device, invert=invert)
        if sure is not None and not 0 < sure <= 1:
            raise ValueError(f"--sure is a probability above 0 and at most 1, got {sure}")
    except ValueError as error:
        raise DataError(str(error)) from error
    if features is not None and isinstance(classifier.model, OnnxClassifier):
        classifier.model.check_features()
    files = [name for _, name in each_image(images)]
    refused, drawn = 0, set[Path]()
    write = _json if as_json else _csv(top) if as_csv else _lines(not any(path.is_dir() for path in images))
    with progress_bars() as report:
        for done, answer in enumerate(_answers(classifier, images, sure, model), 1):
            if isinstance(answer, Refused):
                refused += 1
                typer.echo(f"fourierscale: {' '.join(str(answer.error).split())}", err=True)
            write(answer, top)
            if features is not None and isinstance(answer, Answer):
                target = _unused(features, Path(answer.name).stem, drawn)
                features.mkdir(parents=True, exist_ok=True)
                x = classifier.prepare(answer.name).pixels[None].to(classifier.device)
                with replacing(target) as partial:
                    draw_features(classifier.model, classifier.preprocessing(x)).save(partial)
                drawn.add(target)
                typer.echo(f"  wrote {target}", err=as_json or as_csv)
            report("predicting", done / len(files))
    if refused:
        raise typer.Exit(2)


def _answers(classifier: Classifier, images: list[Path], sure: float | None, model: str) -> Iterator[Answer | Refused]:
    """The answers; a model whose description is about another has none."""
    try:
        yield from classifier.stream(images, sure=sure)
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{model} gives no answer: {error}") from error


def _onnx_file(model: str) -> str | OnnxClassifier:
    """The ONNX file of a run's folder, or a file of any name."""
    path = Path(model).expanduser()
    return OnnxClassifier(path / ONNX_FILE if path.is_dir() else path)


def _lines(levels: bool) -> Callable[[Answer | Refused, int], None]:
    """For people: a line for each image, and one for each level where these are wanted."""

    def write(answer: Answer | Refused, top: int) -> None:
        if isinstance(answer, Refused):
            return
        others = "".join(f", {label} {value:.4f}" for label, value in answer.top(top)[1:])
        notes = f"  ({', '.join(answer.notes)})"
        typer.echo(f"{answer.name}: {typer.style(answer.label, bold=True)} {answer.probability:.4f}{others}{notes}")
        if levels:
            width = max(map(len, answer.levels), default=0)
            for name, label, value in answer.per_level():
                typer.echo(f"  {name:>{width}} px  {value:.4f}  {label}")

    return write


def _json(answer: Answer | Refused, top: int) -> None:
    """For programs: an object a line."""
    told = {"image": answer.name, "error": str(answer.error)} if isinstance(answer, Refused) else answer.to_dict(top)
    typer.echo(json.dumps(told))


def _csv(top: int) -> Callable[[Answer | Refused, int], None]:
    """For spreadsheets: a row for each image, the header first."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    ranks = ["", *(f" {rank}" for rank in range(2, top + 1))]
    header = [f"{name}{rank}" for rank in ranks for name in ("label", "probability")]
    writer.writerow(["image", *header, "notes", "error"])

    def write(answer: Answer | Refused, top: int) -> None:
        if isinstance(answer, Refused):
            writer.writerow([answer.name, *[""] * len(header), "", str(answer.error)])
            return
        best = [value for pair in answer.top(top) for value in (pair[0], f"{pair[1]:.6f}")]
        writer.writerow([answer.name, *best, *[""] * (len(header) - len(best)), ", ".join(answer.notes), ""])

    return write


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
