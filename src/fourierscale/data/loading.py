"""From the name of a protocol to datasets ready for training and testing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

import numpy as np

from fourierscale.data import sources
from fourierscale.data.augment import Augmentation
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from fourierscale.data.opening import FoundImages, open_folder
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.protocols import Protocol, find_protocol, folder_path
from fourierscale.data.scaled import ResolutionMode, ScaledDataset
from fourierscale.data.splits import split_hash, stratified_split, subset
from fourierscale.data.survey import FolderOptions, Survey, survey_folder
from fourierscale.functional.bands import Boundary
from fourierscale.functional.enlarging import Enlarging
from fourierscale.functional.resample import Kind
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["ScaledSplits", "Scaling", "load_protocol"]

SPLITS = ("train", "val", "test")


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
        names: For each split what the files of its images are called, below the folder; empty unless it is a folder.
    """

    train: ScaledDataset
    val: ScaledDataset
    test: ScaledDataset
    protocol: Protocol
    source: str
    note: str
    hashes: Mapping[str, str]
    classes: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def preprocessing(self) -> Preprocessing:
        """How pixels of these images become the input of a model that is trained on them."""
        protocol = self.protocol
        return dataclasses.replace(
            self.test.preprocessing,
            sizes=tuple(protocol.resolutions),
            only_sizes=protocol.shape is not None,
            shape=protocol.shape,
            classes=tuple(self.classes),
            polarity="light on dark" if protocol.dataset == "mnist" else None,
        )

    def __iter__(self) -> Iterator[ScaledDataset]:
        return iter((self.train, self.val, self.test))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scaling:
    """How images come to their sizes, where it is not as the protocol says.

    Attributes:
        kind: How they are downscaled.
        boundary: What lies beyond their edge then; give that of the model.
        enlarge: How they are all brought to one size; see :func:`enlarge_to`.
        enlarge_size: That size; the largest resolution if not given.
    """

    kind: Kind | None = None
    boundary: Boundary | None = None
    enlarge: Enlarging | None = None
    enlarge_size: int | None = None


def load_protocol(
    name: str | Protocol | Survey,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    seed: int = 0,
    train_size: int | None = None,
    resolution_mode: ResolutionMode = "one",
    augment: Augmentation | str | None = None,
    scaling: Scaling = Scaling(),  # noqa: B008
    folder: FolderOptions | None = None,
    report: ProgressCallback | None = None,
) -> ScaledSplits:
    """Get the images of a protocol, split them, and give them their resolutions.

    Args:
        name: The name of a protocol, or the path of a folder of class folders of images; a protocol's name wins, and
            ``./NAME`` is then the folder. Also a protocol itself, or a folder that was looked at already.
        data_dir: As for :func:`get_dataset`, as ``offline`` and ``report``.
        offline: Try neither mirrors nor npm.
        seed: Decides the splits, the resolutions and the augmentation.
        train_size: Use only so many training images, nested for one seed and stratified.
        resolution_mode: See :class:`ScaledDataset`.
        augment: Augmentation of the training set.
        scaling: How images come to their sizes, where it is not as the protocol says.
        folder: What is set about a folder; the rest follows from its images.
        report: Told of each step and of the progress of downloads.

    Raises:
        DataError: As :func:`get_dataset`; or too few images; or a split that is not the published one.
    """
    options = folder or FolderOptions()
    if isinstance(name, str) and folder_path(name) is not None:
        name = survey_folder(name, report)
    if isinstance(name, Survey):
        protocol, found = open_folder(name, options, seed, report)
    else:
        protocol = name if isinstance(name, Protocol) else find_protocol(name)
        if protocol.task != "classification":
            raise DataError(f"{protocol.name} is for the task {protocol.task}: give --task {protocol.task}")
        if options.size is not None or options.lowest is not None:
            raise DataError(f"{protocol.name}: its images have their own size; size is for a folder of images")
        found = _get_images(protocol, data_dir, offline, report)
    protocol = dataclasses.replace(
        protocol, kind=scaling.kind or protocol.kind, boundary=scaling.boundary or protocol.boundary
    )

    count = len(found.labels)
    limit = train_size
    if train_size is None and protocol.train_size is not None:
        limit = protocol.train_size * count // protocol.of
    try:
        if found.splits is None:
            indices = stratified_split(found.labels, _sizes(protocol, count), seed)
        else:
            indices = dict(found.splits)
        if limit is not None:
            indices["train"] = subset(indices["train"], found.labels, limit, seed)
    except ValueError as error:
        raise DataError(f"{protocol.name}: {error}") from error
    hashes = {split: split_hash(indices[split]) for split in SPLITS}
    if seed == 0 and count == protocol.of and train_size is None:
        _compare(protocol, hashes)

    preprocessing = Preprocessing(
        mean=protocol.mean,
        std=protocol.std,
        kind=protocol.kind,
        boundary=protocol.boundary,
        enlarge=scaling.enlarge,
        enlarge_size=None if scaling.enlarge is None else scaling.enlarge_size or protocol.resolutions[-1],
    )

    def scaled(split: str) -> ScaledDataset:
        single = protocol.train_resolution if split != "test" else None
        return ScaledDataset(
            found.cut(indices[split]),
            found.labels[indices[split]],
            protocol.resolutions if single is None else (single,),
            resolution_mode=resolution_mode,
            preprocessing=preprocessing,
            augment=augment if split == "train" else None,
            seed=seed,
            own=None if found.own is None else found.own[indices[split]],
        )

    train, val, test = map(scaled, SPLITS)
    note = "; ".join((protocol.note, *found.notes))
    if count != protocol.of and protocol.shape is None:
        note += f"; only {count:,} of {protocol.of:,} images are there, sizes are in proportion"
    names = {split: tuple(found.names[index] for index in indices[split]) for split in SPLITS if found.names}
    return ScaledSplits(train, val, test, protocol, found.source, note, hashes, found.classes, names)


def _get_images(
    protocol: Protocol, data_dir: str | os.PathLike[str] | None, offline: bool, report: ProgressCallback | None
) -> FoundImages:
    raw = sources.get_dataset(protocol.dataset, data_dir, offline, report)
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
    return FoundImages(labels, raw.classes, raw.source, lambda chosen: images[chosen])


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
