"""Images that are there, whether a dataset's or a folder's: what the splits of a protocol are cut from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierscale.data.errors import DataError
from fourierscale.data.progress import ProgressCallback, for_each
from fourierscale.data.protocols import IMAGENET, IMAGENET_GREY, Protocol
from fourierscale.data.splits import Indices
from fourierscale.data.stored import SizedImages, StoredImages, StreamedImages
from fourierscale.data.survey import FolderOptions, Survey

__all__ = ["FoundImages", "open_folder"]


@dataclass(frozen=True, eq=False)
class FoundImages:
    """What a protocol cuts its splits from.

    Attributes:
        labels: ``(N,)``, index into ``classes``.
        classes: Class names.
        source: Where the images came from, in words.
        cut: Gives the images at some indices.
        splits: The indices of each split, where they are not the protocol's shares.
        own: ``(N,)``, the resolution of each image, where it is not dealt.
        notes: What a reader of results must know, one sentence each.
        names: What each image's file is called, where that is known.
    """

    labels: Indices
    classes: tuple[str, ...]
    source: str
    cut: Callable[[Indices], NDArray[np.uint8] | StoredImages]
    splits: Mapping[str, Indices] | None = None
    own: Indices | None = None
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def open_folder(
    survey: Survey, options: FolderOptions, seed: int = 0, report: ProgressCallback | None = None
) -> tuple[Protocol, FoundImages]:
    """The protocol of a folder and its images.

    Images are decoded once, all of them, so that every damaged file is found before training begins; those of a folder
    over the memory limit are then decoded again whenever a batch is made.

    Raises:
        MissingDataError: A folder that is not one of class folders, or a class with too few images.
        CorruptFileError: Images that cannot be used, unless they are to be skipped.
    """
    folder, plan = survey.folder, survey.plan(options, seed)
    folder.colour = options.colour or survey.colour
    if len(survey.bad) == len(folder):
        plan.refuse_bad()
    channels = 1 if folder.colour == "grey" else 3
    streamed = int((plan.own**2).sum()) * channels > options.memory_limit

    def decode(index: int) -> NDArray[np.uint8] | str | None:
        if index in plan.bad:
            return None
        try:
            image = folder.decode(index, int(plan.own[index]), options.shape)
        except DataError as error:
            return folder.why(index, error)
        return None if streamed else image

    images = list(for_each(len(folder), decode, "decoding the images", report))
    done = plan.without({index: why for index, why in enumerate(images) if isinstance(why, str)})
    notes = folder.notes
    if not options.skip_bad:
        done.refuse_bad()
    elif done.bad:
        notes += (f"left out: {done.name_bad()}",)
        if report is not None:
            report(notes[-1], None)
    kept, resolutions = done.kept, done.resolutions

    def cut(chosen: Indices) -> StoredImages:
        if streamed:
            return StreamedImages(folder, done.own, kept[chosen], options.shape)
        return SizedImages([images[index] for index in kept[chosen]], resolutions[-1])

    how = "centred squares" if options.shape == "crop" else "whole images"
    levels = ", ".join(map(str, resolutions))
    protocol = Protocol(
        name=survey.name,
        dataset=survey.name,
        sizes=(70, 10, 20),
        of=100,
        resolutions=resolutions,
        equivariance=resolutions,
        note=f"{done.told}; {how}, each at the highest of {levels} pixels that it has",
        shape=options.shape,
        **(IMAGENET_GREY if channels == 1 else IMAGENET),
    )
    source = f"folder {folder.root}" + (", streamed" if streamed else "")
    names = tuple(folder.short(index) for index in kept)
    labels, own = folder.labels[kept], done.own[kept]
    return protocol, FoundImages(labels, folder.classes, source, cut, done.splits, own, notes, names)
