"""Which image goes where: stratified splits, nested subsets, one resolution per image; the same on every machine.

All chance comes from the raw 64-bit numbers of numpy's PCG64, seeded with ``(seed, purpose)``. numpy promises never to
change those streams, so an index list depends on the labels and the seed alone, and its hash can be published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Indices", "assign_resolutions", "split_classes", "split_hash", "stratified_split", "subset"]

Indices = NDArray[np.int64]
SPLIT, SUBSET, RESOLUTION, ORDER = range(4)  # purposes: no two share a stream of random numbers


def random_order(count: int, *seed: int) -> Indices:
    """A permutation of ``0 .. count - 1`` that depends on ``seed``, non-negative integers, alone."""
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable").astype(np.int64)


def stratified_split(labels: ArrayLike, sizes: Mapping[str, int], seed: int) -> dict[str, Indices]:
    r"""Disjoint splits of exactly the given sizes, in each of which every class has its share.

    A split of size :math:`s` holds :math:`s\, n_c / N` images of class :math:`c`, rounded down or up (an exact share
    may be off by one): the remainders are dealt so that the sizes of the splits and of the classes both come out.

    Args:
        labels: ``(N,)``, the class of each image.
        sizes: How many images each split takes; what is left over is in no split.
        seed: Non-negative; decides which images of a class go where.

    Returns:
        For each name the sorted indices of its images.

    >>> splits = stratified_split([0, 0, 0, 0, 1, 1], {"train": 3, "test": 3}, seed=0)
    >>> {name: len(indices) for name, indices in splits.items()}
    {'train': 3, 'test': 3}
    """
    classes = _as_labels(labels)
    if any(size < 0 for size in sizes.values()) or sum(sizes.values()) > len(classes):
        raise ValueError(f"cannot take {dict(sizes)} out of {len(classes)} images: too many")
    order, counts = _by_class(classes, seed, SPLIT)
    wanted = np.array([*sizes.values(), len(classes) - sum(sizes.values())], dtype=np.int64)
    ends = np.cumsum(_shares(wanted, counts), axis=0)  # (splits + rest, classes)
    first = np.cumsum(counts) - counts
    splits: dict[str, Indices] = {}
    for row, name in enumerate(sizes):
        start = ends[row - 1] if row else np.zeros_like(counts)
        parts = [order[f + a : f + b] for f, a, b in zip(first, start, ends[row], strict=True)]
        splits[name] = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
    return splits


def _shares(rows: Indices, columns: Indices) -> Indices:
    """Integers within one of ``rows[i] * columns[j] / N`` that add up to ``rows`` and to ``columns``."""
    total = max(int(columns.sum()), 1)
    table, remainder = np.divmod(np.multiply.outer(rows, columns), total)
    need = rows - table.sum(axis=1)
    for column, missing in enumerate(columns - table.sum(axis=0)):
        # Gale and Ryser: to the rows that need most, so that none is left wanting; largest remainder first
        takers = np.lexsort((-remainder[:, column], -need))[:missing]
        table[takers, column] += 1
        need[takers] -= 1
    return table.astype(np.int64)


def split_classes(labels: ArrayLike, shares: Mapping[str, float], seed: int) -> dict[str, Indices]:
    """Cut every class by itself, so that each split has an image of each class however small the set is.

    Args:
        labels: ``(N,)``, the class of each image; each has at least one image more than there are ``shares``.
        shares: Which share of each class each split takes, rounded, one image at least; what is left over is
            ``"train"``.
        seed: Non-negative; decides which images of a class go where.

    Returns:
        For each name, and ``"train"``, the sorted indices of its images.

    >>> splits = split_classes([0] * 10 + [1] * 3, {"val": 0.1, "test": 0.2}, seed=0)
    >>> {name: len(indices) for name, indices in splits.items()}
    {'train': 8, 'val': 2, 'test': 3}
    """
    order, counts = _by_class(_as_labels(labels), seed, SPLIT)
    if len(counts) and counts.min() <= len(shares):
        raise ValueError(f"expected {len(shares) + 1} images or more of every class, got {counts.min()}")
    parts: dict[str, list[Indices]] = {"train": [], **{name: [] for name in shares}}
    for count, own in zip(counts.tolist(), np.split(order, np.cumsum(counts)[:-1]), strict=True):
        for name, share in shares.items():
            taken = max(1, round(share * count))
            parts[name].append(own[:taken])
            own = own[taken:]
        parts["train"].append(own)
    return {name: np.sort(np.concatenate([np.empty(0, np.int64), *found])) for name, found in parts.items()}


def subset(indices: ArrayLike, labels: ArrayLike, size: int, seed: int) -> Indices:
    r"""A stratified part of ``indices``; a smaller one is contained in every larger one of the same seed.

    Images are added one by one, each time from the most under-represented class that may grow without exceeding its
    share rounded up (the quota method of Balinski and Young, 1975, the apportionment that is both monotone and within
    one of proportional).

    Args:
        indices: The images to choose from, for example a training split.
        labels: The class of *every* image of the dataset; ``labels[indices]`` are those of the choice.
        size: How many to take.
        seed: Non-negative.

    Returns:
        ``(size,)``, sorted.
    """
    pool = np.asarray(indices, dtype=np.int64)
    if not 0 <= size <= len(pool):
        raise ValueError(f"cannot take {size} out of {len(pool)} images")
    order, counts = _by_class(_as_labels(labels)[pool], seed, SUBSET)
    first = np.cumsum(counts) - counts
    taken = np.zeros_like(counts)
    for total in range(1, size + 1):
        may_grow = taken * len(pool) < total * counts
        taken[np.argmax(np.where(may_grow, counts / (taken + 1), 0.0))] += 1
    parts = [order[f : f + t] for f, t in zip(first, taken, strict=True)]
    return np.sort(pool[np.concatenate([np.empty(0, np.int64), *parts])])


def assign_resolutions(labels: ArrayLike, resolutions: Sequence[int], seed: int) -> Indices:
    """One resolution for each image, every resolution equally often, within each class and in all.

    Images, shuffled within their class, are laid out class after class and resolutions are dealt to them in turn. So
    counts differ by at most one, both over all images and within each class.

    Args:
        labels: ``(N,)``, the class of each image.
        resolutions: The resolutions to deal.
        seed: Non-negative.

    >>> resolutions = assign_resolutions([0, 0, 0, 1, 1, 1], [8, 9, 10], seed=0)
    >>> sorted(resolutions[:3].tolist()), sorted(resolutions[3:].tolist())
    ([8, 9, 10], [8, 9, 10])
    """
    if not resolutions:
        raise ValueError("expected at least one resolution to assign, got none")
    classes = _as_labels(labels)
    order, _ = _by_class(classes, seed, RESOLUTION)
    # sets of different sizes start with different resolutions, so that no resolution is favoured in every split
    deal = random_order(len(resolutions), seed, RESOLUTION, 1 + len(classes))
    deck = np.asarray(resolutions, dtype=np.int64)[deal]
    assigned = np.empty(len(classes), dtype=np.int64)
    assigned[order] = deck[np.arange(len(classes)) % len(deck)]
    return assigned


def split_hash(indices: ArrayLike) -> str:
    """SHA-256 of an index list, as little-endian 64-bit integers.

    >>> split_hash([0, 1, 2])[:16]
    'ab25350e3e65efeb'
    """
    return hashlib.sha256(np.asarray(indices, dtype=np.int64).astype("<i8").tobytes()).hexdigest()


def _by_class(labels: Indices, seed: int, purpose: int) -> tuple[Indices, Indices]:
    """Positions sorted by class and shuffled within each, and how many there are of each class."""
    shuffled = random_order(len(labels), seed, purpose)
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return shuffled[np.argsort(inverse[shuffled], kind="stable")], counts.astype(np.int64)


def _as_labels(labels: ArrayLike) -> Indices:
    array: NDArray[Any] = np.asarray(labels)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"expected one integer label per image, got an array of shape {array.shape}, {array.dtype}")
    return array.astype(np.int64)
