"""``fourierscale predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn

from fourierscale.commands.found import MODEL_HELP, find_model

__all__ = ["predict"]


def predict(
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    images: Annotated[list[Path], typer.Argument(help="Image files of any size, grey or coloured.")],
    features: Annotated[Path | None, typer.Option(help="Folder to write a picture of the feature maps in.")] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Swap black and white, for dark ink on paper.")] = False,
) -> None:
    """Classify image files: the class and its probability at every level, coarse to fine.

    The largest centred square is used. One that is larger than the model's images is ideally downscaled to their size.
    """
    from rich.console import Console

    found = find_model(model)
    prepared = [(path, *load_image(path, found.data, invert)) for path in images]
    if features is not None:
        features.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    for path, x, note in prepared:
        with torch.inference_mode():
            logits = found.model(x)
        logits = logits[:, None] if logits.ndim == 2 else logits
        names = level_names(found.model, x)[-logits.shape[1] :]
        probabilities = logits[0].float().softmax(-1)
        best, label = probabilities[-1].max(-1)
        classes = found.data["classes"]
        console.print(f"{path}: [bold]{classes[int(label)]}[/bold] {best:.4f}  ({note})", soft_wrap=True)
        for name, row in zip(names, probabilities, strict=True):
            value, at = row.max(-1)
            console.print(f"  {name:>4} px  {value:.4f}  {classes[int(at)]}", markup=False)
        if features is not None:
            target = features / f"{path.stem}-features.png"
            draw_features(found.model, x).save(target)
            console.print(f"  wrote {target}", markup=False, soft_wrap=True)


def load_image(path: Path, about: dict[str, Any], invert: bool = False) -> tuple[Tensor, str]:
    """An image as the model takes it, ``(1, C, m, m)``, and what was done to it in words."""
    from fourierscale.data.decode import decode_image
    from fourierscale.data.errors import FormatError
    from fourierscale.data.fit import fit_to
    from fourierscale.functional import downscale

    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    pixels = decode_image(path, colour="grey" if about["channels"] == 1 else "rgb")
    height, width = pixels.shape[1:]
    side, lowest, highest = min(height, width), min(about["resolutions"]), max(about["resolutions"])
    if side < lowest:
        raise FormatError(f"{path}: {width} x {height} pixels, the model needs at least {lowest} x {lowest}")
    top, left = (height - side) // 2, (width - side) // 2
    x = torch.from_numpy(np.ascontiguousarray(pixels[None, :, top : top + side, left : left + side])).float() / 255
    x = 1 - x if invert else x
    note = f"{width} x {height}"
    if side > highest:
        x = downscale(x, highest, boundary=about.get("boundary", "circular"))
        note += f", downscaled to {highest} x {highest}"
    elif height != width:
        note += f", centred square of {side} x {side}"
    if about["fit"] is not None:
        x = fit_to(x, about["fit_size"], about["fit"])
    mean, std = (torch.tensor(about[name]).view(-1, 1, 1) for name in ("mean", "std"))
    return (x - mean) / std, note


def level_names(model: nn.Module, x: Tensor) -> list[str]:
    """The resolution that each level stands for: the smallest grid of its band, the image's own for the last."""
    from fourierscale.functional import grid

    size = int(x.shape[-1])
    levels_of = getattr(model, "levels_of", None)
    if levels_of is None:
        return [str(size)]
    boundary = getattr(getattr(model, "net", None), "boundary", "circular")
    return [*(str(grid(max(level), boundary)) for level in levels_of((size, size))[:-1]), str(size)]


def draw_features(model: nn.Module, x: Tensor, most: int = 64, side: int = 84) -> Any:
    """The final feature maps as one grey picture, each channel with its own contrast."""
    from PIL import Image

    from fourierscale.functional import synthesize

    with torch.inference_mode():
        maps = model.features(x)  # type: ignore[operator]
        if getattr(model, "features_domain", "coefficients") == "coefficients":
            maps = synthesize(maps, side, getattr(getattr(model, "net", None), "boundary", "circular"))
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
