"""From the name of a protocol to datasets ready for training and testing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from fourierscale.data import sources
from fourierscale.data.augment import Augmentation
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from fourierscale.data.fit import Fit
from fourierscale.data.folder import ImageFolder
from fourierscale.data.protocols import FOLDER, Protocol, find_protocol
from fourierscale.data.scaled import ResolutionMode, ScaledDataset
from fourierscale.data.splits import split_hash, stratified_split, subset
from fourierscale.data.streamed import StreamedImages
from fourierscale.functional.bands import Boundary
from fourierscale.functional.resample import Kind

__all__ = ["MEMORY_LIMIT", "ScaledSplits", "load_protocol"]

MEMORY_LIMIT = 1 << 30
SPLITS = ("train", "val", "test")
Cut = Callable[[NDArray[np.int64]], NDArray[np.uint8] | StreamedImages]


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledSplits:
    """The three sets of a protocol.

    Attributes:
        train: Training set, the only one that is augmented.
        val: Validation set.
        test: Test set.
        protocol: What was loaded, with the overrides applied.
        source: Where the images came from, in words.
        note: What a reader of results on these sets must know; also says if fewer images are there than published.
        hashes: SHA-256 of each split's index list into the dataset as published.
        classes: Class names.
    """

    train: ScaledDataset
    val: ScaledDataset
    test: ScaledDataset
    protocol: Protocol
    source: str
    note: str
    hashes: Mapping[str, str]
    classes: tuple[str, ...]

    def __iter__(self) -> Iterator[ScaledDataset]:
        return iter((self.train, self.val, self.test))


@dataclasses.dataclass(frozen=True, eq=False)
class _Images:
    """What a protocol cuts its splits from."""

    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    source: str
    cut: Cut


def load_protocol(
    name: str | Protocol,
    data_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    seed: int = 0,
    report: sources.Report | None = None,
    *,
    kind: Kind | None = None,
    boundary: Boundary | None = None,
    fit: Fit | None = None,
    fit_size: int | None = None,
    train_size: int | None = None,
    resolution_mode: ResolutionMode = "one",
    augment: Augmentation | str | None = None,
    size: int | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> ScaledSplits:
    """Get the images of a protocol, split them, and give them their resolutions.

    Args:
        name: A protocol, its name, or ``folder:PATH``.
        data_dir: As for :func:`get`.
        offline: As for :func:`get`.
        seed: Decides the splits, the resolutions and the augmentation.
        report: As for :func:`get`.
        kind: Downscale in another way than the protocol says.
        boundary: Downscale with another boundary than the protocol says; give that of the model.
        fit: Bring all images to one size; see :func:`fit_to`.
        fit_size: That size; the protocol's largest resolution if not given.
        train_size: Use only so many training images, nested for one seed and stratified.
        resolution_mode: See :class:`ScaledDataset`.
        augment: Augmentation of the training set.
        size: For ``folder:PATH``, the side of the images.
        memory_limit: A folder that decodes to more bytes than this is streamed instead of held in memory.

    Raises:
        DataError: As :func:`get`; or too few images; or a split that is not the published one.
    """
    protocol = name if isinstance(name, Protocol) else find_protocol(name, size)
    if kind is not None:
        protocol = dataclasses.replace(protocol, kind=kind)
    if boundary is not None:
        protocol = dataclasses.replace(protocol, boundary=boundary)
    if protocol.dataset.startswith(FOLDER):
        found = _open_folder(protocol, memory_limit)
    else:
        found = _get_images(protocol, data_dir, offline, report)

    count = len(found.labels)
    sizes = _sizes(protocol, count)
    limit = train_size
    if train_size is None and protocol.train_size is not None:
        limit = protocol.train_size * count // protocol.of
    try:
        indices = stratified_split(found.labels, sizes, seed)
        if limit is not None:
            indices["train"] = subset(indices["train"], found.labels, limit, seed)
    except ValueError as error:
        raise DataError(f"{protocol.name}: {error}") from error
    hashes = {split: split_hash(indices[split]) for split in SPLITS}
    if seed == 0 and count == protocol.of and train_size is None:
        _compare(protocol, hashes)

    def scaled(split: str) -> ScaledDataset:
        single = protocol.train_resolution if split != "test" else None
        return ScaledDataset(
            found.cut(indices[split]),
            found.labels[indices[split]],
            protocol.resolutions if single is None else (single,),
            resolution_mode=resolution_mode,
            kind=protocol.kind,
            boundary=protocol.boundary,
            fit=fit,
            fit_size=None if fit is None else (fit_size or protocol.resolutions[-1]),
            mean=protocol.mean,
            std=protocol.std,
            augment=augment if split == "train" else None,
            seed=seed,
        )

    train, val, test = map(scaled, SPLITS)
    note = protocol.note
    if count != protocol.of and not protocol.dataset.startswith(FOLDER):
        note += f"; only {count:,} of {protocol.of:,} images are there, sizes are in proportion"
    return ScaledSplits(train, val, test, protocol, found.source, note, hashes, found.classes)


def _get_images(
    protocol: Protocol, data_dir: str | os.PathLike[str] | None, offline: bool, report: sources.Report | None
) -> _Images:
    raw = sources.get(protocol.dataset, data_dir, offline, report)
    images, labels = raw.images, raw.labels
    parts = dict(raw.parts)
    if protocol.part is not None:  # parts are in order, and only the first is ever asked for alone
        count = parts.get(protocol.part, 0)
        images, labels = images[:count], labels[:count]
    elif len(parts) == 1:  # only STL-10 can be read in part
        raise MissingDataError(
            f"{protocol.name} needs the train and the test part of {raw.name}, got only {', '.join(parts)} from "
            f"{raw.source}: stl10-scale-5k needs the train part alone, but its figures are not comparable"
        )
    return _Images(labels, raw.classes, raw.source, lambda chosen: images[chosen])


def _open_folder(protocol: Protocol, memory_limit: int) -> _Images:
    folder = ImageFolder(os.path.expanduser(protocol.dataset.removeprefix(FOLDER)))
    side = protocol.resolutions[-1]
    source = f"folder {folder.root}"
    if len(folder) * 3 * side * side > memory_limit:
        return _Images(
            folder.labels,
            folder.classes,
            f"{source}, streamed",
            lambda chosen: StreamedImages(folder, side, chosen),
        )
    images = folder.load_all(side)
    return _Images(folder.labels, folder.classes, source, lambda chosen: images[chosen])


def _sizes(protocol: Protocol, count: int) -> dict[str, int]:
    """Sizes of the splits out of ``count`` images, in proportion."""
    ends = np.cumsum(protocol.sizes) * count // protocol.of
    sizes = dict(zip(SPLITS, np.diff(ends, prepend=0).tolist(), strict=True))
    if min(sizes.values()) < 1:
        raise MissingDataError(f"{protocol.name}: expected an image in every split, {count} images are too few")
    return sizes


def _compare(protocol: Protocol, hashes: Mapping[str, str]) -> None:
    """Refuse splits that differ from the published ones."""
    for split, published in zip(SPLITS, protocol.hashes, strict=False):  # none where none were published
        if hashes[split] != published:
            raise CorruptFileError(
                f"{protocol.name}: the {split} split has hash {hashes[split][:12]}, published {published[:12]}: "
                "these are not the published images in the published order"
            )
