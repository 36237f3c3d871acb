"""One command on a folder of images: what it chooses, says, writes, and how it is stopped and resumed."""

from __future__ import annotations

import contextlib
import html.parser
import io
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fourierscale import create_model, downscale
from fourierscale.cli import main
from fourierscale.data import FolderOptions, Scaling, load_protocol, survey_folder
from fourierscale.models import load_model, read_info
from fourierscale.training import load_config
from fourierscale.training.choices import choose
from fourierscale.training.report import choose_examples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TINY = ("model.overrides.widths=[4, 6]", "model.overrides.pool=1", "model.overrides.hidden=8", "train.progress=false")


def write_shapes(root: Path, counts: dict[str, int], sides: tuple[int, ...] = (12, 16, 20), mode: str = "RGB") -> Path:
    """Bright bars on noise, upright or lying: a class that can be learned, in images of several sizes and shapes."""
    rng = np.random.default_rng(0)
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for index in range(count):
            side = sides[index % len(sides)]
            pixels = rng.integers(0, 60, (side, side, 3))
            middle = slice(side // 3, 2 * side // 3)
            pixels[(slice(None), middle) if name == "upright" else (middle, slice(None))] = 220
            picture = Image.fromarray(pixels.astype(np.uint8)).convert(mode)
            picture.resize((side + 4 * (index % 2), side)).save(root / name / f"{index}.png")
    return root


def settings(*more: str) -> list[str]:
    return [part for setting in (*TINY, *more) for part in ("--set", setting)]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shapes(tmp_path_factory.mktemp("data") / "shapes", {"lying": 30, "upright": 60})


@pytest.fixture(scope="module")
def trained(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run's folder and what was printed."""
    run = tmp_path_factory.mktemp("runs") / "run"
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setenv("COLUMNS", "160")
        assert main(["train", str(shapes), "--epochs", "6", "--no-onnx", "--out", str(run), *settings()]) == 0
    return run, printed.getvalue()


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)


def test_one_command_says_its_choices_and_ends_with_what_to_do_next(trained: tuple[Path, str], shapes: Path) -> None:
    run, printed = trained
    for words in (
        "30 (lying) to 60 (upright) images each",
        "63, 9, 18",
        "shorter sides are 12 to 20 pixels",
        "resolutions 8 9 11 13 15 17 20",
        "45 of 90 images are not square",
        "as you set it; 378 images seen",
        f"wrote {run}/report.html",
        f"fourierscale predict {run} IMAGE.jpg",
        f"fourierscale audit {run} --data {shapes}",
    ):
        assert words in " ".join(printed.split()), words
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["data"]["size"], config["data"]["lowest"], config["data"]["colour"]) == (20, 8, "rgb")
    assert config["model"]["overrides"]["resolutions"] == [8, 9, 11, 13, 15, 17, 20]


def test_metrics_tell_the_classes_apart(trained: tuple[Path, str]) -> None:
    metrics = json.loads((trained[0] / "metrics.json").read_text())
    assert metrics["accuracy"] > 0.8
    assert metrics["equi_err"] < 1e-11
    confusion = np.array(metrics["confusion"])
    assert confusion.sum(1).tolist() == [6, 12]
    shares = confusion.diagonal() / confusion.sum(1)
    assert list(metrics["accuracy_per_class"]) == ["lying", "upright"]
    np.testing.assert_allclose(list(metrics["accuracy_per_class"].values()), shares)
    assert metrics["balanced_accuracy"] == pytest.approx(shares.mean())
    assert metrics["accuracy"] == pytest.approx(confusion.trace() / confusion.sum())
    assert sum(metrics["images_per_resolution"].values()) == 18
    assert metrics["accuracy_per_level"].keys() == metrics["loss_per_level"].keys()


