"""Checkpoints of a run: where they are, whether they are whole, and whether they belong to the run."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch

from fourierscale.data.protocols import bare_name
from fourierscale.training.config import Config, load_config
from fourierscale.training.errors import CheckpointError
from fourierscale.training.module import identity

__all__ = ["BEST", "LAST", "check_checkpoint", "find_checkpoint", "read_checkpoint"]

log = logging.getLogger(__name__)
LAST = Path("checkpoints") / "last.ckpt"
BEST = Path("checkpoints") / "best.ckpt"


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
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(checkpoint["fourierscale"], dict) and isinstance(checkpoint["state_dict"], dict):
            return dict(checkpoint)
    except Exception as error:  # torch, zipfile and pickle raise nearly anything on damaged files
        log.debug("reading %s: %s", path, error)
    raise CheckpointError(
        f"{path} is not a whole checkpoint of this library (cut short, or written by something else): "
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
