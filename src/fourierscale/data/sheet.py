"""A picture of a dataset: one row of images for each resolution, pixel by pixel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from fourierscale.data.scaled import ScaledDataset

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["contact_sheet"]

GAP, MARGIN, TITLE, LABEL = 6, 20, 44, 72  # pixels
PAPER, INK, FAINT = (250, 250, 248), (30, 30, 34), (120, 120, 126)
ROWS = 25  # more than this are set in two panels
MOST_ROWS = 2 * ROWS


def contact_sheet(dataset: ScaledDataset, title: str, columns: int = 10) -> Picture:
    """Draw some images of every resolution, each enlarged to the same cell by repeating its pixels.

    Args:
        dataset: The images; their normalisation is undone.
        title: Set above them.
        columns: Images in a row, classes in turn.

    Returns:
        A Pillow image. Of more than 50 resolutions, 50 are drawn, evenly spaced.
    """
    from PIL import Image, ImageDraw, ImageFont

    resolutions = _some(np.unique(dataset.item_resolutions).tolist())  # of a folder, levels may have no image
    panels = math.ceil(len(resolutions) / ROWS)
    rows = math.ceil(len(resolutions) / panels)
    largest = max(dataset.preprocessing.enlarge_size or 0, resolutions[-1])
    cell = largest * max(1, math.ceil(64 / largest))
    panel = LABEL + columns * (cell + GAP)
    width = 2 * MARGIN + panels * panel + (panels - 1) * MARGIN - GAP
    sheet = Image.new("RGB", (width, MARGIN + TITLE + rows * (cell + GAP) - GAP + MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN), title, fill=INK, font=ImageFont.load_default(20))
    font = ImageFont.load_default(18)
    for row, resolution in enumerate(resolutions):
        left, top = MARGIN + row // rows * (panel + MARGIN), MARGIN + TITLE + row % rows * (cell + GAP)
        pen.text((left + LABEL - 14, top + cell // 2), f"{resolution} px", fill=FAINT, font=font, anchor="rm")
        for column, pixels in enumerate(_examples(dataset, resolution, columns)):
            picture = Image.fromarray(pixels).resize((cell, cell), Image.Resampling.NEAREST)
            sheet.paste(picture, (left + LABEL + column * (cell + GAP), top))
    return sheet


def _some(resolutions: Sequence[int]) -> list[int]:
    """The resolutions, or as many of them as fit, evenly spaced."""
    if len(resolutions) <= MOST_ROWS:
        return list(resolutions)
    return [resolutions[round(i)] for i in np.linspace(0, len(resolutions) - 1, MOST_ROWS)]


def _examples(dataset: ScaledDataset, resolution: int, count: int) -> list[NDArray[np.uint8]]:
    """Up to ``count`` images ``(m, m)`` or ``(m, m, 3)`` of one resolution, classes in turn."""
    items = np.flatnonzero(dataset.item_resolutions == resolution)
    if not len(items):
        return []
    labels = dataset.labels.cpu().numpy()[items % len(dataset.labels)]
    turn = np.zeros(len(items), dtype=np.int64)
    for label in np.unique(labels):
        turn[labels == label] = np.arange((labels == label).sum())
    chosen = items[np.lexsort((labels, turn))[:count]]
    images = dataset.denormalize(dataset.__getitems__(chosen.tolist()).images).clamp(0, 1)
    pixels: NDArray[np.uint8] = (images * 255).round().to(torch.uint8).movedim(1, -1).cpu().numpy()
    return [image[..., 0] if image.shape[-1] == 1 else image for image in pixels]
