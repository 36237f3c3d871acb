"""Square images of several sizes that behave like one tensor, in memory or in their files."""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fourierscale.data.decode import Shape
from fourierscale.data.folder import ImageFolder, stack
from fourierscale.data.moving import moved

__all__ = ["SizedImages", "StoredImages", "StreamedImages"]

Self = TypeVar("Self", bound="StoredImages")


class StoredImages(abc.ABC):
    """What all images of several sizes have in common; those that are taken together have one size.

    Attributes:
        sizes: ``(N,)``, the side of each image.
        shape: ``(N, C, n, n)`` with the largest side ``n``, as a tensor's.
        dtype: ``torch.uint8``.
        device: Where the images are, or are decoded to.
    """

    dtype = torch.uint8

    def __init__(self, sizes: NDArray[np.int64], channels: int, largest: int) -> None:
        self.sizes = sizes
        self.shape = (len(sizes), channels, largest, largest)
        self.device = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.sizes)

    def to(self: Self, device: torch.device | str) -> Self:
        """The same images there; these stay where they are, as a tensor does."""
        there = copy.copy(self)
        there.device = torch.device(device)
        return there

    @abc.abstractmethod
    def __getitem__(self, indices: Tensor) -> Tensor:
        """The images at ``indices`` ``(B,)``, which have one size: ``(B, C, m, m)``, unsigned bytes."""


class SizedImages(StoredImages):
    """Images in memory, one stack for each size.

    Args:
        images: Each ``(C, m, m)``, unsigned bytes.
        largest: Side of the largest image there may be; of these if not given.

    >>> images = SizedImages([np.zeros((1, side, side), np.uint8) for side in (8, 12, 8)])
    >>> images[torch.tensor([0, 2])].shape
    torch.Size([2, 1, 8, 8])
    """

    def __init__(self, images: Sequence[NDArray[np.uint8]], largest: int | None = None) -> None:
        if not images:
            raise ValueError("expected at least one image, got none")
        sizes = np.array([image.shape[-1] for image in images], dtype=np.int64)
        super().__init__(sizes, images[0].shape[0], largest or int(sizes.max()))
        self._place = np.zeros(len(images), dtype=np.int64)
        self._stacks: dict[int, Tensor] = {}
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            self._place[chosen] = np.arange(len(chosen))
            self._stacks[size] = torch.from_numpy(np.stack([images[index] for index in chosen.tolist()]))

    def numel(self) -> int:
        """Bytes that the images take."""
        return sum(stack.numel() for stack in self._stacks.values())

    def to(self, device: torch.device | str) -> SizedImages:
        """The same images there; these stay where they are, as a tensor does."""
        there = super().to(device)
        there._stacks = {size: stack.to(there.device) for size, stack in self._stacks.items()}
        return there

    def __getitem__(self, indices: Tensor) -> Tensor:
        """The images at ``indices`` ``(B,)``, which have one size: ``(B, C, m, m)``, unsigned bytes."""
        chosen = indices.cpu().numpy()
        found = np.unique(self.sizes[chosen])
        if len(found) != 1:
            raise ValueError(f"expected images of one size, got sizes {found.tolist()}: take them size by size")
        return self._stacks[int(found[0])][moved(torch.from_numpy(self._place[chosen]), self.device)]


class StreamedImages(StoredImages):
    """Images of a folder too large for memory, decoded as squares whenever they are taken.

    Args:
        folder: The images.
        size: Side of every image after resizing, or ``(N,)``, the side of each image of the folder.
        indices: Which images of the folder, in this order; all of them if not given.
        shape: See :func:`decode_image`.
    """

    def __init__(
        self, folder: ImageFolder, size: int | ArrayLike, indices: ArrayLike | None = None, shape: Shape = "crop"
    ) -> None:
        chosen = np.arange(len(folder)) if indices is None else np.asarray(indices, dtype=np.int64)
        sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), (len(folder),))
        super().__init__(sizes[chosen], 3 if folder.colour == "rgb" else 1, int(sizes.max()))
        self._folder, self._chosen, self._how = folder, chosen, shape

    def __getitem__(self, indices: Tensor) -> Tensor:
        """Decode the images at ``indices`` ``(B,)``: ``(B, C, m, m)``, unsigned bytes."""
        items = indices.tolist()
        images = (self._folder.decode(int(self._chosen[i]), int(self.sizes[i]), self._how) for i in items)
        names = [str(self._folder.paths[self._chosen[i]]) for i in items]
        return torch.from_numpy(stack(len(items), images, names)).to(self.device)
