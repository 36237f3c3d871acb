"""A file is whole or as it was, whatever happens while it is written."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from fourierscale.auditing import audit
from fourierscale.cli.audit import write as write_audit
from fourierscale.data.idx import write_idx
from fourierscale.models.files import replacing, write_whole
from fourierscale.training.callbacks import EpochLog
from fourierscale.training.picture import draw_metrics


def stop_half_way(target: Path) -> None:
    with replacing(target) as partial:
        partial.write_bytes(b"sec")
        raise OSError("disk full")


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path):
    target = tmp_path / "model.json"
    write_whole(target, "first")
    with pytest.raises(OSError, match="disk full"):
        stop_half_way(target)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"model.json": "first"}
    write_whole(target, b"second")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"model.json": "second"}


APART = {  # what writes elsewhere than where a file is to stand
    "models/files.py",
    "data/archives.py",  # into a folder of what has arrived
    "data/fetch.py",
    "data/sample.py",  # into a folder that is new
}


def test_no_other_writer_opens_the_file_that_it_writes():
    source = Path(__file__).parents[2] / "src" / "fourierscale"
    text, calls = (
        r'f?"[^"]*"',
        r"\.write_text\(|\.write_bytes\(|(?<!partial)\.open\(mode|(?:\.save|savefig|save_file)\((?!.*partial)\w",
    )
    found = {
        f"{path.relative_to(source).as_posix()}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(calls, re.sub(text, "", line.replace('open("w', "open(mode")))
        and path.relative_to(source).as_posix() not in APART
    }
    assert found == {
        'pages/elements.py: Image.fromarray(pixels.copy()).save(buffer, "PNG")',
        "training/checkpoints.py: torch.save(checkpoint, buffer)",
        "auditing/resizing.py: Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)"
        '.save(file, "JPEG", quality=QUALITY)',
        "export/write.py: partial.write_bytes(archive.getbuffer())",
        'export/write.py: torch.export.save(program, archive, extra_files={"about.json": json.dumps(plan.about)})',
    }


@pytest.mark.parametrize("write", ["audit.json", "audit.png", "audit.html", "metrics.png", "log.csv", "idx"])
def test_a_full_disk_leaves_the_file_that_was_there(write, tmp_path, monkeypatch):
    """A disk that is full when a file is brought to it."""
    path = tmp_path / write
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("fourierscale.models.files.os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        WRITERS[write](path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {write: "before"}


def _audit():
    return audit(torch.nn.Conv2d(1, 2, 3, padding=1), torch.rand(1, 1, 8, 8), [4], kinds=["ideal"])


def _log(path: Path) -> None:
    trainer = SimpleNamespace(is_global_zero=True, current_epoch=0)
    EpochLog(path).on_train_start(trainer, None)


METRICS = {
    "accuracy": 0.5,
    "accuracy_per_resolution": {"8": 0.5},
    "loss_per_resolution": {"8": 1.0},
    "level_names": ["8"],
    "loss_per_level": {},
}
WRITERS = {
    "audit.json": lambda path: write_audit(_audit(), path.parent, Console(quiet=True)),
    "audit.png": lambda path: _audit().save_png(path),
    "audit.html": lambda path: _audit().save_html(path),
    "metrics.png": lambda path: draw_metrics(METRICS, path),
    "log.csv": _log,
    "idx": lambda path: write_idx(path, np.zeros(3, np.uint8)),
}
