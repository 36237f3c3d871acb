"""Images at given resolutions: one vectorised call is the loop over images, for every option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from fourierscale.data.batching import make_loader
from fourierscale.data.folder import ImageFolder
from fourierscale.data.scaled import ScaledDataset
from fourierscale.data.stored import StreamedImages
from fourierscale.functional import downscale
from tests.data.small_sets import scaled

RESOLUTIONS = [5, 8, 11, 16]


def make(count: int = 24, channels: int = 1, **options: Any) -> ScaledDataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, channels, 16, 16), dtype=torch.uint8, generator=generator)
    return scaled(images, np.arange(count) % 3, **{"resolutions": RESOLUTIONS, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "gaussian"},
        {"kind": "bicubic"},
        {"resolution_mode": "every"},
        {"enlarge": "zero"},
        {"enlarge": "reflect", "enlarge_size": 20},
        {"enlarge": "replicate"},
        {"enlarge": "circular", "enlarge_size": 40},
        {"enlarge": "upsample"},
        {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4), "channels": 3},
    ],
    ids=str,
)
def test_a_batch_is_the_stack_of_its_items(options: dict[str, Any]) -> None:
    dataset = make(**options)
    for resolution in dataset.resolutions:
        items = np.flatnonzero(dataset.item_resolutions == resolution).tolist()
        images, labels, found, indices = dataset.__getitems__(items)
        side = dataset.preprocessing.enlarge_size or resolution
        assert images.shape[2:] == (side, side)
        assert images.dtype == torch.float32
        assert (found, indices.tolist()) == (resolution, items)
        for image, label, item in zip(images, labels, items, strict=True):
            expected, expected_label = dataset[item]
            torch.testing.assert_close(image, expected)
            assert int(label) == expected_label


@pytest.mark.parametrize("kind", ["ideal", "gaussian", "bicubic"])
def test_an_item_is_its_image_divided_by_255_and_downscaled(kind: Any) -> None:
    dataset = make(kind=kind)
    for item in range(len(dataset)):
        expected = downscale(dataset.images[item : item + 1].float() / 255, int(dataset.item_resolutions[item]), kind)
        torch.testing.assert_close(dataset[item][0], expected[0])


def test_padding_comes_before_normalisation() -> None:
    dataset = make(enlarge="zero", mean=(0.25,), std=(0.5,))
    item = int(np.flatnonzero(dataset.item_resolutions == 5)[0])
    image, _ = dataset[item]
    assert image[0, 0, 0] == -0.5
    torch.testing.assert_close(dataset.denormalize(image)[0, 0], torch.zeros(16))


def test_every_image_comes_once_at_every_resolution() -> None:
    dataset = make(count=6, resolution_mode="every")
    assert len(dataset) == 6 * len(RESOLUTIONS)
    assert [int(m) for m in dataset.item_resolutions[::6]] == RESOLUTIONS
    image, label = dataset[2 * 6 + 4]  # image 4 at the third resolution
    torch.testing.assert_close(image, downscale(dataset.images[4].float() / 255, 11))
    assert label == 4 % 3


def test_one_resolution_for_all_is_the_missing_scale_case() -> None:
    dataset = make(resolutions=[16])
    assert set(dataset.item_resolutions.tolist()) == {16}
    plain = DataLoader(dataset, batch_size=None)
    assert next(iter(plain))[0].shape == (1, 16, 16)


def test_the_seed_decides_the_resolutions() -> None:
    assert (make(seed=1).item_resolutions == make(seed=1).item_resolutions).all()
    assert (make(seed=1).item_resolutions != make(seed=2).item_resolutions).any()


@pytest.mark.parametrize("augment", ["warp", "scaling"])
def test_nothing_above_the_band_leaks_into_a_warp(augment: str) -> None:
    checker = torch.tensor([1, -1]).repeat(8)
    checker = (10 * checker[:, None] * checker).to(torch.int16)  # the highest frequency of the grid, in no band
    images = torch.randint(20, 230, (12, 1, 16, 16), dtype=torch.uint8)
    other = (images.to(torch.int16) + checker).to(torch.uint8)
    first, second = (
        ScaledDataset(x, np.zeros(12, dtype=np.int64), [9], augment=augment, seed=3).__getitems__(range(12)).images
        for x in (images, other)
    )
    torch.testing.assert_close(first, second, atol=1e-5, rtol=0)
    assert not torch.equal(images, other)


def test_augmentation_at_the_original_size_comes_before_downscaling() -> None:
    dataset = make(resolutions=[8], augment="crop-flip-cutout", seed=5)
    batch = dataset.__getitems__(range(24)).images
    assert batch.shape == (24, 1, 8, 8)
    assert not torch.equal(batch, make(resolutions=[8]).__getitems__(range(24)).images)
    dataset.epoch = 1
    assert not torch.equal(dataset.__getitems__(range(24)).images, batch)


def test_items_of_several_resolutions_make_no_batch() -> None:
    dataset = make(resolution_mode="every")
    with pytest.raises(ValueError, match="one resolution in a batch, got \\[5, 16\\]"):
        dataset.__getitems__([0, len(dataset) - 1])
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    torch.testing.assert_close(dataset[-1][0], dataset[len(dataset) - 1][0])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"resolutions": [8, 17]}, "resolutions from 1 to the images' 16"),
        ({"resolutions": []}, "resolutions from 1"),
        ({"resolution_mode": "some"}, "'one' or 'every'"),
        ({"kind": "nearest"}, "choose one of ideal"),
        ({"enlarge": "crop"}, "unknown enlarge 'crop'"),
        ({"enlarge_size": 20}, "give both or neither"),
        ({"enlarge": "zero", "enlarge_size": 12}, "smaller than resolution 16"),
        ({"mean": (0.1, 0.2), "std": (1.0, 1.0)}, "each of 1 channels, got 2"),
        ({"std": (0.0,)}, "as many means as positive stds"),
        ({"augment": "shfit"}, "did you mean 'shift'"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        make(**options)


def test_wrong_images_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unsigned bytes"):
        ScaledDataset(torch.rand(2, 1, 8, 8), [0, 1], [8])
    with pytest.raises(ValueError, match="unsigned bytes"):
        ScaledDataset(torch.zeros(2, 1, 8, 9, dtype=torch.uint8), [0, 1], [8])
    with pytest.raises(ValueError, match="expected 2 labels"):
        ScaledDataset(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), [0, 1, 1], [8])
    with pytest.raises(ValueError, match="labels to be whole numbers"):
        ScaledDataset(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), [0, 1.5], [8])


def test_a_read_only_array_is_taken_without_a_warning() -> None:
    images = np.zeros((2, 1, 8, 8), dtype=np.uint8)
    images.flags.writeable = False
    assert ScaledDataset(images, [0, 1], [8])[0][0].shape == (1, 8, 8)


def test_a_streamed_folder_with_two_workers_equals_the_same_folder_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for index in range(20):
        path = tmp_path / f"class{index % 2}" / f"{index}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20 + index, 30, 3), dtype=np.uint8)).save(path)
    folder = ImageFolder(tmp_path)
    chosen = np.array([1, 4, 5, 9, 12, 13, 17])
    options: dict[str, Any] = {"resolutions": [8, 16], "augment": "warp", "mean": (0.5,)}
    streamed = scaled(StreamedImages(folder, 16, chosen), folder.labels[chosen], **options)
    memory = scaled(folder.load_all(16)[chosen], folder.labels[chosen], **options)
    loaders = [make_loader(d, 3, shuffle=True, num_workers=n) for d, n in ((streamed, 2), (streamed, 0), (memory, 0))]
    for _ in range(2):  # persistent workers too
        for a, b, c in zip(*loaders, strict=True):
            torch.testing.assert_close(a, c)
            torch.testing.assert_close(b, c)
