"""Images of several sizes, behaving like one tensor: those that are taken together have one size."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fourierscale.data.moving import moved

__all__ = ["SizedImages"]


class SizedImages:
    """Square images of several sizes in memory, one stack for each size.

    Args:
        images: Each ``(C, m, m)``, unsigned bytes.
        largest: Side of the largest image there may be; of these if not given.

    Attributes:
        shape: ``(N, C, largest, largest)``, as a tensor's.
        dtype: ``torch.uint8``.
        device: Where the images are.
        sizes: ``(N,)``, the side of each image.

    >>> images = SizedImages([np.zeros((1, side, side), np.uint8) for side in (8, 12, 8)])
    >>> images[torch.tensor([0, 2])].shape
    torch.Size([2, 1, 8, 8])
    """

    dtype = torch.uint8

    def __init__(self, images: Sequence[NDArray[np.uint8]], largest: int | None = None) -> None:
        if not images:
            raise ValueError("expected at least one image, got none")
        self.sizes = np.array([image.shape[-1] for image in images], dtype=np.int64)
        self._place = np.zeros(len(images), dtype=np.int64)
        self._stacks: dict[int, Tensor] = {}
        for size in np.unique(self.sizes).tolist():
            chosen = np.flatnonzero(self.sizes == size)
            self._place[chosen] = np.arange(len(chosen))
            self._stacks[size] = torch.from_numpy(np.stack([images[index] for index in chosen.tolist()]))
        side = int(self.sizes.max()) if largest is None else largest
        self.shape = (len(images), images[0].shape[0], side, side)
        self.device = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.sizes)

    def numel(self) -> int:
        """Bytes that the images take."""
        return sum(stack.numel() for stack in self._stacks.values())

    def to(self, device: torch.device | str) -> SizedImages:
        """The same images there; these stay where they are, as a tensor does."""
        there = copy.copy(self)
        there.device = torch.device(device)
        there._stacks = {size: stack.to(there.device) for size, stack in self._stacks.items()}
        return there

    def take(self, indices: ArrayLike) -> SizedImages:
        """The images at ``indices``, in this order, as a set of their own."""
        chosen = np.asarray(indices, dtype=np.int64).tolist()
        images = [self._stacks[int(self.sizes[index])][self._place[index]].numpy() for index in chosen]
        return SizedImages(images, self.shape[-1])

    def __getitem__(self, indices: Tensor) -> Tensor:
        """The images at ``indices`` ``(B,)``, which have one size: ``(B, C, m, m)``, unsigned bytes."""
        chosen = indices.cpu().numpy()
        found = np.unique(self.sizes[chosen])
        if len(found) != 1:
            raise ValueError(f"expected images of one size, got sizes {found.tolist()}: take them size by size")
        return self._stacks[int(found[0])][moved(torch.from_numpy(self._place[chosen]), self.device)]
