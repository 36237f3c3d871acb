"""The commands that train and use models: what they print and write, and one line for a mistake."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fourierscale
from fourierscale.cli import main
from fourierscale.models import (
    list_models,
    list_pretrained,
    load_model,
    load_pretrained,
    model_info,
    pretrained_info,
    read_info,
)
from fourierscale.training import train
from tests.training.small_runs import small_config, small_splits, write_digits

SMALL = [
    "model.overrides.widths=[4]",
    "model.overrides.pool=1",
    "model.overrides.hidden=8",
    f"model.overrides.resolutions={list(range(8, 29))}",
    "train.progress=false",
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(small_config("train.epochs=8"), folder, splits=small_splits())
    return folder


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def settings(*more: str) -> list[str]:
    return [part for setting in (*SMALL, *more) for part in ("--set", setting)]


def test_train_then_evaluate_prints_the_papers_row_beside(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = ["train", "--data-dir", str(digits), "--epochs", "1", "--out", str(out)]
    assert main([*command, *settings("eval.limit=60", "eval.sample=9")]) == 0
    printed = capsys.readouterr().out
    assert "Ours (paper)" in printed
    assert "0.9716" in printed
    assert "scalenet-tiny" in printed
    assert f"everything is in {out}" in printed
    assert (out / "metrics.png").stat().st_size > 5000
    assert main(command) == 2
    assert "holds a run already" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", str(out), "--epochs", "2"]) == 0
    assert (out / "log.csv").read_text().count("\n") == 3
    capsys.readouterr()

    before = (out / "metrics.json").read_bytes(), (out / "metrics.png").read_bytes()
    assert main(["evaluate", str(out), "--limit", "20", "--sample", "9"]) == 0
    assert "metrics-mnist-scale-20.json and" in capsys.readouterr().out
    assert json.loads((out / "metrics-mnist-scale-20.json").read_text())["images"] == 20
    assert ((out / "metrics.json").read_bytes(), (out / "metrics.png").read_bytes()) == before

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert main(["evaluate", str(out), "--limit", "40", "--sample", "9", "--out", str(elsewhere)]) == 0
    printed = capsys.readouterr().out
    assert "40 images" in printed
    measured = json.loads((elsewhere / "metrics.json").read_text())
    assert measured["images"] == 40
    assert measured["equi_err"] < 1e-11
    with Image.open(elsewhere / "metrics.png") as picture:
        assert picture.width > 1000


def test_predict_prints_every_level_and_draws_features(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    splits = small_splits()
    right = 0
    for item in range(6):
        Image.fromarray(splits.test.images[item, 0].numpy()).save(tmp_path / f"{item}.png")
    paths = [str(tmp_path / f"{item}.png") for item in range(6)]
    assert main(["predict", str(run), *paths, "--features", str(tmp_path / "maps")]) == 0
    out = capsys.readouterr().out
    for item, path in enumerate(paths):
        line = next(line for line in out.splitlines() if line.startswith(path))
        right += splits.classes[int(splits.test.labels[item])] in line.removeprefix(path)
        with Image.open(tmp_path / "maps" / f"{item}-features.png") as picture:
            assert picture.mode == "L"
    assert right >= 4
    assert out.count(" px  ") == 6 * 2  # bands 3, 4 and 5, pooled by 2: two levels
    assert out.count("  10, 12 px  ") == 6


def test_predict_takes_any_size_and_colour(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8))
    wide.save(tmp_path / "wide.png")
    small = tmp_path / "small[final] [/b].png"
    small.parent.mkdir()
    Image.linear_gradient("L").resize((11, 9)).convert("RGBA").save(small)
    assert main(["predict", str(run), str(tmp_path / "wide.png"), str(small), "--invert", "yes"]) == 0
    out = capsys.readouterr().out
    assert out.count("black and white swapped") == 2
    assert f"{small}: " in out
    assert "60 x 40, centred square of 40 x 40, downscaled to 12 x 12" in out
    assert "11 x 9, centred square of 9 x 9" in out
    assert "  9 px  " in out


def test_predict_gives_a_line_for_each_image_of_a_folder_and_tables_for_programs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 255, (28, 28), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").write_text("no image")
    names = [str(tmp_path / f"{number}.png") for number in range(4)]
    assert main(["predict", str(run), str(tmp_path)]) == 2
    lines, told = capsys.readouterr()
    assert [line.split(": ")[0] for line in lines.splitlines()] == names[:3]
    assert "3.png: cannot be read" in told
    assert main(["predict", "scalenet-mnist", str(tmp_path), "--json", "--top", "2", "--sure", "0.01"]) == 2
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["image"] for one in told] == names
    assert [len(one["top"]) for one in told[:3]] == [2, 2, 2]
    assert told[0]["notes"] == ["28 x 28", "sure at 8 px"]
    assert "cannot be read" in told[3]["error"]
    assert main(["predict", str(run), str(tmp_path), "--csv", "--top", "2"]) == 2
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["image"] for row in rows] == names
    for line, row in zip(lines.splitlines(), rows, strict=False):
        assert f"{row['label']} {float(row['probability']):.4f}" in line
    assert "cannot be read" in rows[3]["error"]


def test_predict_names_what_is_no_image_and_goes_on(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a" / "1.png", tmp_path / "text.png", tmp_path / "none.png", tmp_path / "b" / "1.png"]
    for path in (paths[0], paths[3]):
        path.parent.mkdir()
        Image.linear_gradient("L").resize((12, 12)).save(path)
    paths[1].write_text("no image")
    maps = tmp_path / "maps"
    assert main(["predict", str(run), *map(str, paths), "--features", str(maps)]) == 2
    out, err = capsys.readouterr()
    assert [line.split(": ")[0] for line in out.splitlines() if not line.startswith(" ")] == [
        str(paths[0]),
        str(paths[3]),
    ]
    assert [line.split(": ")[1] for line in err.splitlines()] == [str(paths[1]), str(paths[2])]
    assert sorted(path.name for path in maps.iterdir()) == ["1-2-features.png", "1-features.png"]


def test_a_training_begins_with_the_weights_of_another(
    run: Path, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    short = ["--epochs", "1", "--set", "train.progress=false", "--set", "optim.lr=1e-9", "--set", "eval.sample=9"]
    command = [
        "train",
        "--from",
        str(run),
        "--data",
        "mnist-scale",
        "--data-dir",
        str(digits),
        "--out",
        str(out),
        *short,
    ]
    assert main(command) == 0
    assert "begin with" in capsys.readouterr().err
    before, after = read_info(run), read_info(out)
    assert after["model"] == before["model"]
    assert after["overrides"]["widths"] == before["overrides"]["widths"]
    assert after["overrides"].get("classes", 10) == 10  # before there were three
    weights = (load_model(folder).net.blocks[0][0].weight for folder in (run, out))
    torch.testing.assert_close(*weights, atol=1e-6, rtol=0)
    assert main(["train", "--from", "nowhere", "--out", str(tmp_path / "other")]) == 2
    assert "nowhere is no file or folder" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fourierscale {fourierscale.__version__}\n"


def test_models_are_listed_line_by_line_and_their_citations_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    rows = {line.split()[0]: line for line in out.partition("\n\n")[0].splitlines()}
    assert set(rows) == {"name", *list_models()}
    assert max(map(len, rows.values())) < 80
    assert all(word in rows["scalenet-mnist"] for word in ("593,530", "any size"))
    assert all(word in rows["cnn-mnist"] for word in ("494,549", "70.1 M", "zero to 28"))
    for name in list_pretrained():
        metrics = pretrained_info(name)["metrics"]
        line = next(line for line in out.partition("weights that ship")[2].splitlines() if line.startswith(f"{name} "))
        assert f"{metrics['accuracy']:.4f}" in line
        assert f"{sum(p.numel() for p in load_pretrained(name).parameters()):,}" in line
    for name in list_models():
        users = out.partition(f"- {model_info(name).citation}\n")[2].partition("\n-")[0].partition("\n\n")[0]
        assert name in " ".join(users.split()).split(", ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["train"], "say what to train: a folder of images"),
        (["audit", "cnn-small", "--mean", "a"], "--mean takes numbers with commas between, got a"),
        (["evaluate", "RUN", "--std", "1,2"], "--std takes 1 number or 1, got 2"),
        (["evaluate", "RUN", "--std", "0"], "as many means as positive stds"),
        (["train", "--config", "tinny"], "did you mean 'tiny'?"),
        (["train", "--set", "optim.lrr=2"], "no field optim.lrr: did you mean 'lr'?"),
        (["train", "--model", "scalenet-tyny"], "did you mean 'scalenet-tiny'?"),
        (["train", "--set", "model.overrides.hiden=3"], "did you mean 'hidden'?"),
        (["train", "--set", "data.augment=wrap"], "no augmentation 'wrap': did you mean 'warp'?"),
        (["train", "--set", "data.augment=warp", "--set", "data.augment_settings.rotation=-1"], "rotation"),
        (["train", "--data", "mnist-scal"], "no protocol 'mnist-scal'"),
        (["train", "--devices", "9x"], "devices"),
        (["train", "--epochs", "0"], "train.epochs must be greater than or equal to 1, got 0"),
        (["train", "--resume"], "--resume needs --out"),
        (["train", "--num-nodes", "2"], "several machines need one folder for the run that all of them see: give it"),
        (["train", "--resume", "--out", "nowhere"], "there is no run to resume"),
        (["evaluate", "nowhere"], "nowhere is no file or folder"),
        (["evaluate", "RUN", "--device", "abacus"], "cannot compute on abacus"),
        (["evaluate", "RUN", "--out", "nowhere"], "no such folder to write the results in"),
        (["evaluate", "RUN", "--data", "mnist-scale"], "the model takes 1 channel(s) and 3 classes, mnist-scale has"),
        (["predict", "RUN", "dot.png", "--sure", "99"], "--sure is a probability above 0 and at most 1, got 99.0"),
        (["predict", "RUN", "dot.png", "--json", "--csv"], "give --json or --csv, not both"),
        (["predict", "RUN", "dot.png", "--device", "abacus"], "cannot compute on abacus"),
        (["predict", "RUN", "dot.png", "--onnx"], "model.onnx: there is no such file"),
        (["predict", "RUN", "none.png"], "none.png: there is no such file"),
        (["predict", "RUN", "empty"], "it is a folder without images"),
        (["predict", "RUN", "dot.png", "--features", "text.png"], "text.png is a file: --features names a folder"),
        (["train", "--out", "text.png/run"], "text.png is a file: --out names a folder"),
        (["explore", "--build", "text.png"], "text.png is a file: --build names a folder"),
        (["predict", "RUN", "text.png"], "text.png: cannot be read as an image"),
        (["predict", "RUN", "dot.png"], "dot.png: 3 x 3 pixels, the model needs at least 8 x 8"),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(
    arguments: list[str], text: str, run: Path, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    Image.new("L", (3, 3)).save(tmp_path / "dot.png")
    if (
        arguments != ["train"]
        and arguments[0] not in ("predict", "explore")
        and "--resume" not in arguments
        and "--config" not in arguments
    ):
        arguments = [*arguments, "--data-dir", str(digits)]
    assert main([str(run) if part == "RUN" else part for part in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if not line.startswith("  ")]
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("fourierscale: ")
    assert text in lines[0]


def test_training_imports_without_what_a_bare_gpu_machine_lacks() -> None:
    code = (
        "import sys, numpy, pytorch_lightning, torchmetrics\n"  # these look for some of them themselves
        "for name in ('typer', 'rich', 'pooch', 'matplotlib', 'tensorboard', 'PIL', 'mlxtend', 'yaml'):\n"
        "    sys.modules[name] = None\n"
        "from fourierscale.training import train, load_config\n"
        "load_config('mnist-best')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_without_tensorboard_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from fourierscale.training.run import _logger

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else find_spec(name))
    with caplog.at_level("INFO", "fourierscale"):
        assert _logger(tmp_path) is False
    assert "tensorboard is not installed" in caplog.text
