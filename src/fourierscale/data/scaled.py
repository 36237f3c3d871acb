"""Any set of images at given resolutions, a batch at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from fourierscale.data.augment import Augmentation, get_augmentation
from fourierscale.data.moving import moved
from fourierscale.data.splits import assign_resolutions
from fourierscale.data.stored import StoredImages
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["Batch", "BatchIndices", "ResolutionMode", "ScaledDataset"]

ResolutionMode: TypeAlias = Literal["one", "every"]


class Batch(NamedTuple):
    """Images of one resolution, or of several that were brought to one size.

    Attributes:
        images: ``(B, C, m, m)``, float32.
        labels: ``(B,)``.
        resolution: The resolution of the images, whatever size they were then padded to; 0 if there are several.
        indices: ``(B,)``, which items of the dataset these are.
    """

    images: Tensor
    labels: Tensor
    resolution: int
    indices: Tensor


class BatchIndices(list[int]):
    """Items of a batch that know their epoch and number, from which augmentation is drawn; they travel to workers."""

    def __init__(self, items: Iterable[int] = (), epoch: int = 0, number: int = 0) -> None:
        super().__init__(items)
        self.epoch, self.number = epoch, number


class ScaledDataset(Dataset[tuple[Tensor, int]]):
    r"""Square images downscaled to given resolutions.

    A batch is made in this order: cut from the stored bytes, divide by 255, augment at the original size, downscale to
    :math:`m`, augment at that size, enlarge to a fixed size (if asked), normalise each channel. Padding therefore
    happens before normalisation: zero is black.

    A batch holds one resolution. Where images are brought to one size it may hold several, in any order.

    Args:
        images: ``(N, C, n, n)`` unsigned bytes, a tensor on any device or an array; or :class:`SizedImages` or
            :class:`StreamedImages`, of several sizes.
        labels: ``(N,)``, the class of each image.
        resolutions: The resolutions ``m <= n``; a single one for a set at one scale.
        resolution_mode: ``"one"``: each image has one resolution, fixed by the seed, all equally frequent (see
            :func:`assign_resolutions`); ``"every"``: each image comes at every resolution, item ``i`` being image
            ``i % N`` at ``resolutions[i // N]``.
        preprocessing: How images are downscaled, brought to one size (if asked) and normalised; a model's own, or one
            made for it. One mean and std count for every channel.
        augment: An augmentation or the name of one.
        seed: Decides resolutions and augmentation.
        own: ``(N,)``, the resolution of each image, where it is not dealt by the seed: images of several sizes each
            have their own.

    >>> images = torch.randint(0, 256, (6, 1, 28, 28), dtype=torch.uint8)
    >>> dataset = ScaledDataset(images, [0, 1, 0, 1, 0, 1], resolutions=[8, 20, 28])
    >>> sorted(dataset.item_resolutions.tolist())
    [8, 8, 20, 20, 28, 28]
    """

    def __init__(
        self,
        images: Tensor | NDArray[np.uint8] | StoredImages,
        labels: ArrayLike,
        resolutions: Sequence[int],
        *,
        resolution_mode: ResolutionMode = "one",
        preprocessing: Preprocessing = Preprocessing(),  # noqa: B008
        augment: Augmentation | str | None = None,
        seed: int = 0,
        own: ArrayLike | None = None,
    ) -> None:
        if isinstance(images, np.ndarray):
            images = torch.from_numpy(np.require(images, requirements=("C", "W")))  # torch warns of read-only arrays
        self.images = images
        classes = np.asarray(labels).astype(np.int64)
        if not np.array_equal(classes, np.asarray(labels)):
            raise ValueError("expected labels to be whole numbers, got fractions")
        self.labels = torch.from_numpy(classes.copy())
        self.resolutions = tuple(sorted({int(m) for m in resolutions}))
        self._check_images()
        if resolution_mode not in get_args(ResolutionMode):
            raise ValueError(f"expected resolution_mode to be 'one' or 'every', got {resolution_mode!r}")
        self.preprocessing = preprocessing
        size = preprocessing.enlarge_size
        if size is not None and size < self.resolutions[-1]:
            raise ValueError(f"enlarge_size is {size}, smaller than resolution {self.resolutions[-1]}: enlarge further")
        self.mean, self.std = self._per_channel(preprocessing.mean), self._per_channel(preprocessing.std)
        self.resolution_mode, self.seed, self.epoch = resolution_mode, seed, 0
        self.augment = get_augmentation(augment) if isinstance(augment, str) else augment
        if own is not None:
            self.item_resolutions = np.array(own, dtype=np.int64)
            self._check_own()
        elif resolution_mode == "one":
            self.item_resolutions = assign_resolutions(classes, self.resolutions, seed)
        else:
            self.item_resolutions = np.repeat(np.array(self.resolutions, dtype=np.int64), len(classes))

    def _check_images(self) -> None:
        shape, dtype = tuple(self.images.shape), self.images.dtype
        if len(shape) != 4 or shape[2] != shape[3] or dtype != torch.uint8:
            raise ValueError(f"expected images as unsigned bytes (N, C, n, n), got {dtype} of shape {shape}")
        if self.labels.shape != (shape[0],):
            raise ValueError(f"expected {shape[0]} labels for as many images, got shape {tuple(self.labels.shape)}")
        if not self.resolutions or not 1 <= self.resolutions[0] <= self.resolutions[-1] <= shape[3]:
            raise ValueError(f"expected resolutions from 1 to the images' {shape[3]}, got {self.resolutions}")

    def _check_own(self) -> None:
        if self.resolution_mode != "one" or self.item_resolutions.shape != self.labels.shape:
            raise ValueError("expected own to give each image one resolution, with resolution_mode='one'")
        unknown = sorted(set(self.item_resolutions.tolist()) - set(self.resolutions))
        if unknown:
            raise ValueError(f"expected the images' own resolutions among {self.resolutions}, got {unknown}")
        if isinstance(self.images, StoredImages) and (self.images.sizes < self.item_resolutions).any():
            raise ValueError("expected no image smaller than its own resolution")

    def _per_channel(self, values: Sequence[float]) -> Tensor:
        channels = self.images.shape[1]
        if len(values) not in (1, channels):
            raise ValueError(f"expected one mean and std for each of {channels} channels, got {len(values)}")
        return torch.tensor(values, dtype=torch.float32, device=self.device).view(-1, 1, 1)

    def with_preprocessing(self, preprocessing: Preprocessing) -> Self:
        """The same images, prepared in another way."""
        other = copy.copy(self)
        other.preprocessing = preprocessing
        other.mean, other.std = self._per_channel(preprocessing.mean), self._per_channel(preprocessing.std)
        return other

    @property
    def device(self) -> torch.device:
        """Where batches are made."""
        return self.images.device

    def to(self, device: torch.device | str) -> ScaledDataset:
        """Move the images there, so that batches are cut and downscaled there; returns the dataset itself."""
        self.images = self.images.to(device)
        self.labels, self.mean, self.std = (t.to(device) for t in (self.labels, self.mean, self.std))
        return self

    def __len__(self) -> int:
        return len(self.item_resolutions)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One image ``(C, m, m)`` and its label; augmentation is drawn for ``(seed, self.epoch, index)``."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of a dataset of {len(self)}")
        batch = self.__getitems__(BatchIndices([index % len(self)], self.epoch, index % len(self)))
        return batch.images[0], int(batch.labels[0])

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """A batch of items of one resolution, or of several if they are fitted, by vectorised calls.

        Augmentation depends on ``(seed, epoch, number of the batch)``, which :class:`BatchIndices` carry. In a batch of
        several resolutions it is drawn for the images in increasing order of resolution.
        """
        items = torch.as_tensor(indices, dtype=torch.int64)
        own = self.item_resolutions[items.numpy()]
        found = np.unique(own).tolist()
        if not 1 <= len(found) <= (1 if self.preprocessing.enlarge is None else len(self.resolutions)):
            raise ValueError(
                f"expected items of one resolution in a batch, got {found}: use make_loader, or bring all images to "
                "one size, for example with enlarge='zero'"
            )
        epoch, number = getattr(indices, "epoch", self.epoch), getattr(indices, "number", 0)
        generator = batch_generator(self.seed, epoch, number)
        stored = items % len(self.labels)
        if len(found) == 1:
            x = self._scaled(self._original(stored, generator), found[0], generator)
        else:
            x = self._mixed(stored, own, generator)
        resolution = found[0] if len(found) == 1 else 0
        labels = self.labels[moved(stored, self.device)]
        return Batch((x - self.mean) / self.std, labels, resolution, moved(items, self.device))

    def _original(self, stored: Tensor, generator: torch.Generator) -> Tensor:
        """Stored images of one size, from 0 to 1, augmented at that size: ``(B, C, n, n)``."""
        chosen = moved(stored, self.device) if isinstance(self.images, Tensor) else stored
        x = self.images[chosen].to(torch.float32) / 255
        return x if self.augment is None else self.augment(x, generator, "image")

    def _scaled(self, x: Tensor, resolution: int, generator: torch.Generator) -> Tensor:
        """Images of one resolution: downscaled to it, augmented there, enlarged (if asked)."""
        x = self.preprocessing.downscale(x, resolution)
        if self.augment is not None:
            x = self.augment(x, generator, "scaled")
        return self.preprocessing.enlarged(x)

    def _mixed(self, stored: Tensor, own: NDArray[np.int64], generator: torch.Generator) -> Tensor:
        """Images of several resolutions ``own``, made one resolution after the other and put back in order."""
        order = torch.from_numpy(np.argsort(own, kind="stable"))
        found, counts = (values.tolist() for values in np.unique(own, return_counts=True))
        parts: Iterable[Tensor]
        if isinstance(self.images, Tensor) or np.ptp(self.images.sizes) == 0:
            parts = torch.split(self._original(stored[order], generator), counts)
        else:  # stored at several sizes, one for each resolution
            parts = (self._original(part, generator) for part in torch.split(stored[order], counts))
        x = torch.cat([self._scaled(part, m, generator) for part, m in zip(parts, found, strict=True)])
        return x[moved(order.argsort(), self.device)]

    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        """Some images as they are stored, at the highest resolution there is: ``(B, C, n, n)`` from 0 to 1.

        Args:
            count: At most so many, evenly spread over those of that size.

        Returns:
            The images, and which items of the dataset they are.
        """
        items = torch.arange(len(self.labels))
        if not isinstance(self.images, Tensor):
            items = torch.from_numpy(np.flatnonzero(self.images.sizes == self.images.sizes.max()))
        step = max(1, len(items) // count)
        items = items[: step * min(count, len(items)) : step]
        return self.images[items.to(self.device)].to(torch.float32) / 255, items

    def denormalize(self, x: Tensor) -> Tensor:
        """Undo the normalisation of images ``(..., C, m, m)``: black is 0 and white 1 again."""
        return x * self.std + self.mean


def batch_generator(seed: int, epoch: int, number: int) -> torch.Generator:
    """The generator, on the CPU, from which the augmentation of one batch is drawn."""
    word = int(np.random.SeedSequence((seed, epoch, number)).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(word >> 1)  # torch takes signed 64-bit seeds
