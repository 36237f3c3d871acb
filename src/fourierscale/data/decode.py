"""Decode one image file to an array, whatever is in the file."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.errors import CorruptFileError, DataError, FormatError
from fourierscale.models.files import check_regular
from fourierscale.models.preprocessing import Shape

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["MAX_PIXELS", "Colour", "Header", "Shape", "decode_image", "decode_layers", "opened_image", "read_header"]

Colour: TypeAlias = Literal["rgb", "grey"]
MAX_PIXELS = 64_000_000  # an 8000 x 8000 photograph
EIGHT_BIT_MODES = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
SIXTEEN_BIT_MODES = {"I;16", "I;16L", "I;16B", "I;16N"}
KNOWN_MODES = EIGHT_BIT_MODES | SIXTEEN_BIT_MODES
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # the EXIF entry, and its values that exchange width and height


@dataclass(frozen=True)
class Header:
    """What a file says about its image before it is decoded: its size, upright, and Pillow's name of its colours."""

    height: int
    width: int
    mode: str


def read_header(path: Path, max_pixels: int = MAX_PIXELS) -> Header:
    """Read the header of an image file.

    Raises:
        FormatError: As :func:`decode_image`.
        CorruptFileError: The file is no image. Damage behind the header is found by decoding alone.
    """
    with opened_image(path, str(path), max_pixels) as image:
        turned = image.getexif().get(ORIENTATION) in TURNED
        width, height = image.size[::-1] if turned else image.size
        return Header(height, width, image.mode)


def decode_image(
    file: Path | IO[bytes] | Picture,
    name: str | None = None,
    colour: Colour = "rgb",
    size: int | None = None,
    max_pixels: int = MAX_PIXELS,
    shape: Shape = "crop",
) -> NDArray[np.uint8]:
    """Decode an image with Pillow, upright (EXIF orientation applied), as ``(C, H, W)`` unsigned bytes.

    What is transparent shows white; 16 bits of grey become 8, divided by 257.

    Args:
        file: Path, open file, or image of Pillow.
        name: What to call the file in messages; its path if not given.
        colour: ``"rgb"`` for 3 channels, ``"grey"`` for 1.
        size: If given, the image is resized (antialiased bicubic) to ``size`` x ``size``.
        max_pixels: Refuse images with more pixels than this before decoding them.
        shape: What is resized: the largest centred square (``"crop"``), or all of the image (``"whole"``).

    Raises:
        FormatError: More than ``max_pixels`` pixels, or more than 8 bits per channel of another kind than grey.
        CorruptFileError: Pillow cannot read the file.
    """
    from PIL import Image, ImageOps

    with opened_image(file, str(file) if name is None else name, max_pixels) as image:
        if size is not None:
            image.draft(None, (2 * size, 2 * size))  # JPEG alone: a large photograph is decoded at a half, ..., an 8th
        upright = _on_white(_eight_bits(ImageOps.exif_transpose(image))).convert("RGB" if colour == "rgb" else "L")
        if size is not None and upright.size != (size, size):
            if shape == "crop":
                upright = ImageOps.fit(upright, (size, size), method=Image.Resampling.BICUBIC)
            else:
                upright = upright.resize((size, size), Image.Resampling.BICUBIC)
        pixels = np.array(upright, dtype=np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def decode_layers(file: Path | IO[bytes] | Picture, name: str, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode an image upright with the layers it has, ``(C, H, W)``: 1 is grey, 3 are colours, 4 have opacity too.

    Args:
        file: Path, open file, or image of Pillow.
        name: What to call it in messages.
        max_pixels: As for :func:`decode_image`, as what is raised.
    """
    from PIL import ImageOps

    with opened_image(file, name, max_pixels) as image:
        upright = _eight_bits(ImageOps.exif_transpose(image))
        if upright.mode != "RGBA":
            upright = upright.convert("L" if upright.mode in ("1", "L") else "RGB")
        pixels = np.array(upright, dtype=np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


@contextmanager
def opened_image(
    file: Path | IO[bytes] | Picture, name: str, max_pixels: int = MAX_PIXELS, modes: Set[str] = KNOWN_MODES
) -> Iterator[Picture]:
    """An image whose size and kind are fine; whatever Pillow raises becomes one of this library's errors."""
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(file, Path):
            check_regular(file)
        with nullcontext(file) if isinstance(file, Image.Image) else Image.open(file) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise FormatError(f"{name}: {width} x {height} pixels, more than the limit of {max_pixels}")
            if image.mode not in modes:
                raise FormatError(f"{name}: expected 8 bits per channel, got mode {image.mode}; convert the file first")
            yield image
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FormatError(f"{name}: too many pixels to be decoded safely (limit {max_pixels})") from error
    except Exception as error:  # on damaged files Pillow's decoders raise nearly every built-in exception
        reason = str(error) or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            empty = isinstance(file, Path) and file.stat().st_size == 0
            reason = "the file is empty" if empty else "not in a format that Pillow knows"
        elif isinstance(error, OSError) and error.strerror:
            reason = error.strerror.lower()
        raise CorruptFileError(f"{name}: cannot be read as an image ({reason})") from error


def _eight_bits(image: Picture) -> Picture:
    """8 bits per channel, with opacity as RGBA."""
    from PIL import Image

    if image.mode in SIXTEEN_BIT_MODES:
        return Image.fromarray((np.asarray(image).astype(np.float64) / 257).round().astype(np.uint8))
    transparent = image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info
    return image.convert("RGBA") if transparent else image


def _on_white(image: Picture) -> Picture:
    from PIL import Image

    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image) if image.mode == "RGBA" else image
