"""``fourierscale audit``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from fourierscale.cli.folders import check_folder
from fourierscale.models.files import write_whole

if TYPE_CHECKING:
    from torch import Tensor

    from fourierscale.auditing import Audit, BeforeAfter
    from fourierscale.cli.found import Found
    from fourierscale.data import FolderOptions
    from fourierscale.models import Preprocessing

__all__ = ["audit"]

SIDES_SHOWN = 8  # resolutions, unless they are given
SIDE = 64  # of random images


def audit(
    models: Annotated[
        list[str],
        typer.Argument(
            help="A model's name, a run's folder, a .safetensors or ONNX file, with --trust a TorchScript (.pt, .pth, "
            ".jit, .ts) or torch.export (.pt2) file, or package.module:function that builds a model; several to see "
            "them one after the other."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Protocol, folder of images, or random; the model's own, or MNIST, if not given."),
    ] = None,
    images: Annotated[int, typer.Option(min=1, help="How many images.")] = 16,
    resolutions: Annotated[
        str | None, typer.Option(help="Sides to downscale to, as 8,14,20 or 8-27; some of the protocol's if not given.")
    ] = None,
    nested: Annotated[
        str | None,
        typer.Option(help="Levels, as 48,68,96: audit the model, and the same inside one nested map of these levels."),
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Kinds of downscaling, with commas, among ideal, gaussian, bicubic, area and jpeg; the first three if "
            "not given, with --nested all."
        ),
    ] = None,
    enlarge: Annotated[
        str | None,
        typer.Option(help="Bring images to one size: zero, reflect, replicate, circular, upsample, or none."),
    ] = None,
    boundary: Annotated[
        str | None,
        typer.Option(
            help="What lies beyond the edge of the images: circular, mirror or canvas; the model's own if not given."
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(min=2, help="Side of the images of a folder, or of random ones.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on without images of a folder that cannot be used.")
    ] = False,
    mean: Annotated[
        str | None, typer.Option(help="Subtracted from each channel of 0..1 pixels, as 0.485,0.456,0.406.")
    ] = None,
    std: Annotated[str | None, typer.Option(help="Each channel is then divided by it, as 0.229,0.224,0.225.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    depth: Annotated[int | None, typer.Option(min=1, help="Only modules whose names have so many parts.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for audit.json, audit.png and audit.html; inside it one for each of several models."),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that already holds the files; looked at first.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Try neither mirrors nor npm.")] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run the program in a TorchScript or torch.export file: it can do all you can."),
    ] = False,
) -> None:
    """Measure how far any model is from scale- and shift-equivariant, layer by layer.

    Prints one table of errors, one of answers, and a sentence: what was found, and where it first breaks.
    """
    from torch import nn

    from fourierscale.auditing import AuditError, audit_nested
    from fourierscale.auditing import audit as measure
    from fourierscale.cli.found import find_model
    from fourierscale.cli.progress import progress_bars
    from fourierscale.functional.bands import check_boundary
    from fourierscale.predicting import find_device

    if out is not None:
        check_folder(out)
    means, stds = numbers("--mean", mean), numbers("--std", std)
    console = Console(highlight=False)
    for number, model in enumerate(models, 1):
        try:
            opened = find_model(model, trust=trust)
            if opened.note:
                console.print(opened.note, soft_wrap=True, markup=False)
            with progress_bars() as report:
                pictures = find_pictures(opened, data, images, size, data_dir, offline, skip_bad, report)
                console.print(pictures.source, soft_wrap=True, markup=False)
                own = with_normalisation(pictures.preprocessing, means, stds)
                if boundary is not None:
                    own = replace(own, boundary=check_boundary(boundary))
                console.print(f"normalised by mean {_listed(own.mean)} and std {_listed(own.std)}", soft_wrap=True)
                pictures = suited(opened, pictures._replace(preprocessing=own), enlarge, console)
                where = find_device(device)
                on_device = opened.model.to(where) if isinstance(opened.model, nn.Module) else opened.model
                options: dict[str, Any] = {
                    "labels": pictures.labels,
                    "preprocessing": pictures.preprocessing,
                    "depth": depth,
                    "report": report,
                }
                if kinds is not None:
                    options["kinds"] = [kind.strip() for kind in kinds.split(",") if kind.strip()]
                asked = None if resolutions is None else _sides(resolutions)
                found: Audit | BeforeAfter
                if nested is None:
                    found = measure(on_device, pictures.images, asked or pictures.resolutions, **options)
                    found = replace(found, model=opened.name)
                else:
                    levels = _sides(nested, "--nested")
                    found = audit_nested(on_device, pictures.images, levels, asked, **options).named(opened.name)
        except ValueError as error:
            raise AuditError(str(error)) from error
        show(found, console, opened.trained)
        if out is not None:
            write(found, out if len(models) == 1 else out / f"{number}-{Path(opened.name).name}", console)
        if number < len(models):
            console.print()


def write(found: Audit | BeforeAfter, folder: Path, console: Console) -> None:
    """The files of one audit."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "audit.json", found.to_json())
    found.save_png(folder / "audit.png")
    found.save_html(folder / "audit.html")
    console.print(f"wrote audit.json, audit.png and audit.html into {folder}", soft_wrap=True, markup=False)