class _Reader(html.parser.HTMLParser):
    """Tags that are open, and every address that the page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "link", "img", "br", "line", "circle", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "circle", "polyline"):
            assert self.open.pop() == tag


def test_the_report_is_one_whole_page_with_every_part(trained: tuple[Path, str]) -> None:
    text = (trained[0] / "report.html").read_text()
    reader = _Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.addresses
    assert all(address.startswith("data:") for address in reader.addresses)
    for heading in ("Results", "Over resolution", "Classes", "Who is taken for whom", "mistakes", "Training", "made"):
        assert heading in text
    assert "$" not in text.split("</style>")[1]
    assert "lying/" in text or "upright/" in text  # files of the examples are named


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_in_a_narrow_browser_the_report_does_not_run_over(trained: tuple[Path, str], tmp_path: Path) -> None:
    probe = (
        "<script>document.title = document.documentElement.scrollWidth + ' ' + innerWidth + ' ' + "
        "[...document.images].every(i => i.naturalWidth > 0)</script></body>"
    )
    path = tmp_path / "report.html"
    path.write_text((trained[0] / "report.html").read_text().replace("</body>", probe), encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=500,900"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run([str(CHROMIUM), *flags, path.as_uri()], capture_output=True, text=True, timeout=60)
    found = re.search(r"<title>(\d+) (\d+) (\w+)</title>", done.stdout)
    assert found is not None, done.stderr[-2000:]
    assert int(found[1]) <= int(found[2])
    assert found[3] == "true"
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_examples_are_right_or_wrong_and_their_last_level_is_the_prediction(
    trained: tuple[Path, str], shapes: Path
) -> None:
    run, _ = trained
    splits = load_protocol(str(shapes), folder=FolderOptions(size=20, lowest=8))
    assert dict(splits.hashes) == read_info(run)["data"]["hashes"]
    right, wrong = choose_examples(load_model(run), splits)
    assert right
    assert {example.label for example in right} == {0, 1}
    assert all(example.predicted == example.label for example in right)
    assert all(example.predicted != example.label for example in wrong)
    for example in (*right, *wrong):
        assert splits.classes[example.label] == example.name.split("/")[0]
        assert example.levels[-1].split(", ")[-1] == str(example.image.shape[-1])
        assert len(example.levels) == len(example.probabilities)


def test_levels_of_mirrored_images_are_told_in_their_pixels(shapes: Path, tmp_path: Path) -> None:
    splits = load_protocol(str(shapes), folder=FolderOptions(size=20, lowest=8), scaling=Scaling(boundary="mirror"))
    resolutions = splits.protocol.equivariance
    options = {"in_channels": 3, "classes": 2, "widths": (4,), "pool": 1, "resolutions": resolutions}
    model = create_model("scalenet-folder", boundary="mirror", **options).eval()
    right, wrong = choose_examples(model, splits)
    for example in (*right, *wrong):
        side = example.image.shape[-1]
        assert list(example.levels) == [str(r) for r in resolutions if r <= side]


def test_predict_takes_an_image_as_training_did(
    trained: tuple[Path, str], shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Image.open(shapes / "upright" / "2.png") as picture:
        picture.resize((300, 200)).save(tmp_path / "large.jpg")
    assert main(["predict", str(trained[0]), str(tmp_path / "large.jpg"), str(shapes / "upright" / "1.png")]) == 0
    out = capsys.readouterr().out
    assert "300 x 200, centred square at 20 px" in out
    assert "20 x 16, centred square at 15 px" in out
    assert "large.jpg: upright" in out
    assert main(["predict", str(trained[0]), str(shapes)]) == 0
    assert capsys.readouterr().out.count(".png: ") == 90
    (tmp_path / "empty").mkdir()
    assert main(["predict", str(trained[0]), str(tmp_path / "empty")]) == 2
    assert f"{tmp_path}/empty" in capsys.readouterr().err


def test_evaluate_finds_the_same_test_images_again(
    trained: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = trained
    before = json.loads((run / "model.json").read_text())["metrics"]
    assert main(["evaluate", str(run), "--device", "cpu", "--out", str(tmp_path)]) == 0
    after = json.loads((tmp_path / "metrics.json").read_text())
    assert after["accuracy"] == before["accuracy"]
    assert after["confusion"] == before["confusion"]
    assert "has changed" not in capsys.readouterr().err
    other = write_shapes(tmp_path / "other", {"flat": 5, "upright": 5})
    assert main(["evaluate", str(run), "--data", str(other), "--out", str(tmp_path)]) == 2
    assert "name its folders as the model's classes" in capsys.readouterr().err


def test_a_run_of_an_earlier_version_is_evaluated_and_resumed(
    trained: tuple[Path, str], shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until version 0.2 its files said ``folder:PATH``."""
    run = tmp_path / "old"
    shutil.copytree(trained[0], run)
    for name in ("config.toml", "model.json", "metrics.json"):
        text = (run / name).read_text()
        assert f'"{shapes}"' in text
        (run / name).write_text(text.replace(f'"{shapes}"', f'"folder:{shapes}"'))
    last = run / "checkpoints" / "last.ckpt"
    checkpoint = torch.load(last, weights_only=True)
    checkpoint["fourierscale"]["images"]["protocol"] = f"folder:{shapes}"
    torch.save(checkpoint, last)
    for data in ([], ["--data", str(shapes)], ["--data", f"folder:{shapes}"]):
        assert main(["evaluate", str(run), "--device", "cpu", *data]) == 0
        assert f"wrote {run}/metrics.json" in capsys.readouterr().out  # its own images
    assert main(["audit", str(run), "--images", "2"]) == 0
    assert f"test images of {shapes}" in capsys.readouterr().out
    assert main(["train", "--resume", "--out", str(run), "--epochs", "7", "--no-onnx"]) == 0
    assert tomllib.loads((run / "config.toml").read_text())["data"]["protocol"] == str(shapes)


