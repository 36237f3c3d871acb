"""A whole run: what it learns, what it writes, what it refuses, and that a killed one ends as if nothing happened."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from fourierscale import create_model
from fourierscale.metrics.mean import BatchMean
from fourierscale.models import WeightsError, load_model, read_info
from fourierscale.training import (
    CheckpointError,
    ConfigError,
    NoMemoryError,
    NonFiniteLossError,
    evaluate,
    load_config,
    train,
)
from fourierscale.training.callbacks import read_log
from fourierscale.training.checkpoints import LAST, WholeCheckpoints, read_checkpoint
from fourierscale.training.config import Config, OptimConfig
from fourierscale.training.module import _seed_draws
from fourierscale.training.optim import parameter_groups
from fourierscale.training.run import _lay_out, _store_channels_last
from tests.training.small_runs import small_config, small_splits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, train(small_config("train.epochs=8"), folder, splits=small_splits())


def test_a_run_learns_and_writes_all_its_files(run: tuple[Path, dict]) -> None:
    folder, metrics = run
    assert metrics["accuracy"] > 0.8
    assert metrics["images"] == 60
    assert metrics["equi_err"] < 1e-11
    assert metrics["levels_from_one_pass"]
    assert metrics["level_difference"] < 1e-4
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    rows = read_log(folder / "log.csv")
    assert [int(row["epoch"]) for row in rows] == list(range(8))
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert all(row["val_scale_con"] for row in rows)
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "tensorboard"):
        assert (folder / name).exists()
    saved = load_config(folder / "config.toml")
    assert saved.model.overrides["classes"] == 3
    assert saved.model.overrides["resolutions"] == [8, 10, 12]
    info = read_info(folder)
    assert info["preprocessing"]["classes"] == ["one", "two", "three"]
    assert info["versions"]["torch"] == torch.__version__
    assert info["history"]["loss"] == [float(row["loss"]) for row in rows]
    assert info["history"]["epoch"] == list(range(8))


def test_a_saved_model_gives_the_measured_predictions(run: tuple[Path, dict]) -> None:
    folder, metrics = run
    model, splits = load_model(folder), small_splits()
    right = 0
    for item in range(60):
        image, label = splits.test[item]
        right += int(model(image[None])[0, -1].argmax()) == label
    assert right / 60 == pytest.approx(metrics["accuracy"])
    again = load_model(folder / "model.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_validation_is_that_of_the_weights_with_the_optimizer_of_a_gpu_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fused(model: torch.nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameter_groups(model, config.weight_decay), lr=config.lr, fused=True)

    monkeypatch.setattr("fourierscale.training.module.make_optimizer", fused)
    splits = small_splits()
    train(small_config("train.epochs=3"), tmp_path / "run", splits=splits)
    last = read_log(tmp_path / "run" / "log.csv")[-1]
    measured = evaluate(load_model(tmp_path / "run"), splits, split="val")
    assert float(last["val_acc"]) == pytest.approx(measured["accuracy"], abs=1e-6)
    assert float(last["val_loss"]) == pytest.approx(measured["loss"], rel=1e-4)


def test_a_finished_run_is_not_overwritten(run: tuple[Path, dict]) -> None:
    with pytest.raises(CheckpointError, match="holds a run already: continue it with --resume"):
        train(small_config(), run[0], splits=small_splits())


@pytest.mark.parametrize("damage", ["truncated", "foreign", "pickle", "weights alone", "other model"])
def test_a_checkpoint_that_cannot_be_used_is_one_sentence(run: tuple[Path, dict], tmp_path: Path, damage: str) -> None:
    good = run[0] / "checkpoints" / "last.ckpt"
    path = tmp_path / "bad.ckpt"
    config, text = small_config(), "is not a whole checkpoint of this library"
    if damage == "truncated":
        path.write_bytes(good.read_bytes()[:-1000])
    elif damage == "foreign":
        torch.save({"state_dict": {}, "epoch": 3}, path)
    elif damage == "pickle":
        torch.save({"fourierscale": create_model("scalenet-tiny"), "state_dict": {}}, path)
    elif damage == "weights alone":
        path.write_bytes(good.with_name("best.ckpt").read_bytes())
        text = "holds weights alone: resume from last.ckpt"
    else:
        path.write_bytes(good.read_bytes())
        config, text = small_config("model.overrides.hidden=9"), "belongs to a run with model"
    with pytest.raises(CheckpointError, match=text) as error:
        train(config, tmp_path / "run", resume=path, splits=small_splits())
    assert "\n" not in str(error.value)


def test_weights_that_cannot_be_used_are_one_sentence(run: tuple[Path, dict], tmp_path: Path) -> None:
    content, info = (run[0] / "model.safetensors").read_bytes(), (run[0] / "model.json").read_text()
    weights, description = tmp_path / "model.safetensors", tmp_path / "model.json"
    with pytest.raises(WeightsError, match=r"holds no model\.safetensors"):
        load_model(tmp_path)
    with pytest.raises(WeightsError, match="neither a run's folder nor"):
        load_model(tmp_path / "nothing")
    weights.write_bytes(content[:-5])
    with pytest.raises(WeightsError, match="is missing"):
        load_model(tmp_path)
    description.write_text(info)
    with pytest.raises(WeightsError, match="is not a whole safetensors file"):
        load_model(tmp_path)
    weights.write_bytes(content)
    description.write_text(info.replace('"hidden": 8', '"hidden": 9', 1))
    with pytest.raises(WeightsError, match="does not hold the weights of scalenet-tiny"):
        load_model(weights)
    description.write_text("[]")
    with pytest.raises(WeightsError, match="does not describe a model"):
        load_model(weights)


def test_weights_without_a_finite_loss_on_validation_images_become_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fourierscale.training import classification

    class Broken(BatchMean):
        def compute(self) -> torch.Tensor:
            return super().compute() * (1 if not (tmp_path / "run" / LAST).exists() else torch.nan)

    monkeypatch.setattr(classification, "BatchMean", Broken)
    with pytest.raises(NonFiniteLossError, match="images is infinite or NaN after epoch 2: lower"):
        train(small_config("train.epochs=3"), tmp_path / "run", splits=small_splits())
    monkeypatch.undo()
    assert [int(row["epoch"]) for row in read_log(tmp_path / "run" / "log.csv")] == [0]
    train(small_config("train.epochs=3", "optim.lr=0.01"), tmp_path / "run", resume=True, splits=small_splits())
    rates = [float(row["lr"]) for row in read_log(tmp_path / "run" / "log.csv")]
    assert len(rates) == 3


@pytest.mark.parametrize("change", ["optim.lr=0.001", "optim.weight_decay=0.5", "optim.betas=[0.5, 0.6]"])
def test_a_resumed_run_is_trained_as_its_config_says_now(tmp_path: Path, change: str) -> None:
    run, splits = tmp_path / "run", small_splits()
    constant = "optim.schedule=constant"
    train(small_config("train.epochs=1", constant), run, splits=splits)
    with pytest.raises(CheckpointError, match=r"has ended, and \[optim\] of its config.toml differs: give it more"):
        train(small_config("train.epochs=1", constant, change), run, resume=True, splits=splits)
    assert load_config(run / "config.toml").optim == small_config(constant).optim
    weights = {}
    for settings in ((), (change,)):
        copied = tmp_path / f"copy{len(settings)}"
        shutil.copytree(run, copied)
        train(small_config("train.epochs=2", constant, *settings), copied, resume=True, splits=splits)
        weights[settings] = load_file(copied / "model.safetensors")
        if settings and change.startswith("optim.lr"):
            assert [row["lr"] for row in read_log(copied / "log.csv")] == ["0.02", "0.001"]
    assert any(not torch.equal(weights[()][name], tensor) for name, tensor in weights[(change,)].items())


def test_other_images_are_another_run(tmp_path: Path) -> None:
    splits = small_splits()
    train(small_config("train.epochs=1"), tmp_path / "run", splits=splits)
    for changed, what in (({"classes": ("uno", "due", "tre")}, "classes"), ({"hashes": {"train": "0"}}, "indices")):
        others = dataclasses.replace(splits, **changed)
        with pytest.raises(CheckpointError, match=rf"a run on other images \({what} differ\): give it the images"):
            train(small_config("train.epochs=2"), tmp_path / "run", resume=True, splits=others)
    assert read_info(tmp_path / "run")["preprocessing"]["classes"] == ["one", "two", "three"]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fourierscale.training import classification

    loss, calls = classification.scale_loss, []

    def broken(*arguments: object) -> torch.Tensor:
        calls.append(1)
        return loss(*arguments) * (float("nan") if len(calls) == 18 else 1)

    monkeypatch.setattr(classification, "scale_loss", broken)
    with pytest.raises(NonFiniteLossError, match=r"in epoch 2, step 3, at resolution \d+: lower optim\.lr") as error:
        train(small_config(), tmp_path, splits=small_splits())  # 15 batches an epoch
    assert "\n" not in str(error.value)
    state = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert state["epoch"] == 0
    assert all(value.isfinite().all() for value in state["state_dict"].values())


@pytest.mark.parametrize("bad", [None, 19])
def test_losses_that_are_looked_at_now_and_then_are_told_as_if_each_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int | None
) -> None:
    from fourierscale.training import classification, module

    loss, calls = classification.scale_loss, []

    def watched(*arguments: object) -> torch.Tensor:
        calls.append(1)
        return loss(*arguments) * (float("inf") if len(calls) == bad else 1)

    train(small_config("train.epochs=2"), tmp_path / "each", splits=small_splits())
    monkeypatch.setattr(classification, "scale_loss", watched)
    monkeypatch.setattr(module.ScaleModule, "_looks", lambda self, step: step in (6, 13, self.steps_per_epoch - 1))
    if bad is None:
        train(small_config("train.epochs=2"), tmp_path / "few", splits=small_splits())
        each, few = (read_log(tmp_path / name / "log.csv") for name in ("each", "few"))
        assert [row["loss"] for row in few] == [row["loss"] for row in each]
        return
    with pytest.raises(NonFiniteLossError, match=r"in epoch 2, step 4, at resolution \d+: lower optim\.lr"):
        train(small_config("train.epochs=2"), tmp_path / "few", splits=small_splits())
    assert len(calls) == 15 + 7


@pytest.mark.parametrize(
    ("module", "name", "section"), [("classification", "scale_loss", "data"), ("run", "evaluate", "eval")]
)
def test_too_little_memory_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, section: str
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(importlib.import_module(f"fourierscale.training.{module}"), name, full)
    with pytest.raises(NoMemoryError, match=rf"too little memory: lower {section}.batch_size \(now \d+\), or run less"):
        train(small_config("train.epochs=1"), tmp_path / "run", splits=small_splits())


def test_averaged_weights_are_what_is_saved(tmp_path: Path) -> None:
    train(small_config("optim.ema_decay=0.9", "optim.grad_clip=1", "train.epochs=1"), tmp_path, splits=small_splits())
    state = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    saved = load_file(tmp_path / "model.safetensors")
    name = "head.inner.1.weight"
    assert torch.equal(saved[name], state[f"average.module.{name}"])
    assert not torch.equal(saved[name], state[f"model.{name}"])


@pytest.mark.parametrize(
    "settings",
    [
        ["train.precision=bf16", "optim.name=adam", "optim.schedule=onecycle", "train.keep=best"],
        ["train.validate_every=2", "optim.schedule=step", "optim.step_size=1", "loss.hinge=sample", "loss.levels=mean"],
    ],
)
def test_options_train_too(tmp_path: Path, settings: list[str]) -> None:
    metrics = train(small_config(*settings), tmp_path, splits=small_splits(augment="warp"))
    assert 0 <= metrics["accuracy"] <= 1
    validated = [bool(row["val_acc"]) for row in read_log(tmp_path / "log.csv")]
    assert validated == ([False, True] if settings[0].startswith("train.validate") else [True, True])


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("model.overrides.widhts=[3]", "did you mean 'widths'"),
        ("model.overrides.dropout=2", "dropout must be"),
        ("train.accelerator=abacus", "abacus"),
        ("train.strategy=magic", "magic"),
    ],
)
def test_a_setting_that_cannot_be_is_one_sentence(tmp_path: Path, setting: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as error:
        train(small_config(setting), tmp_path, splits=small_splits())
    assert "\n" not in str(error.value)


def test_weight_decay_is_on_matrices_alone() -> None:
    model = create_model("scalenet-tiny", head="temperature")
    decayed, free = parameter_groups(model, 0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    kinds = {names[id(parameter)].split(".")[-1] for parameter in decayed["params"]}
    assert kinds == {"weight", "pointwise"}
    assert len(decayed["params"]) == 2 * 2 + 2
    assert "head.steps" in {names[id(parameter)] for parameter in free["params"]}
    assert "net.blocks.0.1.weight" in {names[id(parameter)] for parameter in free["params"]}  # a norm, two axes
    assert free["weight_decay"] == 0
    assert len(decayed["params"]) + len(free["params"]) == len(names)


CHILD = """
    import sys, time
    sys.path.insert(0, {tests!r})
    import torch
    torch.set_num_threads(1)
    from small_runs import small_config, small_splits
    from fourierscale.training import train, module
    step = module.ScaleModule.training_step
    def slow(self, batch, index):
        if self.current_epoch == 2 and index == 4:
            print("here", flush=True)
            time.sleep(60)
        return step(self, batch, index)
    module.ScaleModule.training_step = slow
    train(small_config(*{settings!r}), {folder!r}, splits=small_splits(augment="warp"))
