"""The contact sheet shows real pixels."""

from __future__ import annotations

import numpy as np
import torch

from fourierscale.data.scaled import ScaledDataset
from fourierscale.data.sheet import GAP, LABEL, MARGIN, TITLE, contact_sheet
from fourierscale.models import Preprocessing


def test_each_cell_is_an_image_enlarged_pixel_by_pixel() -> None:
    images = torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8)
    dataset = ScaledDataset(images, [0, 1] * 4, [8, 16], preprocessing=Preprocessing(mean=(0.5,) * 3, std=(0.2,) * 3))
    sheet = np.asarray(contact_sheet(dataset, "a title", columns=3))
    item = int(np.flatnonzero((dataset.item_resolutions == 8) & (dataset.labels.numpy() == 0))[0])
    expected = (dataset.denormalize(dataset[item][0]).clamp(0, 1) * 255).round().to(torch.uint8)
    left, top = MARGIN + LABEL, MARGIN + TITLE
    cell = sheet[top : top + 64, left : left + 64]
    assert (cell == expected.movedim(0, -1).numpy().repeat(8, axis=0).repeat(8, axis=1)).all()
    assert sheet.shape == (2 * MARGIN + TITLE + 2 * 64 + GAP, 2 * MARGIN + LABEL + 3 * 64 + 2 * GAP, 3)


def test_many_resolutions_are_set_in_two_panels_and_never_more_than_fifty() -> None:
    images = torch.zeros(10, 1, 80, 80, dtype=torch.uint8)
    dataset = ScaledDataset(images, [0] * 10, range(1, 81), resolution_mode="every")
    sheet = contact_sheet(dataset, "", columns=1)
    assert sheet.height == 2 * MARGIN + TITLE + 25 * (80 + GAP) - GAP
    assert sheet.width == 3 * MARGIN + 2 * (LABEL + 80 + GAP) - GAP
