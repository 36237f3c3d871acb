"""Images and what every pixel of them is: a class, or the values of another field."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fourierscale.data.augment import Augmentation
from fourierscale.data.moving import moved
from fourierscale.data.scaled import Batch, ScaledDataset, batch_generator
from fourierscale.data.stored import StoredImages
from fourierscale.functional import area_average, downscale
from fourierscale.functional.bands import Boundary
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["PairedDataset", "classes_of", "targets_at"]


class PairedDataset(ScaledDataset):
    """Square images, each with a map of the same size: masks of classes, or fields.

    A batch (:class:`Batch`) has ``labels`` of shape ``(B, K, m, m)`` at the samples of its images: for masks the share
    of each of ``K`` classes in the area around each sample, which add up to 1, or to less where pixels are ignored; for
    fields their ``K`` channels. An image that is downscaled has its mask averaged (:func:`area_average`) and its field
    downscaled as it is.

    Args:
        images: ``(N, C, n, n)`` unsigned bytes, or :class:`SizedImages`; of fields floating point numbers.
        targets: ``(N, 1, n, n)`` unsigned bytes, the number of the class of each pixel, of the same sizes; of fields
            ``(N, K, n, n)`` floating point numbers.
        resolutions: The resolutions at which the images may be.
        classes: How many classes there are, any other number counting for none; None for fields.
        preprocessing: How images are downscaled and normalised.
        augment: Applied to images and masks together.
        seed: Draws the augmentation.
        own: ``(N,)``, the resolution of each image; the highest for all if not given.

    >>> images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    >>> masks = torch.randint(0, 2, (4, 1, 8, 8), dtype=torch.uint8)
    >>> batch = PairedDataset(images, masks, [4, 8], classes=2).__getitems__([0, 3])
    >>> batch.images.shape, batch.labels.shape, float(batch.labels.sum(1).min())
    (torch.Size([2, 3, 8, 8]), torch.Size([2, 2, 8, 8]), 1.0)
    """

    def __init__(
        self,
        images: Tensor | NDArray[np.uint8] | StoredImages,
        targets: Tensor | StoredImages,
        resolutions: Sequence[int],
        *,
        classes: int | None = None,
        preprocessing: Preprocessing = Preprocessing(),  # noqa: B008
        augment: Augmentation | None = None,
        seed: int = 0,
        own: ArrayLike | None = None,
    ) -> None:
        self.targets, self.classes = targets, classes
        count = len(images)
        super().__init__(
            images,
            np.zeros(count, dtype=np.int64),
            resolutions,
            preprocessing=preprocessing,
            augment=augment,
            seed=seed,
            own=np.full(count, max(resolutions)) if own is None else own,
        )

    @property
    def outputs(self) -> int:
        """Channels of what a model has to give: classes, or channels of the fields."""
        return int(self.targets.shape[1]) if self.classes is None else self.classes

    def target_scale(self) -> Tensor:
        """The size of each channel of the targets, ``(K,)``: the root mean square of fields, 1 for classes."""
        if self.classes is not None:
            return torch.ones(self.outputs)
        fields = self.targets
        assert isinstance(fields, Tensor)
        return fields.square().mean((0, 2, 3)).sqrt().clamp(min=1e-12)

    def _check_images(self) -> None:
        images, targets = (tuple(stored.shape) for stored in (self.images, self.targets))
        wanted = torch.float32 if self.classes is None else torch.uint8
        for name, stored in (("images", self.images), ("targets", self.targets)):
            if len(stored.shape) != 4 or stored.shape[2] != stored.shape[3] or stored.dtype != wanted:
                raise ValueError(
                    f"expected square {name} (N, C, n, n) of {wanted}, got {stored.dtype} {tuple(stored.shape)}"
                )
        if images[0] != targets[0] or images[2:] != targets[2:] or (self.classes is not None and targets[1] != 1):
            raise ValueError(f"expected a target of its size for each image, got shapes {images} and {targets}")
        if not self.resolutions or not 1 <= self.resolutions[0] <= self.resolutions[-1] <= images[3]:
            raise ValueError(f"expected resolutions from 1 to the images' {images[3]}, got {self.resolutions}")

    def to(self, device: torch.device | str) -> PairedDataset:
        """Move images and targets there, so that batches are made there; returns the dataset itself."""
        super().to(device)
        self.targets = self.targets.to(device)
        return self

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """A batch of items of one resolution; augmentation depends on ``(seed, epoch, number of the batch)``."""
        items = torch.as_tensor(indices, dtype=torch.int64)
        found = np.unique(self.item_resolutions[items.numpy()]).tolist()
        if len(found) != 1:
            raise ValueError(f"expected items of one resolution in a batch, got {found}: use make_loader")
        x, shares = self._stored(self.images, items), self._stored(self.targets, items)
        if self.classes is not None:
            x, shares = x.float() / 255, _shares(shares[:, 0], self.classes)
        shares = targets_at(shares, found[0], self.classes is None, self.preprocessing.boundary)
        x = self.preprocessing.downscale(x, found[0])
        if self.augment is not None:
            epoch, number = getattr(indices, "epoch", self.epoch), getattr(indices, "number", 0)
            x, shares = self.augment.paired(x, shares, batch_generator(self.seed, epoch, number))
        return Batch((x - self.mean) / self.std, shares, found[0], moved(items, self.device))

    def _stored(self, stored: Tensor | StoredImages, items: Tensor) -> Tensor:
        return stored[moved(items, self.device) if isinstance(stored, Tensor) else items]


def _shares(mask: Tensor, classes: int) -> Tensor:
    """1 at the class of each pixel: ``(B, n, n)`` to ``(B, K, n, n)``; a number that is no class has zeros alone."""
    return (mask[:, None] == torch.arange(classes, device=mask.device).view(-1, 1, 1)).float()


def targets_at(labels: Tensor, size: int, fields: bool = False, boundary: Boundary = "circular") -> Tensor:
    """What a map of this size is to be: shares averaged around its samples, or fields ideally downscaled.

    Args:
        labels: ``(B, K, n, n)``, of a batch.
        size: Samples per axis of the map; the labels themselves if they have as many.
        fields: Whether the labels are fields.
        boundary: Of the downscaling.
    """
    if labels.shape[-1] == size:
        return labels
    return downscale(labels, size, boundary=boundary) if fields else area_average(labels, size, boundary)


def classes_of(shares: Tensor) -> Tensor:
    """The class with the largest share at each sample, ``(B, K, m, m)`` to ``(B, m, m)``; -1 where half is ignored."""
    largest = shares.argmax(1)
    return torch.where(shares.sum(1) >= 0.5, largest, -1)
