"""A folder too large for memory, behaving like one tensor whose rows are decoded when they are taken."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fourierscale.data.decode import decode_image
from fourierscale.data.folder import ImageFolder, stack

__all__ = ["StreamedImages"]


class StreamedImages:
    """Images of a folder as squares of one size, decoded from their files when indexed.

    Args:
        folder: The images.
        size: Side of each image's largest centred square after resizing.
        indices: Which images of the folder, in this order; all of them if not given.

    Attributes:
        shape: ``(N, C, size, size)``, as a tensor's.
        dtype: ``torch.uint8``.
        device: Where the decoded images are put.
    """

    dtype = torch.uint8

    def __init__(self, folder: ImageFolder, size: int, indices: ArrayLike | None = None) -> None:
        chosen = range(len(folder)) if indices is None else np.asarray(indices, dtype=np.int64).tolist()
        self._paths = tuple(folder.paths[index] for index in chosen)
        self._colour, self._max_pixels, self._size = folder.colour, folder.max_pixels, size
        self.shape = (len(self._paths), 3 if folder.colour == "rgb" else 1, size, size)
        self.device = torch.device("cpu")

    def __len__(self) -> int:
        return len(self._paths)

    def to(self, device: torch.device | str) -> StreamedImages:
        """Put decoded images on ``device``; returns itself."""
        self.device = torch.device(device)
        return self

    def __getitem__(self, indices: Tensor) -> Tensor:
        """Decode the images at ``indices`` ``(B,)``: ``(B, C, size, size)``, unsigned bytes."""
        paths = [self._paths[index] for index in indices.tolist()]
        images = (
            decode_image(path, colour=self._colour, size=self._size, max_pixels=self._max_pixels) for path in paths
        )
        return torch.from_numpy(stack(len(paths), images, [str(path) for path in paths])).to(self.device)
