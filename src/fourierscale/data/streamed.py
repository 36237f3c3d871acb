"""A folder too large for memory, behaving like one tensor whose rows are decoded when they are taken."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fourierscale.data.decode import Shape, decode_image
from fourierscale.data.folder import ImageFolder, stack

__all__ = ["StreamedImages"]


class StreamedImages:
    """Images of a folder as squares, decoded from their files when indexed; those taken together have one size.

    Args:
        folder: The images.
        size: Side of every image after resizing, or ``(N,)``, the side of each image of the folder.
        indices: Which images of the folder, in this order; all of them if not given.
        shape: See :func:`decode_image`.

    Attributes:
        shape: ``(N, C, n, n)`` with the largest side ``n``, as a tensor's.
        dtype: ``torch.uint8``.
        device: Where the decoded images are put.
        sizes: ``(N,)``, the side of each image.
    """

    dtype = torch.uint8

    def __init__(
        self, folder: ImageFolder, size: int | ArrayLike, indices: ArrayLike | None = None, shape: Shape = "crop"
    ) -> None:
        chosen = range(len(folder)) if indices is None else np.asarray(indices, dtype=np.int64).tolist()
        sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), (len(folder),))
        self._paths = tuple(folder.paths[index] for index in chosen)
        self.sizes = sizes[list(chosen)]
        self._colour, self._max_pixels, self._how = folder.colour, folder.max_pixels, shape
        side = int(sizes.max())
        self.shape = (len(self._paths), 3 if folder.colour == "rgb" else 1, side, side)
        self.device = torch.device("cpu")

    def __len__(self) -> int:
        return len(self._paths)

    def to(self, device: torch.device | str) -> StreamedImages:
        """The same images, decoded to ``device``; these are decoded where they were, as a tensor stays where it is."""
        there = copy.copy(self)
        there.device = torch.device(device)
        return there

    def __getitem__(self, indices: Tensor) -> Tensor:
        """Decode the images at ``indices`` ``(B,)``: ``(B, C, m, m)``, unsigned bytes."""
        chosen = [(self._paths[index], int(self.sizes[index])) for index in indices.tolist()]
        images = (
            decode_image(path, colour=self._colour, size=size, max_pixels=self._max_pixels, shape=self._how)
            for path, size in chosen
        )
        return torch.from_numpy(stack(len(chosen), images, [str(path) for path, _ in chosen])).to(self.device)