"""


def test_a_run_killed_in_an_epoch_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    settings = ["train.epochs=4", "optim.ema_decay=0.9", "model.overrides.dropout=0.5"]
    config, whole, killed = small_config(*settings), tmp_path / "whole", tmp_path / "killed"
    script = CHILD.format(tests=str(Path(__file__).parent), settings=settings, folder=str(killed))
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    expected = train(config, whole, splits=small_splits(augment="warp"))
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(timeout=20) == -signal.SIGKILL
    child.stdout.close()
    assert not (killed / "model.safetensors").exists()
    assert len(read_log(killed / "log.csv")) == 2

    resumed = train(config, killed, resume=True, splits=small_splits(augment="warp"))
    for folder in (whole, killed):
        assert [row["epoch"] for row in read_log(folder / "log.csv")] == ["0", "1", "2", "3"]
    timed = {"seconds", "train_seconds"}
    assert {k: v for k, v in resumed.items() if k not in timed} == {k: v for k, v in expected.items() if k not in timed}
    a, b = load_file(whole / "model.safetensors"), load_file(killed / "model.safetensors")
    assert all(torch.equal(a[name], b[name]) for name in a)
    rows = [[{k: row[k] for k in row if k != "seconds"} for row in read_log(f / "log.csv")] for f in (whole, killed)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_step_draws_what_a_seed_of_everything_would_give(device: str) -> None:
    drawn = []
    for seed_draws in (_seed_draws, lambda seed, _: torch.manual_seed(seed)):
        seed_draws(7, torch.device(device))
        drawn.append((torch.rand(3), torch.rand(3, device=device).cpu()))
    for one, other in zip(*drawn, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("damage", [b"\xff", b"\0", b"epoch,loss,seconds,more\n", b'"', b"0,x,x,x,x,x,x,x\n", b"7\n"])
def test_a_damaged_line_of_the_log_is_left_out(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    good = "epoch,step,lr,loss,val_loss,val_acc,val_scale_con,seconds\n0,5,0.1,1.5,,,,2.0\n"
    path.write_text(good)
    rows = read_log(path)
    assert [row["loss"] for row in rows] == ["1.5"]
    path.write_bytes(good.encode() + damage)
    assert read_log(path) == rows
    path.write_bytes(damage + good.encode())
    assert all(float(row["loss"]) for row in read_log(path))


def test_resuming_before_the_first_checkpoint_starts_at_the_beginning(tmp_path: Path) -> None:
    started = time.perf_counter()
    train(small_config("train.epochs=1"), tmp_path, resume=True, splits=small_splits())
    assert time.perf_counter() - started < 60
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        train(small_config(), tmp_path, resume=tmp_path / "none.ckpt", splits=small_splits())


@pytest.mark.parametrize("name", ["cnn-mnist", "dss-mnist", "ss-cnn-mnist"])
def test_every_model_can_be_stored_channels_last(name: str) -> None:
    model, images = create_model(name).eval(), torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        expected = model(images)
        _store_channels_last(model)
        torch.testing.assert_close(model(images), expected)
    four = [weight for weight in model.parameters() if weight.ndim == 4]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in four)


def test_channels_last_trains_to_the_same_weights(tmp_path):
    for name, setting in (("first", "false"), ("last", "true")):
        config = small_config("train.epochs=1", f"train.channels_last={setting}")
        train(config, tmp_path / name, splits=small_splits())
    first, last = (load_model(tmp_path / name).state_dict() for name in ("first", "last"))
    for name in first:
        torch.testing.assert_close(first[name], last[name], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("settings", "device", "strided", "last"),
    [
        (["train.channels_last=true"], "cpu", True, True),
        (["train.channels_last=true", "train.precision=bf16"], "cuda", True, True),
        (["train.channels_last=true", "train.precision=bf16"], "cpu", False, True),
        (["train.channels_last=true", "train.precision=bf16"], "cpu", True, False),
        ([], "cuda", True, False),
    ],
)
def test_channels_are_last_where_asked_for_and_where_torch_bears_it(settings, device, strided, last):
    convs = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.Conv2d(8, 8, 1, stride=2 if strided else 1))
    _lay_out(convs, Config().replaced(settings), torch.device(device))
    assert convs[0].weight.is_contiguous(memory_format=torch.channels_last) == last


def test_two_processes_do_not_train_into_one_folder(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".train.lock"), pytest.raises(CheckpointError, match="another process trains into"):
        train(small_config("train.epochs=1"), tmp_path, splits=small_splits())


def test_a_checkpoint_that_was_changed_in_one_place_is_refused(run: tuple[Path, dict], tmp_path: Path) -> None:
    content = (run[0] / LAST).read_bytes()
    assert read_checkpoint(run[0] / LAST)["epoch"] == 7
    torch.load(io.BytesIO(content), weights_only=True)  # by torch alone too
    damaged, refused = tmp_path / "damaged.ckpt", 0
    places = np.random.default_rng(0).integers(0, len(content), 40)
    for place in places:
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        with contextlib.suppress(CheckpointError):
            read_checkpoint(damaged)
            continue
        refused += 1
    assert refused == len(places)


def test_a_checkpoint_is_whole_or_what_was_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, io_plugin = tmp_path / "last.ckpt", WholeCheckpoints()
    good = {"fourierscale": {}, "state_dict": {"weight": torch.ones(3)}}
    io_plugin.save_checkpoint(good, target)

    def killed(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(OSError, match="no space"):
        io_plugin.save_checkpoint({"fourierscale": {}, "state_dict": {}}, target)
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]
    torch.testing.assert_close(read_checkpoint(target)["state_dict"]["weight"], torch.ones(3))
