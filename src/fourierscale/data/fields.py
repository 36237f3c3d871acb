"""Pairs of fields as arrays: what is given and what is asked for, on one grid or, to be tested, on finer ones."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fourierscale.data.cache import cache_folder, locked
from fourierscale.data.errors import CorruptFileError, DataError, FormatError, MissingDataError
from fourierscale.data.navier_stokes import random_vorticity, solve_navier_stokes
from fourierscale.data.progress import ProgressCallback
from fourierscale.data.splits import Indices, random_order
from fourierscale.functional import downscale
from fourierscale.models.files import write_whole

__all__ = [
    "VISCOSITIES",
    "FieldPairs",
    "field_levels",
    "make_navier_stokes",
    "read_fields",
    "read_inputs",
    "read_pairs",
]

NAMES = ("x", "y")
NAMED = 5
VISCOSITIES = {"navier-stokes": 1e-3, "navier-stokes-1e-4": 1e-4}
SOLVED_ON = {1e-3: (64, 0.05), 1e-4: (96, 0.03)}  # grid and step; finer ones change the end by less than 1e-4
TIME, TRAIN_GRID, TEST_GRID = 10.0, 64, 256
COUNTS = {"train": 1000, "val": 100, "test": 200}
TOGETHER = 20  # fields that are solved for at a time


@dataclass(frozen=True, eq=False)
class FieldPairs:
    """Fields and what they become.

    Attributes:
        x: ``(N, C, n, n)``, single precision.
        y: ``(N, K, n, n)``, likewise.
    """

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def take(self, chosen: Indices) -> FieldPairs:
        """Some of the pairs."""
        index = torch.from_numpy(chosen)
        return FieldPairs(self.x[index], self.y[index])


def read_pairs(path: Path, skip_bad: bool = False) -> FieldPairs:
    """Pairs from one place: ``.npz`` or ``.pt`` with ``x`` and ``y``, or a folder with ``x.npy`` and ``y.npy``.

    Raises:
        MissingDataError: There are no such arrays.
        FormatError: Arrays that are not pairs of fields on one square grid.
        CorruptFileError: A damaged file, or pairs with values that are not finite, unless they are to be skipped.
    """
    given = [_as_tensor(array, f"{path}: {name}") for name, array in zip(NAMES, _arrays(path), strict=True)]
    x, y = given
    if x.shape[0] != y.shape[0] or x.shape[2:] != y.shape[2:]:
        raise FormatError(
            f"{path}: expected as many fields in x as in y on one grid, got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    fine = torch.stack([part.flatten(1).isfinite().all(1) for part in given]).all(0)
    bad = torch.nonzero(~fine)[:, 0].tolist()
    if bad and (not skip_bad or len(bad) == len(fine)):
        named = ", ".join(map(str, bad[:NAMED])) + (f" and {len(bad) - NAMED} more" if len(bad) > NAMED else "")
        raise CorruptFileError(
            f"{path}: {len(bad)} of {len(fine):,} pairs hold values that are not finite: {named}; mend them, or leave "
            "them out with --skip-bad"
        )
    return FieldPairs(x[fine], y[fine])


def read_inputs(path: Path) -> Tensor:
    """Fields alone, ``(N, C, n, n)``: the array of a ``.npy`` file, or ``x`` of another place.

    Raises:
        DataError: As :func:`read_pairs`.
    """
    x = _as_tensor(_arrays(path, NAMES[:1])[0], f"{path}: x")
    bad = torch.nonzero(~x.flatten(1).isfinite().all(1))[:, 0].tolist()
    if bad:
        raise CorruptFileError(
            f"{path}: {len(bad)} of {len(x):,} fields hold values that are not finite: {bad[:NAMED]}"
        )
    return x


def _arrays(path: Path, names: Sequence[str] = NAMES) -> list[Any]:
    """Arrays of a place, whatever holds them; nothing is unpickled."""
    try:
        if path.is_dir():
            return [np.load(path / f"{name}.npy", allow_pickle=False) for name in names]
        if path.suffix == ".npy" and len(names) == 1:
            return [np.load(path, allow_pickle=False)]
        if path.suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return [arrays[name] for name in names]
        if path.suffix in (".pt", ".pth"):
            found = torch.load(path, map_location="cpu", weights_only=True)
            return [found[name] for name in names]
    except KeyError:
        raise MissingDataError(f"{path}: expected arrays named {' and '.join(names)}") from None
    except FileNotFoundError as error:
        raise MissingDataError(f"{error.filename or path}: there is no such file; expected x.npy and y.npy") from None
    except (OSError, ValueError, EOFError, BadZipFile, RuntimeError, TypeError) as error:
        raise CorruptFileError(f"{path}: cannot be read ({' '.join(str(error).split())[:100]})") from None
    except Exception as error:  # unpicklers raise nearly anything on damaged files
        raise CorruptFileError(f"{path}: cannot be read ({type(error).__name__})") from None
    raise FormatError(f"{path}: expected a .npz or .pt file with x and y, or a folder with x.npy and y.npy")


def _as_tensor(array: Any, name: str) -> Tensor:
    given = array if isinstance(array, Tensor) else np.asarray(array)
    shape = tuple(given.shape)
    if isinstance(given, np.ndarray) and given.dtype.kind not in "fiub":
        raise FormatError(f"{name}: expected real numbers, got {given.dtype}")
    tensor = given if isinstance(given, Tensor) else torch.from_numpy(np.ascontiguousarray(given))
    if tensor.is_complex():
        raise FormatError(
            f"{name}: expected real numbers, got {tensor.dtype}: give real and imaginary part as channels"
        )
    if len(shape) not in (3, 4) or shape[-1] != shape[-2] or 0 in shape:
        raise FormatError(f"{name}: expected (N, n, n) or (N, channels, n, n) on a square grid, got shape {shape}")
    return (tensor if len(shape) == 4 else tensor[:, None]).float()


def read_fields(path: str | os.PathLike[str], seed: int = 0, skip_bad: bool = False) -> dict[str, FieldPairs]:
    """The pairs to train, validate and test on.

    Args:
        path: One place (see :func:`read_pairs`), cut 80 / 10 / 10 %; or a folder with ``train.npz``, and ``test.npz``
            and perhaps ``val.npz``, each of which may have another grid. Folders ``train`` and ``test`` do as well.
        seed: Decides which pairs go where.
        skip_bad: Leave out pairs with values that are not finite.

    Raises:
        DataError: As :func:`read_pairs`; or too few pairs.
    """
    root = Path(path).expanduser()
    if not root.exists():
        raise MissingDataError(f"{root}: there is no such file or folder")
    places = {name: place for name in COUNTS if (place := _place(root, name)) is not None}
    if root.is_dir() and places:
        if not {"train", "test"} <= set(places):
            raise MissingDataError(f"{root}: expected train.npz and test.npz, got {', '.join(sorted(places))} alone")
        parts = {name: read_pairs(place, skip_bad) for name, place in places.items()}
        if "val" not in parts:
            parts["train"], parts["val"] = _cut(parts["train"], (0.9, 0.1), seed, root)
        return parts
    train, val, test = _cut(read_pairs(root, skip_bad), (0.8, 0.1, 0.1), seed, root)
    return {"train": train, "val": val, "test": test}


def _place(root: Path, name: str) -> Path | None:
    candidates = [root / f"{name}{suffix}" for suffix in (".npz", ".pt", ".pth", "")]
    return next((path for path in candidates if path.exists()), None)


def _cut(pairs: FieldPairs, shares: Sequence[float], seed: int, root: Path) -> list[FieldPairs]:
    counts = [max(1, round(share * len(pairs))) for share in shares[1:]]
    if len(pairs) <= sum(counts):
        raise DataError(f"{root}: expected {len(shares)} pairs or more, got {len(pairs)}")
    order = random_order(len(pairs), seed, 0)
    ends = np.cumsum([len(pairs) - sum(counts), *counts])
    return [pairs.take(np.sort(part)) for part in np.split(order, ends[:-1])]


def field_levels(
    grid: int, tested: int, size: int | None = None, lowest: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """The levels of a grid and all resolutions to test at, up to the grid of the test fields by doubling.

    >>> field_levels(64, 256)
    ((32, 64), (32, 64, 128, 256))
    """
    top = grid if size is None else size
    if not 2 <= top <= grid:
        raise DataError(f"expected a size from 2 to the {grid} samples of the fields, got {top}")
    low = top // 2 if lowest is None else lowest
    if not 1 <= low <= top:
        raise DataError(f"expected a lowest resolution from 1 to the size {top}, got {low}")
    levels = tuple(sorted({low, top}))
    finer: list[int] = []
    while (finer or [top])[-1] * 2 <= tested:
        finer.append((finer or [top])[-1] * 2)
    return levels, (*levels, *finer)


def make_navier_stokes(
    name: str, data_dir: str | os.PathLike[str] | None = None, report: ProgressCallback | None = None
) -> dict[str, FieldPairs]:
    """Vorticity at the start and at time 10: 1,000 pairs to train and 100 to validate on a grid of 64, 200 at 256.

    They are made by :func:`solve_navier_stokes` from fixed seeds, once, in minutes, and kept.

    Args:
        name: ``"navier-stokes"`` for a viscosity of 1e-3, ``"navier-stokes-1e-4"``.
        data_dir: Where they are kept, in a folder of this name; the cache if not given.
        report: Told how far it is.
    """
    root = (cache_folder() if data_dir is None else Path(data_dir).expanduser()) / name
    root.mkdir(parents=True, exist_ok=True)
    with locked(root):
        for number, (part, count) in enumerate(COUNTS.items()):
            path = root / f"{part}.npz"
            if not path.is_file():
                _write(
                    path, _solve(count, VISCOSITIES[name], number, TEST_GRID if part == "test" else TRAIN_GRID, report)
                )
    return {part: read_pairs(root / f"{part}.npz") for part in COUNTS}


def _solve(count: int, viscosity: float, seed: int, grid: int, report: ProgressCallback | None) -> FieldPairs:
    start = random_vorticity(count, TEST_GRID, torch.Generator().manual_seed(seed))
    grid_of_flow, step = SOLVED_ON[viscosity]
    ends = []
    for first in range(0, count, TOGETHER):
        some = start[first : first + TOGETHER]
        ends.append(solve_navier_stokes(some, viscosity, TIME, grid=grid_of_flow, step=step))
        if report is not None:
            report(f"solving Navier-Stokes on a grid of {grid_of_flow}", min(1.0, (first + TOGETHER) / count))
    both = [downscale(part, grid)[:, None].float() for part in (start, torch.cat(ends))]
    return FieldPairs(*both)


def _write(path: Path, pairs: FieldPairs) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, x=pairs.x.numpy(), y=pairs.y.numpy())
    write_whole(path, buffer.getvalue())
