"""In which precision a run computes, and what is told of it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch

from fourierscale.training import load_config, train
from fourierscale.training import precision as module
from fourierscale.training.checkpoints import LAST, read_checkpoint
from fourierscale.training.config import TrainConfig
from fourierscale.training.precision import processor, resolve_precision
from tests.training.small_runs import small_config, small_splits

RESIDUAL = (
    *("model.name=resnet-stl10", "model.overrides.widths=[6]", "model.overrides.resolutions=[8, 10, 12]"),
    *("model.overrides.head=none", "loss.levels=mean", "loss.smoothing=0.05", "train.channels_last=true"),
)


def residual(made: str, *settings: str):
    config = small_config(*RESIDUAL, f"model.overrides.made={made}", *settings).to_dict()
    del config["model"]["overrides"]["head"]  # an option of other models
    return type(small_config()).from_dict(config)


def test_auto_takes_what_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for gain, chosen in ((0.0, "32"), (1.1, "32"), (2.0, "bf16")):
        monkeypatch.setattr(module, "_gain", lambda gain=gain: gain)
        assert resolve_precision(TrainConfig(precision="auto")) == chosen
    assert resolve_precision(TrainConfig(precision="32")) == "32"


def test_the_measurement_is_short_and_repeats_nothing() -> None:
    assert module._gain() >= 0
    assert module._gain() == module._gain()
    assert processor()


@pytest.mark.parametrize("made", ["bare", "bare-every-size", "consistent", "exact"])
def test_bfloat16_trains_and_what_is_measured_is_exact_in_single_precision(made: str, tmp_path: Path) -> None:
    metrics = train(residual(made, "train.precision=bf16", "train.epochs=8"), tmp_path / "run", splits=small_splits())
    assert metrics["accuracy"] > 0.6
    assert metrics["computed"]["precision"] == "bf16"
    assert metrics["computed"]["device"] == processor()
    if made == "exact":
        assert metrics["equi_err"] < 1e-11
    if made != "bare":
        assert metrics["levels_from_one_pass"]
    assert json.loads((tmp_path / "run" / "model.json").read_text())["config"]["train"]["precision"] == "bf16"


def test_a_resumed_run_in_bfloat16_is_the_same_and_says_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ("train.precision=bf16", "optim.schedule=constant")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(residual("exact", *settings), whole, splits=small_splits())
    train(residual("exact", *settings, "train.epochs=1"), cut, splits=small_splits())
    monkeypatch.setattr("fourierscale.training.run.processor", lambda: "another maker's")
    with caplog.at_level(logging.WARNING, logger="fourierscale"):
        train(residual("exact", *settings), cut, resume=True, splits=small_splits())
    assert "goes on with another maker's" in caplog.text
    states = [read_checkpoint(folder / LAST)["state_dict"] for folder in (whole, cut)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_the_recipe_of_the_residual_nets_chooses_by_itself() -> None:
    config = load_config("stl10-residual")
    assert config.train.precision == "auto"
    assert config.loss.levels == "mean"
