"""Images made smaller as people do it: ideally, and in the ways of the tools that they use."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from fourierscale.auditing.errors import AuditError
from fourierscale.functional.resample import Kind, downscale
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["RESIZINGS", "Resizing", "make_smaller"]

Resizing: TypeAlias = Literal["ideal", "gaussian", "bicubic", "area", "jpeg"]
"""How images are made smaller; see :func:`make_smaller`."""
RESIZINGS: tuple[Resizing, ...] = get_args(Resizing)
QUALITY = 75
"""Of JPEG files, Pillow's own."""


def make_smaller(x: Tensor, side: int, kind: Resizing, preprocessing: Preprocessing = Preprocessing()) -> Tensor:  # noqa: B008
    """Images of a smaller side.

    - ``"ideal"``, ``"gaussian"``, ``"bicubic"``: as :func:`fourierscale.functional.downscale` does it.
    - ``"area"``: the mean of the pixels that a smaller one covers, as thumbnails are often made.
    - ``"jpeg"``: bicubic, then saved as a JPEG file of quality 75 and read again: eight bits, coarser colours.

    Args:
        x: Images ``(B, C, n, n)``; for ``"jpeg"`` grey or colour, from 0 to 1.
        side: Of the smaller images.
        kind: One of the above.
        preprocessing: Says what lies beyond the edge of the images.

    Raises:
        AuditError: Images that no JPEG file can hold.

    >>> make_smaller(torch.rand(1, 3, 12, 12), 8, "jpeg").shape
    torch.Size([1, 3, 8, 8])
    """
    if kind == "area":
        return F.interpolate(x, (side, side), mode="area")
    if kind == "jpeg":
        return _through_jpeg(downscale(x, side, "bicubic"))
    known: Kind = kind
    return replace(preprocessing, kind=known).downscale(x, side)


def _through_jpeg(x: Tensor) -> Tensor:
    """Images as JPEG files give them back."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("JPEG files need Pillow: pip install 'fourierscale[data]'") from None
    if x.shape[1] not in (1, 3) or float(x.min()) < -1 or float(x.max()) > 2:
        span = f"{float(x.min()):.3g} to {float(x.max()):.3g}"
        raise AuditError(
            f"expected grey or colour pixels from 0 to 1 for JPEG files, got {x.shape[1]} channels from {span}: leave "
            "out the kind jpeg, or give pixels and a preprocessing"
        )
    pixels = (255 * x.detach().double().clamp(0, 1)).round().byte().movedim(1, -1).cpu().numpy()
    read = []
    for image in pixels:
        file = io.BytesIO()
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "JPEG", quality=QUALITY)
        opened = Image.open(file)
        values = torch.frombuffer(bytearray(opened.tobytes()), dtype=torch.uint8)
        read.append(values.view(opened.height, opened.width, -1).movedim(-1, 0))
    return torch.stack(read).to(x) / 255
