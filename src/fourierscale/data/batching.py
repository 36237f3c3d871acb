"""Batches that hold one resolution each, or a mixture if asked, and drop nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch.utils.data import DataLoader, Sampler

from fourierscale.data.scaled import BatchIndices, ScaledDataset
from fourierscale.data.splits import ORDER, random_order

__all__ = ["ResolutionBatchSampler", "make_loader", "whole_batch"]


class ResolutionBatchSampler(Sampler[list[int]]):
    """Deal items into batches of one resolution; every item comes once per epoch.

    The batches of a resolution are as few as they can be and as equal: 71 items and a batch size of 64 make 36 and 35,
    not 64 and 7.

    The batches and their order depend on ``(seed, epoch)`` alone. With several processes each gets every
    ``world_size``-th of the same batches, so that together they see exactly what one process would.

    Args:
        resolutions: The resolution of each item, ``ScaledDataset.item_resolutions``.
        batch_size: The most items in a batch.
        shuffle: Shuffle items within their resolution, and the order of the batches. If not, resolutions come in
            increasing order, items as they are.
        seed: Non-negative.
        rank: Number of this process.
        world_size: How many processes there are.
        even: Repeat whole batches from the start of the epoch until every process has equally many, as training with
            ``DistributedDataParallel`` needs. Never use it for evaluation.
        mixed: Deal all items alike, so that a batch may hold several resolutions, and all batches are nearly full.

    >>> list(ResolutionBatchSampler([8, 9, 8, 8, 9], batch_size=2))
    [[0, 2], [3], [1, 4]]
    >>> list(ResolutionBatchSampler([8, 9, 8, 8, 9], batch_size=2, mixed=True))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        resolutions: ArrayLike,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        even: bool = False,
        mixed: bool = False,
    ) -> None:
        self._resolutions = np.asarray(resolutions, dtype=np.int64)
        if self._resolutions.ndim != 1:
            raise ValueError(f"expected one resolution per item, got an array of shape {self._resolutions.shape}")
        if batch_size < 1:
            raise ValueError(f"expected a batch size of 1 or more, got {batch_size}")
        if not 0 <= rank < world_size:
            raise ValueError(f"expected a rank from 0 to {world_size - 1}, got {rank}")
        if mixed:
            self._resolutions = np.zeros_like(self._resolutions)  # as if there were one
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.rank, self.world_size, self.even = rank, world_size, even
        self.epoch = 0
        self._start = self._position = 0
        _, counts = np.unique(self._resolutions, return_counts=True)
        self._total = int(np.ceil(counts / batch_size).sum())

    @property
    def sampler(self) -> ResolutionBatchSampler:
        """Itself: Lightning calls ``set_epoch`` on a batch sampler's ``sampler``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next; a new one starts at its first batch."""
        if epoch != self.epoch:
            self.epoch, self._start, self._position = epoch, 0, 0

    def state_dict(self, position: int | None = None) -> dict[str, int]:
        """Where the epoch stands.

        Args:
            position: How many of its batches are done with; by default how many were handed out. A loader with
                workers asks for batches ahead of their use, so give the number there.
        """
        return {"epoch": self.epoch, "position": self._position if position is None else position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue from :meth:`state_dict`: the next pass yields the rest of that epoch."""
        self.epoch = int(state["epoch"])
        self._start = self._position = int(state["position"])

    def __len__(self) -> int:
        """Batches of this process in a whole epoch."""
        if self.even:
            return math.ceil(self._total / self.world_size)
        return len(range(self.rank, self._total, self.world_size))

    def __iter__(self) -> Iterator[list[int]]:
        start, self._start = self._start, 0
        batches = self._batches()
        for step in range(start, len(self)):
            number = (self.rank + step * self.world_size) % len(batches)
            self._position = step + 1
            yield BatchIndices(batches[number].tolist(), self.epoch, number)

    def _batches(self) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """All batches of the epoch, those of every process."""
        count = len(self._resolutions)
        items = random_order(count, self.seed, ORDER, self.epoch) if self.shuffle else np.arange(count)
        items = items[np.argsort(self._resolutions[items], kind="stable")]
        _, starts = np.unique(self._resolutions[items], return_index=True)
        ends = np.append(starts, count)[1:]
        batches = [
            batch
            for start, end in zip(starts, ends, strict=True)
            for batch in np.array_split(items[start:end], math.ceil((end - start) / self.batch_size))
        ]
        if self.shuffle:
            batches = [batches[number] for number in random_order(len(batches), self.seed, ORDER, self.epoch, 1)]
        return batches


def make_loader(
    dataset: ScaledDataset,
    batch_size: int,
    shuffle: bool = False,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    num_workers: int = 0,
    even: bool = False,
    pin_memory: bool = False,
    mixed: bool = False,
) -> DataLoader[Any]:
    """A loader of batches (``Batch``) of one resolution each; ``loader.batch_sampler.set_epoch`` chooses the epoch.

    Args:
        dataset: What to load. Images in memory are cut and downscaled in one call per batch and need no workers; a
            streamed folder is decoded by them.
        batch_size: See :class:`ResolutionBatchSampler`, as ``shuffle``, ``seed``, ``rank``, ``world_size``, ``even``.
        num_workers: Processes that prepare batches.
        pin_memory: Put batches in page-locked memory, for fast copies to a GPU.
        mixed: Batches of several resolutions, for a dataset that fits its images to one size.
    """
    if mixed and dataset.preprocessing.enlarge is None:
        raise ValueError("a batch of several resolutions needs images of one size: set enlarge, or leave out mixed")
    if num_workers and dataset.device.type != "cpu":
        raise ValueError(f"images on {dataset.device} are cut there: expected num_workers=0, got {num_workers}")
    sampler = ResolutionBatchSampler(dataset.item_resolutions, batch_size, shuffle, seed, rank, world_size, even, mixed)
    return DataLoader(
        dataset,
        batch_sampler=sampler,
        num_workers=num_workers,
        collate_fn=whole_batch,
        pin_memory=pin_memory,
        persistent_workers=num_workers > 0,  # batches carry their epoch, so workers need not be told
    )


def whole_batch(batch: Any) -> Any:
    """What a loader makes of a dataset's batch: nothing, since it is one already."""
    return batch
