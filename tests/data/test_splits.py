"""Splits: disjoint, exact, stratified, nested, and the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourierscale.data.splits import assign_resolutions, split_hash, stratified_split, subset

LABELS = np.arange(70_000) % 10
MNIST_SIZES = {"train": 10_000, "val": 2_000, "test": 50_000}
class_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=8)
seeds = st.integers(0, 2**32)


def shuffled_labels(sizes: list[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


@given(class_sizes, st.lists(st.floats(0.05, 1), min_size=1, max_size=4), st.booleans(), seeds)
def test_splits_are_disjoint_exact_and_within_one_image_of_proportional(
    sizes: list[int], weights: list[float], take_all: bool, seed: int
) -> None:
    labels = shuffled_labels(sizes, seed)
    wanted = {str(i): int(len(labels) * w / (len(weights) + 1)) for i, w in enumerate(weights)}
    if take_all:  # nothing left over to absorb the rounding
        wanted["0"] += len(labels) - sum(wanted.values())
    splits = stratified_split(labels, wanted, seed)
    assert {name: len(indices) for name, indices in splits.items()} == wanted
    together = np.concatenate(list(splits.values()))
    assert len(np.unique(together)) == len(together)
    for indices in splits.values():
        assert (np.diff(indices) > 0).all()
        have = np.bincount(labels[indices], minlength=len(sizes))
        assert (np.abs(have - len(indices) * np.array(sizes) / len(labels)) <= 1 + 1e-9).all()


@given(class_sizes, seeds)
def test_subsets_are_nested_and_within_one_image_of_proportional(sizes: list[int], seed: int) -> None:
    labels = shuffled_labels(sizes, seed)
    indices = np.flatnonzero(np.arange(len(labels)) % 3 != 1)
    shares = np.bincount(labels[indices], minlength=len(sizes)) / max(len(indices), 1)
    smaller: set[int] = set()
    for size in range(len(indices) + 1):
        chosen = subset(indices, labels, size, seed)
        assert len(chosen) == size
        assert smaller <= set(chosen.tolist()) <= set(indices.tolist())
        assert (np.abs(np.bincount(labels[chosen], minlength=len(sizes)) - size * shares) < 1 + 1e-9).all()
        smaller = set(chosen.tolist())


@given(class_sizes, st.integers(1, 25), seeds)
def test_resolutions_are_equally_frequent_overall_and_within_each_class(
    sizes: list[int], count: int, seed: int
) -> None:
    labels = shuffled_labels(sizes, seed)
    resolutions = list(range(8, 8 + count))
    assigned = assign_resolutions(labels, resolutions, seed)
    for chosen in (assigned, *(assigned[labels == label] for label in range(len(sizes)))):
        counts = [int((chosen == r).sum()) for r in resolutions]
        assert sum(counts) == len(chosen)
        assert max(counts) - min(counts) <= 1


def test_splits_of_mnists_shape_have_the_published_hashes() -> None:
    splits = stratified_split(LABELS, MNIST_SIZES, seed=0)
    assert {name: split_hash(indices) for name, indices in splits.items()} == {
        "train": "1b233933c96fdd2b4155640dea8e1404d42352179b41527d0bea7ad54c6073a4",
        "val": "f58a3186a2ed31b0fc57c648b450d3899cf512afdd0112211645607bff5e78ba",
        "test": "dddf9558d0ac512f1b0aaaa82707b1c0aacf152fb421421f00aa6945969bb0ff",
    }
    assert {size: split_hash(subset(splits["train"], LABELS, size, seed=0))[:16] for size in (1000, 2500, 5000)} == {
        1000: "b0a34bf640b7a217",
        2500: "efa8a396ba53867a",
        5000: "c13b8d73b7faaac9",
    }
    assert split_hash(assign_resolutions(LABELS[splits["train"]], range(8, 29), seed=0)) == (
        "86d59e69b1c1ba1abd85fbcd67e541ca86dd79eae9c00f464bca54339e80c64e"
    )


def test_another_seed_gives_another_split() -> None:
    hashes = {split_hash(stratified_split(LABELS, MNIST_SIZES, seed)["train"]) for seed in range(4)}
    assert len(hashes) == 4


def test_the_hash_is_of_little_endian_64_bit_integers_whatever_comes_in() -> None:
    expected = split_hash([1, 2, 300])
    assert split_hash(np.array([1, 2, 300], dtype=">i4")) == expected
    assert split_hash(np.array([1, 300, 2])) != expected


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="out of 4 images"):
        stratified_split([0, 0, 1, 1], {"train": 3, "test": 2}, seed=0)
    with pytest.raises(ValueError, match="cannot take 3 out of 2"):
        subset([0, 1], [0, 1, 0], 3, seed=0)
    with pytest.raises(ValueError, match="at least one resolution"):
        assign_resolutions([0, 1], [], seed=0)
    with pytest.raises(ValueError, match="one integer label per image"):
        stratified_split(np.zeros((2, 2)), {"train": 1}, seed=0)
