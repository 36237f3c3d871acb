"""Decode one image file to an array, whatever is in the file."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.errors import CorruptFileError, DataError, FormatError

__all__ = ["MAX_PIXELS", "Colour", "decode_image"]

Colour = Literal["rgb", "grey"]
MAX_PIXELS = 64_000_000  # an 8000 x 8000 photograph
EIGHT_BIT_MODES = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}


def decode_image(
    file: Path | IO[bytes],
    name: str | None = None,
    colour: Colour = "rgb",
    size: int | None = None,
    max_pixels: int = MAX_PIXELS,
) -> NDArray[np.uint8]:
    """Decode an image with Pillow, upright (EXIF orientation applied), as ``(C, H, W)`` unsigned bytes.

    Args:
        file: Path or open file.
        name: What to call the file in messages; its path if not given.
        colour: ``"rgb"`` for 3 channels, ``"grey"`` for 1.
        size: If given, the largest centred square is resized (antialiased bicubic) to ``size`` x ``size``.
        max_pixels: Refuse images with more pixels than this before decoding them.

    Raises:
        FormatError: More than ``max_pixels`` pixels, or more than 8 bits per channel.
        CorruptFileError: Pillow cannot read the file.
    """
    from PIL import Image, ImageOps

    name = str(file) if name is None else name
    try:
        with Image.open(file) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise FormatError(f"{name}: {width} x {height} pixels, more than the limit of {max_pixels}")
            if image.mode not in EIGHT_BIT_MODES:
                raise FormatError(f"{name}: expected 8 bits per channel, got mode {image.mode}; convert the file first")
            upright = ImageOps.exif_transpose(image)
            if "transparency" in upright.info and upright.mode == "P":
                upright = upright.convert("RGBA")  # Pillow warns about the direct way
            upright = upright.convert("RGB" if colour == "rgb" else "L")
            if size is not None and upright.size != (size, size):
                upright = ImageOps.fit(upright, (size, size), method=Image.Resampling.BICUBIC)
            pixels = np.array(upright, dtype=np.uint8)
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FormatError(f"{name}: too many pixels to be decoded safely (limit {max_pixels})") from error
    except Exception as error:  # on damaged files Pillow's decoders raise nearly every built-in exception
        raise CorruptFileError(f"{name}: cannot be read as an image ({error or type(error).__name__})") from error
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