def test_a_whole_image_squeezed_is_what_the_square_levels_see_of_it() -> None:
    model = create_model("scalenet-folder", widths=(4, 6), pool=1, hidden=8, resolutions=(8, 12, 16)).double().eval()
    x = torch.randn(2, 3, 16, 29, dtype=torch.float64)
    torch.testing.assert_close(model(x)[:, :3], model(downscale(x, (16, 16))))  # then comes its own, oblong band
    assert model(x).shape[1] == 4


def test_choices_follow_from_the_images_and_yield_to_the_user(tmp_path: Path) -> None:
    found = survey_folder(write_shapes(tmp_path / "grey", {"lying": 4, "upright": 40}, (70, 90, 200), "L"))
    config, rows = choose(load_config("folder"), found)
    assert (config.data.size, config.data.lowest, config.data.colour) == (64, 16, "grey")
    assert config.model.overrides["pool"] == [2, 2, 1]
    assert (config.train.epochs, config.data.batch_size) == (100, 8)
    told = {row.name: row for row in rows}
    assert "uneven" in told["classes"].why
    assert "64 at most without a GPU" in told["data.size"].why
    on_gpu = choose(load_config("folder"), found, gpu=True)[0]
    assert (on_gpu.data.size, on_gpu.model.overrides["grid"]) == (96, "common")
    assert "grid" not in config.model.overrides
    changes = ["data.size=40", "train.epochs=3", "data.batch_size=5"]
    config, rows = choose(load_config("folder", changes), found, [change.partition("=")[0] for change in changes])
    assert (config.data.size, config.train.epochs, config.data.batch_size) == (40, 3, 5)
    assert next(row for row in rows if row.name == "data.size").why.startswith("as you set it")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "no protocol 'nowhere', or no such folder"),
        (["no/where"], "no/where: expected a folder of class folders, there is no such folder"),
        (["tiny"], "tiny is no folder of images but a preset: fourierscale train --config tiny"),
        (["SHAPES", "--data", "mnist-scale"], "give the images once"),
        (["SHAPES", "--set", "data.size=64"], "data.size 64 is larger than every training image"),
        (["SHAPES", "--set", "data.shape=round"], "data.shape"),
        (["BAD"], "2 of 92 images cannot be used: lying/a.png (the file is empty), upright/b.jpg (not in a format"),
    ],
)
def test_a_mistake_gives_one_line_before_any_training(
    arguments: list[str], text: str, shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments == ["BAD"]:
        bad = write_shapes(tmp_path / "bad", {"lying": 30, "upright": 60})
        (bad / "lying" / "a.png").write_bytes(b"")
        (bad / "upright" / "b.jpg").write_text("no image")
        arguments = [str(bad)]
    assert main(["train", *(str(shapes) if part == "SHAPES" else part for part in arguments)]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("  ")]
    assert len(lines) == 1
    assert text in lines[0]
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C arrives: tests that were started in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_stopped_with_ctrl_c_it_says_how_to_go_on_and_resumes(
    shapes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "stopped by hand"

    def press() -> None:
        while not (run / "checkpoints" / "last.ckpt").is_file():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    threading.Thread(target=press, daemon=True).start()
    command = ["train", str(shapes), "--epochs", "4000", "--out", str(run)]
    assert main([*command, *settings("data.train_size=12", "data.batch_size=4")]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("fourierscale: stopped in epoch ")
    assert last.endswith(f"of 4000; continue with fourierscale train --resume --out '{run}'")
    done = len((run / "log.csv").read_text().splitlines()) - 1
    assert done < 4000
    assert main(["train", "--resume", "--out", str(run), "--epochs", str(done + 1), "--no-onnx"]) == 0
    assert (run / "report.html").is_file()
    assert json.loads((run / "metrics.json").read_text())["epochs"] == done + 1
