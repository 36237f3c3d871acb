"""Good files of every format that the library reads, made once for an attack, and the calls that read them."""

from __future__ import annotations

import functools
import gzip
import http.server
import shutil
import struct
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from fourierscale.data.idx import write_idx
from tests.attack.commands import call
from tests.data.small_sets import write_idx_set
from tests.training.small_runs import NAMES, spots

SIDE = 16
SETTINGS = (
    *("model.name=scalenet-tiny", "model.overrides.resolutions=[8, 12, 16]", "model.overrides.widths=[3, 4]"),
    *("model.overrides.hidden=6", "train.epochs=1", "train.progress=false", "data.batch_size=8", "data.size=16"),
    *("data.lowest=8", "eval.sample=4", "train.accelerator=cpu"),
)
"""Those of a run that takes seconds."""


def settings() -> list[str]:
    """:data:`SETTINGS` as arguments."""
    return [word for setting in SETTINGS for word in ("--set", setting)]


def write_images(folder: Path, each: int = 8) -> None:
    """Three classes of small pictures."""
    images, labels = spots(3 * each, SIDE, 5)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = folder / "abc"[label] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.stack([image[0]] * 3, -1)).save(path)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Offers files and says nothing about it."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class Corpus:
    """Good files in a folder; each is made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, arguments: list[str]) -> None:
        """Let the command line write something good."""
        work = self.folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        told = call(arguments, work, 300)
        if told.status:
            raise RuntimeError(f"{' '.join(arguments)}: status {told.status}: {told.err[-500:]}")

    @functools.cached_property
    def images(self) -> Path:
        """A folder of class folders."""
        write_images(self.folder / "images")
        return self.folder / "images"

    @functools.cached_property
    def run(self) -> Path:
        """A finished run on the images."""
        out = self.folder / "run"
        self.make(["train", str(self.images), "--no-onnx", "--out", str(out), *settings()])
        return out

    @functools.cached_property
    def picture(self) -> Path:
        """A picture to predict."""
        path = self.folder / "picture.png"
        Image.fromarray(np.linspace(0, 255, 20 * 24 * 3).reshape(20, 24, 3).astype(np.uint8)).save(path)
        return path

    @functools.cached_property
    def pictures(self) -> dict[str, bytes]:
        """The same in formats that Pillow reads."""
        found = {}
        with Image.open(self.picture) as image:
            image.load()
        kinds: list[tuple[str, Image.Image, dict[str, object]]] = [
            ("rgb.png", image, {}),
            ("grey.png", image.convert("L"), {}),
            ("palette.png", image.convert("P"), {"transparency": 3}),
            ("alpha.png", image.convert("RGBA"), {}),
            ("sixteen.png", Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257), {}),
            ("plain.jpg", image, {"quality": 80}),
            ("exif.jpg", image, {"exif": _turned()}),
            ("progressive.jpg", image, {"progressive": True}),
            ("cmyk.jpg", image.convert("CMYK"), {}),
            *((f"other.{suffix}", image, {}) for suffix in ("gif", "bmp", "tiff", "webp", "ppm")),
        ]
        for name, picture, options in kinds:
            path = self.folder / name
            picture.save(path, **options)
            found[name] = path.read_bytes()
        return found

    @functools.cached_property
    def onnx(self) -> bytes:
        """The run, exported, with its description."""
        path = self.folder / "exported.onnx"
        self.make(["export", str(self.run), str(path), "--resolutions", "8,16"])
        return path.read_bytes()

    @functools.cached_property
    def script(self) -> bytes:
        """A small net as TorchScript."""
        return self._saved("small.pt", lambda net, x, path: torch.jit.trace(net, x).save(str(path)))

    @functools.cached_property
    def program(self) -> bytes:
        """A small net of ``torch.export``."""

        def save(net: nn.Module, x: torch.Tensor, path: Path) -> None:
            torch.export.save(torch.export.export(net, (x,)), path)

        return self._saved("small.pt2", save)

    def _saved(self, name: str, save: Callable[[nn.Module, torch.Tensor, Path], object]) -> bytes:
        layers = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        path = self.folder / name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(nn.Sequential(*layers).eval(), torch.rand(2, 3, SIDE, SIDE), path)
        return path.read_bytes()

    @functools.cached_property
    def digits(self) -> dict[str, bytes]:
        """The four idx files of MNIST, small, one of them gzipped."""
        folder = self.folder / "digits"
        folder.mkdir()
        for images_name, labels_name, count, seed in ((*NAMES[:2], 40, 1), (*NAMES[2:], 20, 2)):
            images, labels = spots(count, 28, seed, classes=10)
            write_idx(folder / images_name, images[:, 0])
            write_idx(folder / labels_name, labels.astype(np.uint8))
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        found[f"{NAMES[3]}.gz"] = gzip.compress(found.pop(NAMES[3]))
        return found

    @functools.cached_property
    def mirror(self) -> tuple[str, str]:
        """A folder of the files of a small MNIST, and an address that offers them."""
        folder = self.folder / "mirror"
        write_idx_set(folder)
        write_idx_set(folder, zipped=True)
        serve = functools.partial(Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return str(folder), f"http://127.0.0.1:{server.server_port}/"

    @functools.cached_property
    def stl10(self) -> dict[str, bytes]:
        """A few images in the layout of STL-10."""
        rng = np.random.default_rng(4)
        found = {}
        for part in ("train", "test"):
            found[f"{part}_X.bin"] = rng.integers(0, 256, 20 * 3 * 96 * 96, dtype=np.uint8).tobytes()
            found[f"{part}_y.bin"] = bytes(1 + number % 10 for number in range(20))
        found["class_names.txt"] = b"airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n"
        return found

    @functools.cached_property
    def result(self) -> bytes:
        """A file of results."""
        path = Path(__file__).parents[2] / "results" / "mnist-all"
        return min(path.glob("*.json")).read_bytes()

    def copy_run(self, target: Path) -> Path:
        """The finished run in another place."""
        shutil.copytree(self.run, target)
        return target


def _turned() -> bytes:
    """An EXIF block that says the picture lies on its side."""
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    return b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 1) + entry + b"\0\0\0\0"


@dataclass(frozen=True)
class Reading:
    """A call that reads a file.

    Attributes:
        arguments: What follows ``fourierscale``, run in a folder that holds the file.
        asked: Names in that folder that the call may write.
        finite: Whether what it prints are answers, which are never ``nan``.
    """

    arguments: list[str]
    asked: tuple[str, ...] = ()
    finite: bool = True
