"""Batches of several resolutions: each image as if it were made alone, each once per epoch, as a seed decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale.data import (
    Augmentation,
    Batch,
    ResolutionBatchSampler,
    ScaledDataset,
    SizedImages,
    list_augmentations,
    make_loader,
)
from fourierscale.data.scaled import BatchIndices
from fourierscale.data.steps import Cutout, HorizontalFlip, RandomScaling
from fourierscale.functional import downscale
from fourierscale.functional.enlarging import enlarge_to
from tests.data.small_sets import scaled

RESOLUTIONS = [5, 8, 11, 16]
CERTAIN = Augmentation("certain", (HorizontalFlip(p=1.0), RandomScaling(low=0.6, high=0.6, p=1.0)))  # the same for all


def make(count: int = 24, **options: Any) -> ScaledDataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 1, 16, 16), dtype=torch.uint8, generator=generator)
    return scaled(images, np.arange(count) % 3, RESOLUTIONS, **{"enlarge": "zero", **options})


def alone(dataset: ScaledDataset, item: int) -> torch.Tensor:
    """The definition: one image, augmented, downscaled to its resolution, augmented, fitted, normalised."""
    x = dataset.images[item % len(dataset.labels)][None].float() / 255
    generator = torch.Generator().manual_seed(0)
    if dataset.augment is not None:
        x = dataset.augment(x, generator, "image")
    x = downscale(x, int(dataset.item_resolutions[item]), dataset.preprocessing.kind)
    if dataset.augment is not None:
        x = dataset.augment(x, generator, "scaled")
    how = dataset.preprocessing
    return ((enlarge_to(x, how.enlarge_size, how.enlarge) - dataset.mean) / dataset.std)[0]


@pytest.mark.parametrize("augment", [None, CERTAIN], ids=["plain", "augmented"])
@pytest.mark.parametrize(
    "options",
    [
        {"enlarge": "zero", "mean": (0.3,), "std": (0.2,)},
        {"enlarge": "upsample"},
        {"enlarge": "reflect", "enlarge_size": 20, "kind": "gaussian"},
        {"enlarge": "zero", "resolution_mode": "every"},
    ],
    ids=str,
)
def test_a_mixed_batch_is_the_stack_of_images_made_alone(options: dict[str, Any], augment: Augmentation | None) -> None:
    dataset = make(augment=augment, **options)
    items = np.random.default_rng(0).permutation(len(dataset))[:17].tolist()
    images, labels, resolution, indices = dataset.__getitems__(items)
    assert len(set(dataset.item_resolutions[items].tolist())) == 4
    torch.testing.assert_close(images, torch.stack([alone(dataset, item) for item in items]), atol=1e-5, rtol=0)
    assert (resolution, indices.tolist()) == (0, items)
    assert labels.tolist() == [item % 24 % 3 for item in items]


def test_items_of_one_resolution_keep_it_and_their_numbers() -> None:
    dataset = make(augment="flip-warp")
    items = BatchIndices(np.flatnonzero(dataset.item_resolutions == 8).tolist(), epoch=2, number=3)
    batch = dataset.__getitems__(items)
    assert batch.resolution == 8
    native = make(augment="flip-warp", enlarge=None).__getitems__(items).images
    assert torch.equal(batch.images, enlarge_to(native, 16, "zero"))


def test_steps_at_the_original_size_act_on_the_whole_batch_in_order_of_resolution() -> None:
    augment = Augmentation("holes", (HorizontalFlip(), Cutout()))
    dataset, whole = make(augment=augment), make(augment=augment)
    whole.item_resolutions = np.full(24, 16)
    items = np.argsort(dataset.item_resolutions, kind="stable")
    originals = whole.__getitems__(BatchIndices(items.tolist(), 1, 5)).images
    mixed = dataset.__getitems__(BatchIndices(items.tolist(), 1, 5)).images
    for image, original, m in zip(mixed, originals, dataset.item_resolutions[items].tolist(), strict=True):
        torch.testing.assert_close(image, enlarge_to(downscale(original[None], m), 16, "zero")[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("augment", ["crop-flip-cutout", "warp"])
def test_augmentation_depends_on_seed_epoch_and_number_alone(augment: str) -> None:
    items = list(range(24))

    def images(seed: int, epoch: int, number: int) -> torch.Tensor:
        dataset = make(augment=augment)
        dataset.seed = seed  # resolutions stay
        return dataset.__getitems__(BatchIndices(items, epoch, number)).images

    assert torch.equal(images(0, 1, 2), images(0, 1, 2))
    for other in ((1, 1, 2), (0, 2, 2), (0, 1, 3)):
        assert not torch.equal(images(0, 1, 2), images(*other))


def test_images_stored_at_several_sizes_make_mixed_batches() -> None:
    sizes, rng = [8, 12, 16] * 4, np.random.default_rng(0)
    stored = [rng.integers(0, 256, (1, size, size), dtype=np.uint8) for size in sizes]
    dataset = scaled(SizedImages(stored), [0] * 12, [8, 12, 16], enlarge="upsample", own=sizes, augment=CERTAIN)
    mixed = dataset.__getitems__(list(range(12)))
    assert mixed.resolution == 0
    for item, image in enumerate(mixed.images):
        torch.testing.assert_close(image, dataset[item][0], atol=1e-5, rtol=0)


@given(st.lists(st.integers(8, 12), min_size=1, max_size=60), st.integers(1, 9), st.booleans(), st.integers(1, 4))
def test_mixed_batches_hold_every_item_once_and_are_of_nearly_one_size(
    items: list[int], size: int, shuffle: bool, world: int
) -> None:
    def batches(rank: int = 0, world: int = 1) -> list[list[int]]:
        sampler = ResolutionBatchSampler(items, size, shuffle, rank=rank, world_size=world, mixed=True)
        sampler.set_epoch(2)
        found = list(sampler)
        assert len(found) == len(sampler)
        return found

    whole = batches()
    assert sorted(item for batch in whole for item in batch) == list(range(len(items)))
    assert len(whole) == -(-len(items) // size)
    assert max(map(len, whole)) <= min(size, min(map(len, whole)) + 1)
    shares = [batches(rank, world) for rank in range(world)]
    assert [shares[number % world][number // world] for number in range(len(whole))] == whole


def test_a_loader_deals_mixed_batches_that_a_seed_decides_to_processes_and_workers() -> None:
    def epoch(seed: int = 7, number: int = 3, **options: Any) -> list[Batch]:
        loader = make_loader(make(augment="flip-warp"), 7, shuffle=True, seed=seed, mixed=True, **options)
        loader.batch_sampler.set_epoch(number)
        return list(loader)

    whole = epoch()
    assert [len(batch.labels) for batch in whole] == [6, 6, 6, 6]
    assert sorted(torch.cat([batch.indices for batch in whole]).tolist()) == list(range(24))
    assert {batch.resolution for batch in whole} == {0}
    torch.testing.assert_close(epoch(), whole, atol=0, rtol=0)
    torch.testing.assert_close(epoch(num_workers=2), whole)
    ranks = [epoch(rank=rank, world_size=2) for rank in range(2)]
    torch.testing.assert_close([ranks[i % 2][i // 2] for i in range(len(whole))], whole)
    for other in (epoch(seed=8), epoch(number=4)):
        assert [batch.indices.tolist() for batch in other] != [batch.indices.tolist() for batch in whole]


def test_resuming_in_mid_epoch_goes_on_with_the_remaining_mixed_batches() -> None:
    loaders = [make_loader(make(), 5, shuffle=True, mixed=True) for _ in range(2)]
    whole = list(loaders[0])
    loaders[1].batch_sampler.load_state_dict(loaders[0].batch_sampler.state_dict(position=2))
    torch.testing.assert_close(list(loaders[1]), whole[2:], atol=0, rtol=0)


def test_images_of_their_own_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="got \\[5, 16\\]: use make_loader, or bring all images to one size"):
        make(enlarge=None, resolution_mode="every").__getitems__([0, 95])
    with pytest.raises(ValueError, match="needs images of one size: set enlarge, or leave out mixed"):
        make_loader(make(enlarge=None), 4, mixed=True)


@pytest.mark.parametrize("augment", ["none", "crop-flip-cutout", "flip-warp"])
def test_a_mixed_batch_is_made_on_the_device_of_the_images(augment: str) -> None:
    batch = make(augment=augment).to("meta").__getitems__(list(range(24)))
    assert {batch.images.device.type, batch.labels.device.type} == {"meta"}


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("augment", list_augmentations())
@pytest.mark.parametrize("sized", [False, True])
def test_a_mixed_batch_is_made_on_a_gpu_without_waiting_for_it(augment: str, sized: bool) -> None:
    sizes, rng = RESOLUTIONS * 3, np.random.default_rng(0)
    stored = [rng.integers(0, 256, (1, m if sized else 16, m if sized else 16), dtype=np.uint8) for m in sizes]
    images = SizedImages(stored) if sized else np.stack(stored)
    dataset = scaled(images, [0] * 12, RESOLUTIONS, enlarge="zero", own=sizes, augment=augment)
    items = rng.permutation(12).tolist()
    expected = dataset.__getitems__(items).images
    dataset.to("cuda")
    dataset.__getitems__(items)  # constants come to the GPU when they are first used
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = dataset.__getitems__(items)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(batch.images.cpu(), expected, atol=1e-3, rtol=0)
