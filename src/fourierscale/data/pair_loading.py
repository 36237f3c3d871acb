"""From the name of a protocol or a path to pairs that are ready for training: masks of images, and fields."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import torch
from torch import Tensor

from fourierscale.data.augment import Augmentation
from fourierscale.data.errors import DataError
from fourierscale.data.fields import VISCOSITIES, FieldPairs, field_levels, make_navier_stokes, read_fields
from fourierscale.data.loading import SPLITS, ScaledSplits
from fourierscale.data.mask_folder import MaskSurvey, survey_masks
from fourierscale.data.mask_opening import open_masks
from fourierscale.data.paired import PairedDataset
from fourierscale.data.pets import open_pets
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.protocols import Protocol, TaskName, find_protocol, folder_path
from fourierscale.data.splits import Indices, random_order, split_hash
from fourierscale.data.stored import SizedImages
from fourierscale.data.survey import FolderOptions
from fourierscale.functional import downscale
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["load_fields", "load_masks"]


def load_masks(
    name: str | MaskSurvey,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    folder: FolderOptions = FolderOptions(),  # noqa: B008
    ignore: int | None = None,
    seed: int = 0,
    train_size: int | None = None,
    augment: Augmentation | None = None,
    boundary: str | None = None,
    report: ProgressCallback | None = None,
) -> ScaledSplits:
    """Images with masks, in three sets of :class:`PairedDataset`.

    Args:
        name: ``"pets"``, another protocol of masks, the path of a folder with ``images`` and ``masks``, or such a
            folder that was looked at already.
        data_dir: Where the images of a protocol are.
        folder: What may be said about a folder.
        ignore: Pixels of this number in the masks count for nothing.
        seed: Decides which images go where.
        train_size: Use only so many training images.
        augment: Augmentation of the training images and their masks.
        boundary: What lies beyond the images' edge when they are downscaled.
        report: Told how far it is.

    Raises:
        DataError: As :func:`open_masks` and :func:`open_pets`.
    """
    if isinstance(name, str) and folder_path(name) is not None:
        name = survey_masks(name, report)
    if isinstance(name, MaskSurvey):
        protocol, found = open_masks(name, folder, ignore, seed, report)
    else:
        protocol = _protocol(name, "segmentation", folder)
        found = open_pets(protocol, data_dir, seed, report)
    protocol = dataclasses.replace(protocol, boundary=boundary or protocol.boundary)
    splits = dict(found.splits)
    if train_size is not None:
        splits["train"] = _fewer(splits["train"], train_size, seed)
    prepare = Preprocessing(mean=protocol.mean, std=protocol.std, boundary=protocol.boundary)

    def part(split: str) -> PairedDataset:
        chosen = splits[split].tolist()
        return PairedDataset(
            SizedImages([found.images[n] for n in chosen], protocol.resolutions[-1]),
            SizedImages([found.masks[n] for n in chosen], protocol.resolutions[-1]),
            protocol.resolutions,
            classes=len(found.classes),
            preprocessing=prepare,
            augment=augment if split == "train" else None,
            seed=seed,
            own=found.own[splits[split]],
        )

    hashes = {split: split_hash(splits[split]) for split in SPLITS}
    names = {split: tuple(found.names[n] for n in splits[split]) for split in SPLITS}
    note = "; ".join(filter(None, (protocol.note, found.note)))
    train, val, test = map(part, SPLITS)
    return ScaledSplits(train, val, test, protocol, found.source, note, hashes, found.classes, names)


def load_fields(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    folder: FolderOptions = FolderOptions(),  # noqa: B008
    seed: int = 0,
    train_size: int | None = None,
    report: ProgressCallback | None = None,
) -> ScaledSplits:
    """Pairs of fields, in three sets of :class:`PairedDataset`.

    Args:
        name: ``"navier-stokes"``, another protocol of fields, or a path; see :func:`read_fields`.
        data_dir: Where the fields of a protocol are kept.
        folder: The size of the training fields and the lowest level, where they are not what follows from the fields.
        seed: Decides which pairs go where.
        train_size: Use only so many training pairs.
        report: Told how far it is.

    Raises:
        DataError: As :func:`read_fields`.
    """
    path = folder_path(name)
    if path is not None:
        parts = read_fields(path, seed, folder.skip_bad)
        source = str(path)
    else:
        named = _protocol(name, "field", folder)
        parts = make_navier_stokes(name, data_dir, report)
        source = f"solved here, viscosity {VISCOSITIES[name]:g}"
    if train_size is not None:
        parts["train"] = parts["train"].take(_fewer(np.arange(len(parts["train"])), train_size, seed))
    grid, tested = parts["train"].x.shape[-1], parts["test"].x.shape[-1]
    if min(part.x.shape[-1] for part in parts.values()) < (folder.size or grid):
        raise DataError(f"{name}: expected all fields on a grid of {folder.size or grid} samples or more")
    levels, resolutions = field_levels(grid, tested, folder.size, folder.lowest)
    x = parts["train"].x
    mean, std = x.mean((0, 2, 3)).tolist(), x.std((0, 2, 3)).clamp(min=1e-12).tolist()
    counts = (len(parts["train"]), len(parts["val"]), len(parts["test"]))
    protocol = Protocol(
        name=name,
        dataset=name,
        sizes=counts,
        of=sum(counts),
        resolutions=resolutions,
        equivariance=levels,
        mean=tuple(mean),
        std=tuple(std),
        note=f"trained on a grid of {levels[-1]}, tested on fields of {tested} samples ideally downscaled",
        task="field",
    )
    prepare = Preprocessing(mean=protocol.mean, std=protocol.std)

    def part(split: str) -> PairedDataset:
        pairs = parts[split]
        size = resolutions[-1] if split == "test" else levels[-1]
        whole = _on_grid(pairs, size)
        return PairedDataset(
            whole.x, whole.y, [*(m for m in resolutions if m <= size)], preprocessing=prepare, seed=seed
        )

    hashes = {split: split_hash(_checksums(parts[split].x)) for split in SPLITS}
    outputs = tuple(f"channel {number}" for number in range(parts["train"].y.shape[1]))
    outputs = outputs if path is not None else named.classes
    train, val, test = map(part, SPLITS)
    return ScaledSplits(train, val, test, protocol, source, protocol.note, hashes, outputs)


def _on_grid(pairs: FieldPairs, size: int) -> FieldPairs:
    if pairs.x.shape[-1] == size:
        return pairs
    return FieldPairs(downscale(pairs.x, size), downscale(pairs.y, size))


def _checksums(x: Tensor) -> Indices:
    """A number for each field, which another field would hardly have."""
    sums = x.double().flatten(1) @ torch.arange(1, x[0].numel() + 1, dtype=torch.float64)
    return sums.float().view(torch.int32).numpy().astype(np.int64)


def _protocol(name: str, task: TaskName, folder: FolderOptions) -> Protocol:
    protocol = find_protocol(name)
    if protocol.task != task:
        raise DataError(f"{name} is for the task {protocol.task}, not {task}: give --task {protocol.task}")
    if folder.size is not None or folder.lowest is not None:
        raise DataError(f"{name}: its data have their own size; size is for data of yours")
    return protocol


def _fewer(indices: Indices, count: int, seed: int) -> Indices:
    if not 0 < count <= len(indices):
        raise DataError(f"cannot take {count} out of {len(indices)} training pairs")
    return np.sort(indices[random_order(len(indices), seed, 1)[:count]])