def show(found: Audit | BeforeAfter, console: Console, answers: bool = True) -> None:
    """The tables and the sentence, or what changes inside a nested map."""
    from fourierscale.auditing import BeforeAfter

    console.print()
    console.print(found.table())
    if isinstance(found, BeforeAfter):
        console.print()
        for number, sentence in enumerate(found.sentences):
            style = None if number else "bold green" if found.after.broken is None else "bold red"
            console.print(f"{sentence}.", style=style, soft_wrap=True, markup=False)
        return
    if found.logits and answers:
        console.print()
        console.print(found.logit_table())
    console.print()
    console.print(f"{found.finding}.", style="bold green" if found.broken is None else "bold red", soft_wrap=True)


class Pictures(NamedTuple):
    """Images to audit with.

    Attributes:
        images: ``(N, C, n, n)`` from 0 to 1.
        labels: Of each, where they are the model's classes.
        resolutions: Below ``n``.
        preprocessing: How they become the model's input.
        source: Where they come from, in words.
    """

    images: Tensor
    labels: Tensor | None
    resolutions: list[int]
    preprocessing: Preprocessing
    source: str


def find_pictures(
    opened: Found,
    data: str | None,
    count: int,
    size: int | None,
    data_dir: Path | None = None,
    offline: bool = False,
    skip_bad: bool = False,
    report: Any = None,
) -> Pictures:
    """Images that suit a model: those that are asked for, its own, MNIST's, or random ones if there is no other.

    Of a protocol, and of the folder that the model was trained on, they are test images; any other folder is used
    whole.

    Args:
        opened: The model.
        data: A protocol, a folder of images, or ``random``; None to choose.
        count: How many.
        size: Side of the images of a folder, or of random ones.
        data_dir: Folder that already holds the files.
        offline: Try neither mirrors nor npm.
        skip_bad: Whether to go on without images that cannot be used.
        report: Told how far it is.
    """
    from fourierscale.auditing import AuditError
    from fourierscale.auditing.sizes import spread
    from fourierscale.cli.found import folder_options
    from fourierscale.data import DataError
    from fourierscale.data.protocols import folder_path
    from fourierscale.functional import downscale

    digits = opened.channels in (1, None) and opened.side in (28, None) and size is None
    chosen = data or opened.protocol or ("mnist-scale" if digits else "random")
    if chosen == "random":
        why = "" if data else ", since MNIST does not suit it: give --data for real ones"
        return random_pictures(opened, count, size, why)
    path, own = folder_path(chosen), folder_path(opened.protocol) if opened.protocol else None
    folder = folder_options(opened, chosen)
    if size is not None:
        folder = replace(folder, size=size, lowest=None)
    if skip_bad:
        folder = replace(folder, skip_bad=True)
    try:
        if path is not None and (own is None or own.resolve() != path.resolve()):
            found = _folder_pictures(opened, path, count, folder, report)
        else:
            found = _test_pictures(opened, chosen, count, folder, data_dir, offline, report)
    except DataError as error:
        if data is not None:
            raise
        return random_pictures(opened, count, size, f", since there is no real data ({error})")
    pixels = found.images
    if opened.channels not in (None, pixels.shape[1]):
        raise AuditError(
            f"{opened.name} takes images of {opened.channels} channel(s), {chosen} has {pixels.shape[1]}: choose other "
            "images with --data"
        )
    prepare = _boundary_of(opened, opened.preprocessing or found.preprocessing)
    if opened.enlarge is not None and opened.side is not None and opened.side < pixels.shape[-1]:
        pixels = downscale(pixels, opened.side, boundary=found.preprocessing.boundary)
    n = int(pixels.shape[-1])
    sides = spread([r for r in found.resolutions if r < n] or range(n // 2, n), SIDES_SHOWN)
    return found._replace(images=pixels, resolutions=sides, preprocessing=prepare)


def _folder_pictures(opened: Found, path: Path, count: int, options: FolderOptions, report: Any) -> Pictures:
    """Any images of a folder; their classes count where they are the model's."""
    from fourierscale.data.plain import open_images
    from fourierscale.data.protocols import IMAGENET, IMAGENET_GREY
    from fourierscale.models import Preprocessing

    if opened.channels in (1, 3):
        options = replace(options, colour="grey" if opened.channels == 1 else "rgb")
    found = open_images(path, count, options, report)
    own = opened.preprocessing
    labels = None if own is None else found.labels(own.classes)
    usual = Preprocessing(**(IMAGENET_GREY if found.pixels.shape[1] == 1 else IMAGENET))
    return Pictures(found.pixels, labels, list(found.resolutions), usual, found.note)


def _test_pictures(
    opened: Found,
    name: str,
    count: int,
    folder: FolderOptions,
    data_dir: Path | None,
    offline: bool,
    report: Any,
) -> Pictures:
    """Test images of a protocol or of the model's own folder, which its own seed split off."""
    from fourierscale.data import load_protocol
    from fourierscale.data.protocols import bare_name, folder_path

    own = bare_name(name) == opened.protocol or folder_path(name) is not None
    config = opened.info.get("config", {}).get("data", {}) if own else {}
    options = {key: config[key] for key in ("data_dir", "seed") if config.get(key) is not None}
    if data_dir is not None:
        options["data_dir"] = data_dir
    splits = load_protocol(name, offline=offline, report=report, folder=folder, **options)
    pixels, chosen = splits.test.largest(count)
    known = opened.preprocessing
    labels = splits.test.labels[chosen] if known is not None and known.classes == splits.classes else None
    source = f"{len(pixels)} test images of {name}, from {splits.source}"
    return Pictures(pixels, labels, list(splits.protocol.equivariance), splits.preprocessing, source)


def random_pictures(opened: Found, count: int, size: int | None, why: str) -> Pictures:
    """Band-limited random images whose amplitude falls with frequency, as that of photographs does."""
    import torch

    from fourierscale.auditing.sizes import spread
    from fourierscale.functional import band, grid, synthesize
    from fourierscale.functional.bands import frequencies
    from fourierscale.models import Preprocessing

    channels = opened.channels or 3
    side = size or random_side(opened, channels)
    k = frequencies(grid(band(side)), torch.float32, torch.device("cpu"))
    draw = torch.Generator().manual_seed(0)
    coeffs = torch.randn(count, channels, len(k), len(k), generator=draw) / (1 + torch.hypot(k[:, None], k))
    pixels = synthesize(coeffs, side)
    pixels = 0.5 + 0.2 * (pixels - pixels.mean((-2, -1), keepdim=True)) / pixels.std((-2, -1), keepdim=True)
    source = f"{count} random band-limited images of {channels} x {side} x {side}{why}"
    prepare = Preprocessing(mean=(0.5,) * channels, std=(0.25,) * channels)
    return Pictures(pixels, None, spread(range(side // 3, side), SIDES_SHOWN), _boundary_of(opened, prepare), source)


def suited(opened: Found, pictures: Pictures, enlarge: str | None, console: Console) -> Pictures:
    """Images and resolutions that a model takes; says which, where not every size will do.

    Args:
        opened: The model.
        pictures: The images.
        enlarge: How smaller images are to reach a model of one size, ``"none"`` for not at all; None to choose.
        console: Where it says so.
    """
    from fourierscale.auditing.sizes import fit_images
    from fourierscale.models import ImageModel

    images, prepare = pictures.images, pictures.preprocessing
    way: Any = None if enlarge == "none" else (enlarge or opened.enlarge)
    if way is not None and (opened.side is not None or isinstance(opened.model, ImageModel)):
        side = max(opened.side or 0, int(images.shape[-1]))
        return pictures._replace(preprocessing=replace(prepare, enlarge=way, enlarge_size=side))
    if enlarge == "none" or isinstance(opened.model, ImageModel):
        return pictures
    images, resolutions, prepare, taken = fit_images(opened.model, images, prepare, way or "zero")
    if str(taken) != "images of any size":
        reached = "" if prepare.enlarge is None else f"; smaller ones reach it by {prepare.enlarge}, --enlarge says how"
        console.print(f"{opened.name} takes {taken}{reached}", soft_wrap=True, markup=False)
    elif way is not None:
        prepare = replace(prepare, enlarge=way, enlarge_size=int(images.shape[-1]))
    else:
        resolutions = [side for side in pictures.resolutions if side >= resolutions[0]] or resolutions
    return Pictures(images, pictures.labels, resolutions, prepare, pictures.source)


def random_side(opened: Found, channels: int) -> int:
    """Side of random images: of several sizes that the model takes, not only of one."""
    import torch

    from fourierscale.auditing.sizes import find_sizes, place_of
    from fourierscale.models import ImageModel

    if opened.side is not None or isinstance(opened.model, ImageModel):
        return opened.side or SIDE
    example = torch.zeros(1, channels, SIDE, SIDE)
    taken = find_sizes(opened.model, example.to(*place_of(opened.model, example)))
    return taken.side or taken.most or max(SIDE, 4 * taken.sizes.stride)


def _boundary_of(opened: Found, prepare: Preprocessing) -> Preprocessing:
    """A preprocessing with the boundary of the model itself, where it has one."""
    from fourierscale.models import ImageModel

    return replace(prepare, boundary=opened.model.boundary) if isinstance(opened.model, ImageModel) else prepare


def numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Numbers with commas between; none where the option is not given."""
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{option} takes numbers with commas between, got {text}") from None


def with_normalisation(prepare: Preprocessing, mean: tuple[float, ...], std: tuple[float, ...]) -> Preprocessing:
    """A preprocessing with means and stds of the user's, one for all channels or one for each."""
    given = {name: values for name, values in (("mean", mean), ("std", std)) if values}
    for name, values in given.items():
        if len(values) not in (1, prepare.channels):
            raise typer.BadParameter(f"--{name} takes 1 number or {prepare.channels}, got {len(values)}")
    each: dict[str, Any] = {name: values * (prepare.channels // len(values)) for name, values in given.items()}
    try:
        return replace(prepare, **each)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _sides(text: str, option: str = "--resolutions") -> list[int]:
    """Numbers with commas, and spans of them: ``8,12,20-28``."""
    from fourierscale.auditing import AuditError

    sides: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise AuditError(f"{option}: expected numbers as 8,14,20 or 8-27, got {text!r}")
        sides += range(int(first), int(last) + 1) if dash else [int(first)]
    return sides
