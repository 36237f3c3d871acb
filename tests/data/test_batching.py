"""Batches of one resolution: a partition of the items, reproducible, shared out among processes, resumable."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale.data.batching import ResolutionBatchSampler, make_loader
from fourierscale.data.scaled import BatchIndices, ScaledDataset

resolutions = st.lists(st.integers(8, 12), min_size=1, max_size=60)
sizes = st.integers(1, 9)


@given(resolutions, sizes, st.booleans(), st.integers(0, 3))
def test_batches_partition_the_items_and_hold_one_resolution_each(
    items: list[int], size: int, shuffle: bool, epoch: int
) -> None:
    sampler = ResolutionBatchSampler(items, size, shuffle)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(index for batch in batches for index in batch) == list(range(len(items)))
    assert all(len({items[index] for index in batch}) == 1 for batch in batches)
    assert len(sampler) == len(batches) == sum(-(-count // size) for count in Counter(items).values())
    assert max(map(len, batches)) <= size
    for resolution in set(items):
        lengths = [len(batch) for batch in batches if items[batch[0]] == resolution]
        assert max(lengths) - min(lengths) <= 1


@given(resolutions, sizes, st.booleans(), st.integers(1, 5))
def test_the_ranks_share_out_the_batches_of_one_process(items: list[int], size: int, shuffle: bool, world: int) -> None:
    alone = list(ResolutionBatchSampler(items, size, shuffle, seed=7))
    samplers = [
        ResolutionBatchSampler(items, size, shuffle, seed=7, rank=rank, world_size=world) for rank in range(world)
    ]
    parts = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(part) for part in parts]
    dealt = [parts[number % world][number // world] for number in range(len(alone))]
    assert dealt == alone
    assert sum(map(len, parts)) == len(alone)
    assert [batch.number for batch in dealt] == list(range(len(alone)))


@given(resolutions, sizes, st.integers(1, 5))
def test_even_repeats_whole_batches_until_every_rank_has_equally_many(items: list[int], size: int, world: int) -> None:
    alone = list(ResolutionBatchSampler(items, size))
    samplers = [ResolutionBatchSampler(items, size, rank=rank, world_size=world, even=True) for rank in range(world)]
    parts = [list(sampler) for sampler in samplers]
    assert {len(part) for part in parts} == {len(samplers[0])} == {-(-len(alone) // world)}
    dealt = [parts[number % world][number // world] for number in range(world * len(parts[0]))]
    assert dealt == (alone * world)[: len(dealt)]


@given(resolutions, sizes, st.integers(0, 4), st.data())
def test_resuming_in_mid_epoch_gives_the_same_remaining_batches(
    items: list[int], size: int, epoch: int, data: st.DataObject
) -> None:
    sampler = ResolutionBatchSampler(items, size, shuffle=True, seed=1)
    sampler.set_epoch(epoch)
    whole = list(sampler)
    done = data.draw(st.integers(0, len(whole)))
    interrupted = iter(sampler)
    for _ in range(done):
        next(interrupted)
    state = sampler.state_dict(position=done)
    assert done == 0 or state == sampler.state_dict()
    resumed = ResolutionBatchSampler(items, size, shuffle=True, seed=1)
    resumed.load_state_dict(state)
    resumed.set_epoch(epoch)  # as a trainer does at the start of the epoch that it resumes
    assert list(resumed) == whole[done:]
    assert list(resumed) == whole
    resumed.load_state_dict(state)
    resumed.set_epoch(epoch + 1)
    assert len(list(resumed)) == len(whole)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        sampler = ResolutionBatchSampler(np.arange(200) % 7, 8, shuffle=True, seed=seed)
        sampler.sampler.set_epoch(epoch)  # where Lightning looks for it
        return list(sampler)

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)
    assert order(0, 0)[0] == [149, 93, 44, 51, 156, 9, 16, 170]  # the same on every machine


def tiny(**options: object) -> ScaledDataset:
    images = torch.randint(0, 256, (40, 1, 12, 12), dtype=torch.uint8)
    return ScaledDataset(images, np.arange(40) % 4, [5, 8, 12], **options)  # type: ignore[arg-type]


def test_a_loader_yields_every_item_once_with_its_label_and_resolution() -> None:
    dataset = tiny()
    seen = []
    for images, labels, resolution, indices in make_loader(dataset, batch_size=6, shuffle=True):
        assert images.shape == (len(indices), 1, resolution, resolution)
        assert (dataset.item_resolutions[indices.numpy()] == resolution).all()
        assert torch.equal(labels, dataset.labels[indices])
        seen += indices.tolist()
    assert sorted(seen) == list(range(40))


@pytest.mark.parametrize("augment", ["none", "warp", "crop-flip-cutout"])
def test_workers_and_ranks_make_the_batches_of_one_process(augment: str) -> None:
    dataset = tiny(augment=augment)

    def epoch_of(number: int, **options: int) -> list[torch.Tensor]:
        loader = make_loader(dataset, batch_size=6, shuffle=True, **options)  # type: ignore[arg-type]
        loader.batch_sampler.set_epoch(number)  # type: ignore[union-attr]
        return [batch.images for batch in loader]

    alone = epoch_of(3)
    torch.testing.assert_close(epoch_of(3, num_workers=2), alone)
    ranks = [epoch_of(3, rank=rank, world_size=2) for rank in range(2)]
    torch.testing.assert_close([ranks[i % 2][i // 2] for i in range(len(alone))], alone)


def test_augmentation_differs_from_epoch_to_epoch_and_batch_to_batch() -> None:
    dataset = tiny(augment="warp")
    items = np.flatnonzero(dataset.item_resolutions == 12).tolist()

    def images(epoch: int, number: int) -> torch.Tensor:
        return dataset.__getitems__(BatchIndices(items, epoch, number)).images

    assert torch.equal(images(1, 2), images(1, 2))
    assert not torch.equal(images(1, 2), images(2, 2))
    assert not torch.equal(images(1, 2), images(1, 3))


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="batch size of 1 or more"):
        ResolutionBatchSampler([8], 0)
    with pytest.raises(ValueError, match="rank from 0 to 1, got 2"):
        ResolutionBatchSampler([8], 1, rank=2, world_size=2)
    with pytest.raises(ValueError, match="one resolution per item"):
        ResolutionBatchSampler([[8]], 1)
    with pytest.raises(ValueError, match="num_workers=0"):
        make_loader(tiny().to("meta"), 4, num_workers=2)
