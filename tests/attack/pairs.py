"""Random folders of images and masks, and pairs of fields, whole or damaged: they become pairs, or one sentence."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from fourierscale.data import DataError, FolderOptions, ScaledSplits, load_fields, load_masks, make_loader
from fourierscale.models import create_model
from tests.attack import damage
from tests.attack.frame import BrokenError, Case, Part


class Pairs(Part):
    """Whatever is in the files: three sets without an image lost, which a net takes, or a ``DataError``."""

    name = "pairs"
    what = "folders of images and masks, and pairs of fields: sizes, classes, damage, values that are not finite"
    cases = 1_000

    def attack(self, case: Case) -> str:
        """One folder or one file of arrays."""
        kind = case.choose("kind", ["masks", "fields"])
        try:
            splits = _masks(case) if kind == "masks" else _fields(case)
        except DataError as error:
            if "\n" in str(error) or not str(error):
                raise BrokenError(f"refused in {str(error).count(chr(10)) + 1} lines: {error}") from error
            return f"{kind}, refused"
        _use(splits, kind)
        return kind


def _masks(case: Case) -> ScaledSplits:
    root, count = case.folder / "mine", case.whole("pairs", 1, 9)
    classes, colours = case.whole("classes", 1, 5), case.often("colours", 0.05)
    for name in ("images", "masks"):
        (root / name).mkdir(parents=True)
    draw = np.random.default_rng(case.random.getrandbits(32))
    for number in range(count):
        size = (case.random.randint(1, 40), case.random.randint(1, 40), 3)
        mask = draw.integers(0, classes, size[:2]) * case.random.choice([1, 50])
        mask = np.repeat(mask[..., None], 3, 2) if colours else mask
        Image.fromarray(draw.integers(0, 256, size, dtype=np.uint8)).save(root / "images" / f"{number}.png")
        Image.fromarray(mask.astype(np.uint8)).save(root / "masks" / f"{number}.png")
    if case.often("damaged", 0.5):
        path = case.random.choice(sorted(root.rglob("*.png")))
        what = case.choose("damage", ["bytes", "gone", "folder", "other name"])
        content = path.read_bytes()
        path.unlink()
        if what == "bytes":
            path.write_bytes(damage.bytes_of(case, content))
        elif what == "folder":
            path.mkdir()
        elif what == "other name":
            path.with_name("other.png").write_bytes(content)
    size = case.choose("size", [None, 2, 8, 16, 41])
    skip = case.often("skip_bad", 0.5)
    shape = case.choose("shape", ["crop", "whole"])
    ignore = case.choose("ignore", [None, 0, 50, 255])
    splits = load_masks(str(root), folder=FolderOptions(size=size, skip_bad=skip, shape=shape), ignore=ignore)
    found = sum(map(len, splits))
    if not skip and found != count:
        raise BrokenError(f"{count - found} of {count} pairs are lost")
    if skip and found < count and "left out" not in splits.note:
        raise BrokenError(f"{count - found} of {count} pairs are left out, and nobody says so")
    return splits


def _fields(case: Case) -> ScaledSplits:
    draw = np.random.default_rng(case.random.getrandbits(32))
    count, size = case.whole("pairs", 1, 12), case.whole("size", 1, 12)
    other = size if case.often("one grid", 0.9) else size + 1
    x = draw.standard_normal((count, size, size))
    y = draw.standard_normal((count, case.whole("channels", 1, 3), other, other))
    if case.often("not finite", 0.3):
        y[case.random.randrange(count), 0, 0, 0] = case.choose("value", [np.nan, np.inf, -np.inf])
    x, y = (a * case.choose("scale", [1e-30, 1.0, 1e30]) for a in (x, y))
    path = case.folder / "pairs.npz"
    np.savez(path, x=x, y=y)
    if case.often("damaged", 0.3):
        path.write_bytes(damage.bytes_of(case, path.read_bytes()))
    return load_fields(str(path), folder=FolderOptions(skip_bad=case.often("skip_bad", 0.5)))


def _use(splits: ScaledSplits, kind: str) -> None:
    """Every batch of each set, and the maps of a small net on one of them."""
    for part in splits:
        for batch in make_loader(part, 4):
            if not (batch.images.isfinite().all() and batch.labels.isfinite().all()):
                raise BrokenError("a batch holds what is not finite")
            if kind == "masks" and not (batch.labels.sum(1) <= 1 + 1e-4).all():
                raise BrokenError("shares of classes add up to more than 1")
    if kind == "fields":
        return
    levels = splits.protocol.resolutions
    channels = int(splits.train.images.shape[1])
    net = create_model("unet", in_channels=channels, classes=len(splits.classes), widths=(3,), resolutions=levels)
    images = next(iter(make_loader(splits.train, 2))).images
    with torch.inference_mode():
        maps = net.eval()(images)
    if maps.shape[1:] != (len(splits.classes), *images.shape[2:]):
        raise BrokenError(f"maps of {tuple(maps.shape)} for images of {tuple(images.shape)}")
