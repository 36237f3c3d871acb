"""Any image, a file, a picture or an array, as pixels that a model takes; and what was done to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourierscale.data.decode import Colour, decode_image, decode_layers, read_header
from fourierscale.data.errors import FormatError
from fourierscale.functional import downscale
from fourierscale.models.preprocessing import Preprocessing, dark_on_light

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["Image", "Invert", "Prepared", "prepare_image", "to_layers"]

Invert: TypeAlias = Literal["auto", "yes", "no"]
"""Whether black and white are swapped; ``"auto"``: where the model wants light ink and the image's border is light."""

Image: TypeAlias = "str | Path | Picture | NDArray[Any] | Tensor"
"""One image: a file, a picture of Pillow, or an array ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``."""

LAYERS = (1, 3, 4)  # grey, colour, colour with opacity
SLACK = 0.25  # how far floats may lie outside 0..1: ideal downscaling rings
SWAPPED = "black and white swapped, for dark ink on light paper"


@dataclass(frozen=True, eq=False)
class Prepared:
    """An image as a model takes it.

    Attributes:
        pixels: ``(C, m, m)``, from 0 to 1.
        name: The file, or what else it is called.
        notes: What was done, a phrase each; the first is the size it had.
    """

    pixels: Tensor
    name: str
    notes: tuple[str, ...]


def prepare_image(source: Image, preprocessing: Preprocessing, invert: Invert = "auto", name: str = "") -> Prepared:
    """One image of any size and kind as pixels of a size that a model takes.

    Its largest centred square is ideally downscaled if it is larger than the model's images; a model of a folder takes
    images as it did in training. What is transparent shows white; where the model wants light ink and the ink is light,
    it shows black.

    Args:
        source: The image; arrays are unsigned bytes, 16 bits, or floats from 0 to 1.
        preprocessing: The model's.
        invert: Whether black and white are swapped.
        name: What to call it; a file's path if not given.

    Raises:
        FormatError: As :func:`fourierscale.data.decode.decode_image`, for an image that is too small for the model or
            blank, and for an array that is no image.
        CorruptFileError: Pillow cannot read the file.

    >>> digits = Preprocessing(sizes=(8, 28), polarity="light on dark")
    >>> paper = np.full((200, 300, 3), 255, dtype=np.uint8)
    >>> paper[60:140, 140:160] = 20
    >>> prepare_image(paper, digits).notes[1:3]
    ('centred square of 200 x 200', 'downscaled to 28 x 28')
    """
    if isinstance(source, (str, Path)):
        source = Path(source)
        name = name or str(source)
        if not source.is_file():
            what = "it is a folder without images" if source.is_dir() else "there is no such file"
            raise FileNotFoundError(f"{source}: {what}")
    name = name or "the image"
    if preprocessing.shape is None:
        pixels, notes = _square(to_layers(source, name), preprocessing, name)
    else:
        pixels, notes = _as_in_training(source, preprocessing, name)
    swap = invert == "yes"
    if invert == "auto" and preprocessing.polarity == "light on dark":
        swap = bool(dark_on_light(pixels))
    if swap:
        pixels, notes = 1 - pixels, [*notes, SWAPPED]
    if fault := Preprocessing.faults(pixels[None])[0]:
        raise FormatError(f"{name}: {fault}")
    return Prepared(pixels, name, tuple(notes))


def to_layers(source: Image, name: str = "the image") -> Tensor:
    """An image as ``(C, H, W)`` with one, three or four layers: unsigned bytes, or floats from 0 to 1."""
    if not isinstance(source, (np.ndarray, Tensor)):
        if isinstance(source, str):
            source = Path(source)
        return torch.from_numpy(decode_layers(source, name))
    x = torch.from_numpy(np.ascontiguousarray(source)) if isinstance(source, np.ndarray) else source.detach().cpu()
    if x.ndim == 2:
        x = x[None]
    elif x.ndim == 3 and x.shape[-1] in LAYERS and x.shape[0] not in LAYERS:
        x = x.movedim(-1, 0)
    if x.ndim != 3 or x.shape[0] not in LAYERS:
        raise FormatError(
            f"{name}: expected (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels, got {tuple(source.shape)}"
        )
    if 0 in x.shape:
        raise FormatError(f"{name}: expected pixels, got an array of shape {tuple(source.shape)}")
    if x.dtype == torch.uint8:
        return x
    if x.dtype == torch.bool:
        return x.to(torch.uint8) * 255
    if x.dtype == torch.uint16:
        return x.float() / 65535
    if not x.is_floating_point():
        raise FormatError(f"{name}: expected bytes (uint8), 16 bits or floats from 0 to 1, got {x.dtype}")
    low, high = float(x.min()), float(x.max())
    if not (low >= -SLACK and high <= 1 + SLACK):  # also where a pixel is no number
        remedy = "divide by 255" if high > 4 else "give pixels as they are, normalising them is done here"
        raise FormatError(f"{name}: expected floats from 0 to 1, got {low:.3g} to {high:.3g}: {remedy}")
    return x.float()


