"""Find a dataset's files in a folder the user names."""

from __future__ import annotations

from pathlib import Path

from fourierscale.data import stl10
from fourierscale.data.errors import CorruptFileError, MissingDataError
from fourierscale.data.published import find_published
from fourierscale.data.reading import RawImages, is_imagenette, read_dataset
from fourierscale.data.registry import DATASETS, Dataset

__all__ = ["load_folder"]


def load_folder(dataset: Dataset, data_dir: Path) -> RawImages:
    """Load a dataset from ``data_dir`` or from one of the sub-folders in which others unpack it.

    A file of the published size must have the published digest. Files of other sizes (a small set in the official
    layout) are read too, and ``source`` then says that they were not compared with published digests.

    Raises:
        MissingDataError: The files are not there.
        CorruptFileError: A file is damaged, or belongs to another dataset.
    """
    if not data_dir.is_dir():
        raise MissingDataError(f"{data_dir}: expected a folder with {dataset.title}, there is no such folder")
    for place in dataset.places:
        folder = data_dir / place
        paths = _find(dataset, folder) if folder.is_dir() else []
        if paths:
            compared = [_compare(dataset, path) for path in paths if path.is_file()]
            note = "" if compared and all(compared) else ", not compared with published digests"
            return read_dataset(dataset, paths, f"local folder {folder}{note}")
    names = [forms[0].name for forms in dataset.files]
    raise MissingDataError(
        f"{data_dir}: expected {', '.join(names)} there or in {', '.join(filter(None, dataset.places))}"
    )


def _find(dataset: Dataset, folder: Path) -> list[Path]:
    """The dataset's files in ``folder``; none if it is not there at all."""
    if dataset.kind == "stl10":
        return [folder / f"{part}_{kind}.bin" for part in stl10.parts_in(folder) for kind in "Xy"]
    if dataset.kind == "imagenette":
        archive = folder / dataset.files[0][0].name
        return [archive] if archive.is_file() else [folder] if is_imagenette(dataset, folder) else []
    names = [forms[0].name.removesuffix(".gz") for forms in dataset.files]
    found = [next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None) for name in names]
    absent = [name for name, path in zip(names, found, strict=True) if path is None]
    if absent and len(absent) < len(names):
        raise MissingDataError(f"{folder}: expected {', '.join(absent)} beside the other files of {dataset.title}")
    return [path for path in found if path is not None]


def _compare(dataset: Dataset, path: Path) -> bool:
    """Whether ``path`` has a published digest; raises if it has the size of a published file but not its bytes."""
    forms = [form for forms in dataset.files for form in forms if form.name == path.name]
    if find_published(path.parent, forms):
        return True
    size = path.stat().st_size
    same_size = [form for form in forms if form.size == size]
    if same_size or dataset.kind == "imagenette":
        (same_size or forms)[0].check(path)
    for other in DATASETS.values():  # MNIST's relatives use the same file names
        if find_published(path.parent, [form for forms in other.files for form in forms if form.name == path.name]):
            raise CorruptFileError(f"{path}: expected {dataset.title}, got {other.title}")
    return False
