"""Masks and fields from the command line: train, measure, predict."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fourierscale.cli import main
from tests.training.small_pairs import write_fields, write_masks

SMALL = ["--set", "model.overrides.widths=[6, 8]", "--set", "data.size=16", "--set", "train.progress=false"]
SMALL += ["--set", "train.precision=32", "--no-onnx", "--epochs", "1"]


def run(*words: object) -> int:
    return main([str(word) for word in words]) or 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("masks")
    write_masks(root / "mine")
    (root / "mine" / "classes.txt").write_text("ground\ndisc\n")
    assert run("train", "--task", "segmentation", root / "mine", "--out", root / "run", *SMALL) == 0
    return root


def test_a_folder_of_images_and_masks_becomes_a_run_with_a_page(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = json.loads((trained / "run" / "metrics.json").read_text())
    assert metrics["task"] == "segmentation"
    assert set(metrics["iou_per_class"]) == {"ground", "disc"}
    assert set(metrics["iou_per_resolution"]) == {"8", "11", "16"}
    assert metrics["agreement_per_resolution"] == {"8": 1.0, "11": 1.0}
    assert metrics["equi_err"] < 1e-10
    page = (trained / "run" / "report.html").read_text()
    assert "equal by construction" in page
    assert page.count("data:image/png") > 20


def test_masks_of_files_have_the_files_own_sizes(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo, empty, out = trained / "photo.png", trained / "empty.png", trained / "out"
    Image.fromarray(np.full((50, 31, 3), 90, np.uint8)).save(photo)
    empty.write_bytes(b"")
    assert run("predict", trained / "run", photo, empty, "--out", out) == 2
    told = capsys.readouterr()
    assert "wrote" in told.out
    assert "empty.png" in told.err
    mask = Image.open(out / "photo.png")
    assert (mask.size, mask.mode) == ((31, 50), "P")
    assert set(np.unique(np.asarray(mask))) <= {0, 1}
    assert not (out / "empty.png").exists()


def test_a_run_is_measured_again_to_the_same_figures(trained: Path) -> None:
    before = json.loads((trained / "run" / "metrics.json").read_text())
    assert run("evaluate", trained / "run", "--out", trained) == 0
    after = json.loads((trained / "metrics.json").read_text())
    for name, values in before["iou_per_class"].items():
        assert after["iou_per_class"][name] == pytest.approx(values)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--task", "segmentation"], "give the folder of images/ and masks/"),
        (["--task", "segmentation", "nowhere"], "there is no such folder"),
        (["--task", "mowing", "mine"], "data.task must be 'classification', 'segmentation' or 'field'"),
        (["--model", "os:getcwd", "mine"], "give --task segmentation or field"),
        (["--task", "segmentation", "--model", "no_such_module:net", "mine"], "cannot import no_such_module"),
        (["--task", "segmentation", "--set", "data.augment=crop-flip-cutout", "mine"], "cannot move a mask"),
        (["--task", "field", "mine"], "expected"),
        (["--task", "segmentation", "--data", "navier-stokes"], "is for the task field"),
        (["--data", "pets"], "is for the task segmentation"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    words: list[str], told: str, trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    assert run("train", *words, "--out", trained / "other") == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert told in lines[-1]
    assert "Traceback" not in "".join(lines)


def test_bad_pairs_are_named_and_left_out_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_masks(tmp_path / "mine")
    (root / "masks" / "03.png").unlink()
    (root / "images" / "05.jpg").write_bytes(b"no image")
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(root / "masks" / "07.png")
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(root / "masks" / "10.png")
    words = ["train", "--task", "segmentation", root, *SMALL]
    assert run(*words, "--out", tmp_path / "run") == 2
    told = capsys.readouterr().err
    assert "4 of 24 pairs cannot be used" in told
    for part in ("images/03.jpg (no mask of this name)", "05 (image: ", "07 (image of ", "10 (mask of colours (RGB)"):
        assert part in told
    assert run(*words, "--skip-bad", "--out", tmp_path / "run") == 0
    counts = json.loads((tmp_path / "run" / "model.json").read_text())
    assert "4 of 24 pairs cannot be used" in counts["data"]["note"]


def test_a_net_of_ones_own_is_trained_bare_and_found_again_by_its_function_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n\n\ndef linear(in_channels, classes):\n    return nn.Conv2d(in_channels, classes, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    root = write_masks(tmp_path / "mine")
    words = [word for word in SMALL if "widths" not in word]
    words.remove("--set")
    words = ["train", "--task", "segmentation", root, "--model", "my_nets:linear", "--bare", *words]
    assert run(*words, "--out", tmp_path / "run") == 0
    assert json.loads((tmp_path / "run" / "model.json").read_text())["overrides"]["exact"] is False
    capsys.readouterr()
    photo = next((root / "images").iterdir())
    assert run("predict", tmp_path / "run", photo, "--out", tmp_path / "out") == 2
    assert "give --factory my_nets:linear" in capsys.readouterr().err
    assert run("predict", tmp_path / "run", photo, "--factory", "my_nets:linear", "--out", tmp_path / "out") == 0


def test_fields_are_trained_on_measured_on_finer_grids_and_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_fields(tmp_path / "fields")
    small = ["width=6", "modes=4", "depth=2"]
    settings = [word for option in small for word in ("--set", f"model.overrides.{option}")]
    words = ["train", "--task", "field", data, "--epochs", "1", "--set", "data.batch_size=6", *settings]
    assert run(*words, "--set", "train.progress=false", "--out", tmp_path / "run") == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(metrics["error_per_resolution"]) == {"8", "16", "32"}
    assert set(metrics["strided_error_per_resolution"]) == {"8", "16"}
    assert metrics["equi_err"] < 1e-10
    assert (tmp_path / "run" / "report.html").is_file()
    assert run("predict", tmp_path / "run", data / "test.npz", "--out", tmp_path / "out") == 0
    with np.load(tmp_path / "out" / "test.npz") as file:
        assert file["y"].shape == (6, 1, 32, 32)