def _square(layers: Tensor, preprocessing: Preprocessing, name: str) -> tuple[Tensor, list[str]]:
    """The largest centred square, in the model's colours, ideally downscaled to a size that the model takes."""
    height, width = layers.shape[1:]
    notes, side = [f"{width} x {height}"], min(height, width)
    size = _size(preprocessing, height, width, name)
    top, left = (height - side) // 2, (width - side) // 2
    layers = layers[:, top : top + side, left : left + side]
    if height != width:
        notes.append(f"centred square of {side} x {side}")
    x = layers.float() / 255 if layers.dtype == torch.uint8 else layers
    if len(x) == 4:
        x, shown = _opaque(x, preprocessing.polarity is not None)
        notes += [shown] if shown else []
    x = _coloured(x, preprocessing.channels)
    if side > size:  # channel by channel: a large photograph takes gigabytes in double precision
        x = torch.stack([downscale(channel, size, boundary=preprocessing.boundary) for channel in x])
        notes.append(f"downscaled to {size} x {size}")
    return x, notes


def _as_in_training(source: Image, preprocessing: Preprocessing, name: str) -> tuple[Tensor, list[str]]:
    """The image resized by Pillow, as the images of a folder are for training."""
    shape, colour = preprocessing.shape or "crop", _colour(preprocessing.channels)
    if isinstance(source, (str, Path)):
        file: Any = Path(source)
        header = read_header(file)
        height, width = header.height, header.width
    else:
        from PIL import Image as Pictures

        layers = to_layers(source, name)
        height, width = layers.shape[1:]
        if layers.dtype != torch.uint8:
            layers = (layers.clamp(0, 1) * 255).round().to(torch.uint8)
        file = Pictures.fromarray(layers.movedim(0, -1).squeeze(-1).contiguous().numpy())
    size = _size(preprocessing, height, width, name)
    pixels = torch.from_numpy(decode_image(file, name, colour, size, shape=shape)).float() / 255
    notes = [f"{width} x {height}"]
    if not width == height == size:
        notes.append(f"{'all of it' if shape == 'whole' else 'centred square'} at {size} px")
    return pixels, notes


def _size(preprocessing: Preprocessing, height: int, width: int, name: str) -> int:
    try:
        return preprocessing.size_for(height, width)
    except ValueError as error:
        raise FormatError(f"{name}: {error}") from None


def _colour(channels: int) -> Colour:
    return "grey" if channels == 1 else "rgb"


def _opaque(layers: Tensor, ink: bool) -> tuple[Tensor, str]:
    """Colours and opacity ``(4, H, W)`` as colours, and what is behind them in words; empty where nothing shows."""
    colours, opacity = layers[:3], layers[3:]
    if bool((opacity >= 1).all()):
        return colours, ""
    weight = opacity.sum().clamp(min=1e-6)
    behind = 0.0 if ink and bool((_coloured(colours, 1) * opacity).sum() / weight > 0.5) else 1.0
    return colours * opacity + behind * (1 - opacity), f"what is transparent shown {'white' if behind else 'black'}"


def _coloured(x: Tensor, channels: int) -> Tensor:
    """Grey from colours (ITU-R 601, as Pillow), or colours from grey."""
    if len(x) == channels:
        return x
    if len(x) == 3:
        return (x * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(0, keepdim=True)
    return x.expand(channels, -1, -1)
