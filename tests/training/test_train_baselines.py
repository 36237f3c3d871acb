"""``fourierscale train --model NAME`` takes the model's own recipe and goes through to its metrics."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fourierscale.cli import main
from fourierscale.cli.train import _run_folder
from fourierscale.models import load_model, model_info
from fourierscale.training import load_config, train
from tests.lab.baselines.small_baselines import DIGITS, PHOTOS, SMALL
from tests.training.small_runs import small_splits, write_digits

QUICK = ("train.progress=false", "eval.limit=6", "eval.sample=3", "data.train_size=42")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of coloured noise, six pictures each."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(18):
        (folder / f"class{number % 3}").mkdir(exist_ok=True)
        pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"class{number % 3}" / f"{number}.png")
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def train_by_command(name: str, out: Path, *arguments: str, settings: tuple[str, ...] = ()) -> dict:
    options = [f"model.overrides.{key}={list(v) if isinstance(v, tuple) else v}" for key, v in SMALL[name].items()]
    changes = [part for setting in (*options, *settings) for part in ("--set", setting)]
    assert main(["train", "--model", name, "--epochs", "1", "--out", str(out), *arguments, *changes]) == 0
    config = tomllib.loads((out / "config.toml").read_text())
    assert config["model"]["name"] == name
    assert config["optim"]["lr"] == 0.01
    assert config["train"]["keep"] == "best"
    assert config["loss"]["hinge"] == "none"
    return config | {"metrics": json.loads((out / "metrics.json").read_text())}


@pytest.mark.parametrize("name", DIGITS)
def test_baselines_train_on_digits_with_their_recipe(name: str, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train_by_command(name, out, "--data", "mnist-scale", "--data-dir", str(digits), settings=QUICK)
    assert done["optim"]["step_size"] == 20
    assert done["optim"]["weight_decay"] == (0.01 if name == "fourier-cnn-mnist" else 0.0)
    metrics = done["metrics"]
    assert metrics["images"] == 6
    assert metrics["equi_err"] > 1e-6
    assert metrics["levels_from_one_pass"] is False
    data = json.loads((out / "model.json").read_text())["preprocessing"]
    assert (data["enlarge"], data["enlarge_size"]) == (model_info(name).enlarge, model_info(name).enlarge_size)
    digit = tmp_path / "digit.png"
    Image.linear_gradient("L").resize((28, 28)).save(digit)
    assert main(["predict", str(out), str(digit), "--features", str(tmp_path)]) == 0


@pytest.mark.parametrize("name", PHOTOS)
def test_baselines_train_on_photographs_with_their_recipe(name: str, photos: Path, tmp_path: Path) -> None:
    settings = ("train.progress=false", "eval.sample=2", "data.size=16", "data.batch_size=4", "data.augment=none")
    done = train_by_command(
        name, tmp_path / "run", "--data", str(photos), "--no-onnx", "--seed", "1", settings=settings
    )
    assert done["optim"]["step_size"] == 100
    assert done["model"]["overrides"]["classes"] == 3
    assert done["metrics"]["equi_err"] > 1e-6


def test_a_cnn_per_resolution_has_one_for_every_resolution_of_other_data(tmp_path: Path) -> None:
    settings = ["model.name=per-resolution-cnn-mnist", "model.overrides.widths=[2, 2, 2]", "data.batch_size=8"]
    quick = ["train.epochs=1", "train.progress=false", "eval.sample=3"]
    metrics = train(load_config("mnist-baseline", [*settings, *quick]), tmp_path / "run", splits=small_splits())
    assert set(load_model(tmp_path / "run").cnns) == {"8", "9", "10", "11", "12"}
    assert metrics["images"] == 60


def test_without_an_out_the_folder_has_the_models_name(digits: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FOURIERSCALE_RUN", "now")
    settings = [part for s in (*QUICK, "model.overrides.widths=[2,2,2]") for part in ("--set", s)]
    assert main(["train", "--model", "cnn-mnist", "--data-dir", str(digits), "--epochs", "1", *settings]) == 0
    assert (tmp_path / "runs" / "cnn-mnist-now" / "metrics.json").is_file()


def test_a_second_training_of_one_process_has_a_folder_of_its_own(monkeypatch) -> None:
    monkeypatch.delenv("FOURIERSCALE_RUN", raising=False)
    hours = iter(("morning", "evening"))
    monkeypatch.setattr("time.strftime", lambda form: next(hours))
    assert [_run_folder("digits").name for _ in range(2)] == ["digits-morning", "digits-evening"]
    monkeypatch.setattr("os.getpid", lambda: -1)  # as in a process that this one starts
    assert _run_folder("digits").name == "digits-evening"


def test_a_model_for_digits_refuses_photographs_in_one_line(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--model", "cnn-mnist", "--data", str(photos), "--set", "data.size=40"]) == 2
    assert "enlarge_size is 28" in capsys.readouterr().err
