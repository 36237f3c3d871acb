"""Checkpoints of a run: where they are, whether they are whole, and whether they belong to the run."""

from __future__ import annotations

import hashlib
import io
import logging
import os
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO

from fourierscale.data.protocols import bare_name
from fourierscale.models.files import write_whole
from fourierscale.training.config import Config, load_config
from fourierscale.training.errors import CheckpointError
from fourierscale.training.module import identity

__all__ = ["BEST", "LAST", "WholeCheckpoints", "check_checkpoint", "find_checkpoint", "read_checkpoint"]

log = logging.getLogger(__name__)
HEX_DIGITS = 64  # of a SHA-256
LAST = Path("checkpoints") / "last.ckpt"
BEST = Path("checkpoints") / "best.ckpt"
END = b"PK\5\6"  # where the last 22 bytes of an archive begin, the last two of them the length of a comment behind them


class WholeCheckpoints(TorchCheckpointIO):
    """Writes checkpoints whole or not at all, with a checksum of their content as the comment of the archive."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write beside the file that is there, which stays until the new one is on the disk."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, _sealed(buffer.getvalue()))


def _sealed(archive: bytes) -> bytes:
    """An archive with the checksum of its content behind it."""
    content = archive[:-2] + HEX_DIGITS.to_bytes(2, "little")
    return content + hashlib.sha256(content).hexdigest().encode()


def _is_damaged(archive: bytes) -> bool:
    """Whether an archive with a checksum is not what was written; one of an earlier version has none."""
    content, seal = archive[:-HEX_DIGITS], archive[-HEX_DIGITS:]
    return content[-22:-18] == END and hashlib.sha256(content).hexdigest().encode() != seal


def find_checkpoint(root: Path, resume: bool | str | os.PathLike[str]) -> Path | None:
    """The checkpoint to go on from: the last one of a folder, or that of a path; none where a run has to begin.

    Raises:
        CheckpointError: A path where there is none.
    """
    if resume is False:
        return None
    path = root / LAST if resume is True else Path(resume).expanduser()
    if path.is_file():
        return path
    if resume is True:
        log.info("%s is not there: the run starts from its beginning", path)
        return None
    raise CheckpointError(f"there is no checkpoint {path} to resume from")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint of plain values and tensors; nothing is unpickled that could run code.

    Raises:
        CheckpointError: It is damaged, or of another library.
    """
    try:
        archive = path.read_bytes()
        if _is_damaged(archive):
            raise ValueError("the checksum differs")
        checkpoint = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
        if isinstance(checkpoint["fourierscale"], dict) and isinstance(checkpoint["state_dict"], dict):
            return dict(checkpoint)
    except Exception as error:  # torch, zipfile and pickle raise nearly anything on damaged files
        log.debug("reading %s: %s", path, error)
    raise CheckpointError(
        f"{path} is not a whole checkpoint of this library (damaged, or written by something else): "
        "start again in a new folder"
    )


def check_checkpoint(path: Path, config: Config, images: dict[str, Any], root: Path) -> None:
    """Refuse to continue what is another run: model, seed, images; or, once it has ended, how it was trained.

    Raises:
        CheckpointError: It is another one.
    """
    checkpoint = read_checkpoint(path)
    if "optimizer_states" not in checkpoint:
        raise CheckpointError(f"{path} holds weights alone: resume from {LAST.name} beside it")
    found = checkpoint["fourierscale"]
    expected = identity(config, images)
    for key in ("model", "seed"):
        if found.get(key) != expected[key]:
            raise CheckpointError(
                f"{path} belongs to a run with {key} {found.get(key)}, this one has {expected[key]}: "
                "resume with the config.toml beside it"
            )
    for key, value in found.get("images", {}).items():
        if images[key] != (bare_name(value) if key == "protocol" else value):
            raise CheckpointError(
                f"{path} belongs to a run on other images ({key} differ): give it the images it had, or start "
                "again in a new folder"
            )
    if checkpoint["epoch"] + 1 >= config.train.epochs and (root / "config.toml").is_file():
        before, now = load_config(root / "config.toml").to_dict(), config.to_dict()
        for section in ("optim", "loss"):
            if before[section] != now[section]:
                raise CheckpointError(
                    f"the run in {root} has ended, and [{section}] of its config.toml differs: give it more "
                    "train.epochs to continue with other settings, or start again in a new folder"
                )
