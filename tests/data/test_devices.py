"""Batches are made where the images are, and mean the same there."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from fourierscale.data.augment import list_augmentations
from fourierscale.data.batching import make_loader
from fourierscale.data.scaled import ScaledDataset
from fourierscale.data.stored import SizedImages
from tests.data.small_sets import scaled

OPTIONS: list[dict[str, Any]] = [
    *({"augment": name} for name in list_augmentations()),
    {"kind": "gaussian"},
    {"kind": "bicubic"},
    *({"enlarge": name, "enlarge_size": 40} for name in ("zero", "reflect", "replicate", "circular", "upsample")),
]


def make(options: dict[str, Any]) -> ScaledDataset:
    images = np.random.default_rng(0).integers(0, 256, (30, 3, 16, 16), dtype=np.uint8)
    return scaled(images, np.arange(30) % 3, [7, 16], mean=(0.5,) * 3, std=(0.2,) * 3, **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_stays_on_the_device_of_the_images(options: dict[str, Any]) -> None:
    dataset = make(options).to("meta")  # refuses to be mixed with tensors of other devices
    for batch in make_loader(dataset, batch_size=8):
        assert {batch.images.device.type, batch.labels.device.type, batch.indices.device.type} == {"meta"}
        side = dataset.preprocessing.enlarge_size or batch.resolution
        assert batch.images.shape == (len(batch.labels), 3, side, side)


@pytest.mark.parametrize("several_sizes", [False, True])
def test_a_copy_that_is_moved_leaves_the_dataset_where_it_is(several_sizes: bool) -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 1, 12, 12), dtype=np.uint8)
    sizes = [8, 12, 8, 12]
    own = {"own": sizes} if several_sizes else {}
    stored = SizedImages([image[:, :m, :m] for image, m in zip(images, sizes, strict=True)]) if own else images
    dataset = ScaledDataset(stored, [0, 1, 0, 1], [8, 12], **own)
    assert copy.copy(dataset).to("meta").device.type == "meta"
    assert dataset.device.type == dataset.labels.device.type == "cpu"
    assert torch.isfinite(dataset[0][0]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_gpu_makes_the_batches_of_the_cpu(options: dict[str, Any]) -> None:
    loaders = [make_loader(make(options).to(device), 8, shuffle=True) for device in ("cpu", "cuda")]
    for a, b in zip(*loaders, strict=True):
        torch.testing.assert_close(b.images.cpu(), a.images, atol=1e-3, rtol=0)
        assert b.images.device.type == "cuda"
        assert torch.equal(b.indices.cpu(), a.indices)
