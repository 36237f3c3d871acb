"""``fourierscale reproduce``: what it lists, runs and tells, and one line for a mistake."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from fourierscale.cli import main
from fourierscale.cli.reproduce import _picture
from fourierscale.lab.tables import TABLES, engine, find_rows
from fourierscale.lab.tables.engine import Job
from fourierscale.lab.tables.runs import plan

# a run that ends at once: three epochs in its log, metrics, and the description that training writes
STAND_IN = """
import json, pathlib, sys, tomllib
folder = pathlib.Path(sys.argv[1])
config = tomllib.loads((folder / "config.toml").read_text())
if config["train"]["seed"] == 1:
    sys.exit("fourierscale: the abacus is out of beads")
(folder / "log.csv").write_text("epoch,loss,seconds\\n0,2,1\\n1,1,1\\n")
if config["train"]["seed"] == 2:
    sys.exit("fourierscale: stopped half way")
metrics = {"accuracy": 0.5, "scale_con": 0.25, "equi_err": None}
info = {"model": "scalenet-mnist", "overrides": {}, "config": config, "metrics": metrics, "versions": {}, "history": {}}
(folder / "model.json").write_text(json.dumps(info))
(folder / "model.safetensors").write_text("")
(folder / "metrics.json").write_text(json.dumps(metrics))
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_tables_and_rows_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "list"]) == 0
    printed = capsys.readouterr().out
    assert "mnist-all" in printed
    assert "imagenette-padding" in printed
    assert "(A5)" in printed
    assert main(["reproduce", "list", "mnist-ablation"]) == 0
    printed = capsys.readouterr().out
    assert "ours-best-no-nested" in printed
    assert "7.32" in printed


def test_runs_end_in_results_and_status_and_a_failure_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_command", lambda folder: [sys.executable, "-c", STAND_IN, str(folder)])
    command = ["reproduce", "run", "mnist-all", "mnist-ablation", "--rows", "ours-best", "--jobs", "3"]
    assert main([*command, "--data-dir", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "1 of 3 runs finished (0 of them before), 2 failed, 0 to be resumed; 0 min " in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("failed: mnist-all/ours-best-seed1: ")]
    log = next(Path("runs/reproduce").glob("mnist-all-ours-best-*-seed1")) / "run.log"
    assert line == f"failed: mnist-all/ours-best-seed1: the abacus is out of beads ({log})"
    assert "abacus" in log.read_text()
    result = json.loads(Path("results/mnist-all/ours-best-seed0.json").read_text())
    assert "data_dir" not in result["config"].get("data", {})
    assert "data_dir" in next(Path("runs/reproduce").glob("*seed0/config.toml")).read_text()

    assert main(["reproduce", "status", "mnist-all"]) == 0
    printed = capsys.readouterr().out
    assert "ours-best" in printed
    assert "1 of 3" in printed
    assert "epoch 2 of 60" in printed
    assert "epoch 0 of 60" in printed
    assert "20 rows not run" in printed
    assert main([*command, "--seeds", "0"]) == 0
    assert "1 of 1 runs finished (1 of them before)" in capsys.readouterr().out


@pytest.mark.parametrize(("jobs", "there", "running", "told"), [(2, 1, 0, 1), (2, 1, 1, 0), (1, 1, 0, 0), (2, 0, 0, 0)])
def test_where_runs_would_take_turns_on_a_gpu_a_line_says_so(
    jobs: int,
    there: int,
    running: int,
    told: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine, "_command", lambda folder: [sys.executable, "-c", STAND_IN, str(folder)])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "pipes"))
    for name, wanted in (("bin/nvidia-cuda-mps-control", there), ("pipes/control", running)):
        if wanted:
            (tmp_path / name).parent.mkdir()
            (tmp_path / name).touch(mode=0o755)
    assert main(["reproduce", "run", "mnist-all", "--rows", "ours-best", "--seeds", "0", "--jobs", str(jobs)]) == 0
    assert ("nvidia-cuda-mps-control -d" in capsys.readouterr().out) == bool(told)


def test_a_group_stands_for_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "run", "mnist", "mnist-all", "--rows", "ours-best", "--seeds", "0", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(lines)) == 7  # all, missing, gaussian, bicubic and three sizes; the ablation is of all
    assert all("--config mnist-best" in line for line in lines)


def test_a_dry_run_prints_commands_and_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "mnist-consistency",
        "--rows",
        "ours-best-1000",
        "--seeds",
        "4",
        "--set",
        "train.epochs=2",
        "--dry-run",
    ]
    assert main(["reproduce", "run", *arguments]) == 0
    start = "fourierscale train --config mnist-best --set data.protocol=mnist-scale-1000"
    assert capsys.readouterr().out.splitlines() == [
        f"{start} --set train.epochs=2 --seed 4",
        f"{start} --set loss.hinge=none --set train.epochs=2 --seed 4",
    ]
    assert not Path("runs").exists()


def test_what_no_row_can_have_is_told_once_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "run", "mnist-all", "--set", "train.epoch=3"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    reason = "no field train.epoch: did you mean 'epochs'?"
    assert line == f"cannot be run: mnist-all cnn and 20 more: {reason}"
    assert not Path("runs").exists()


def test_status_and_run_name_a_file_that_is_no_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_command", lambda folder: [sys.executable, "-c", STAND_IN, str(folder)])
    Path("results").mkdir()
    Path("results/cut.json").write_text('{"metrics": ')
    for arguments in (["status", "mnist-all"], ["run", "mnist-all", "--rows", "cnn", "--seeds", "0"]):
        assert main(["reproduce", *arguments]) == 0
        assert capsys.readouterr().out.startswith(f"{Path('results/cut.json')}: not a result (")


def test_the_screen_shows_the_epoch_of_each_run() -> None:
    table = TABLES["mnist-all"]
    runs = plan([(table, find_rows(table, ["ours-best"]))]).runs
    states = ("done", "running", "failed")
    jobs = [Job(run, Path(run.folder), state, epoch=7) for run, state in zip(runs, states, strict=True)]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(_picture(jobs))
    shown = console.export_text()
    assert "1 done  1 running  0 waiting  1 failed" in shown
    (line,) = [line for line in shown.splitlines() if "epoch" in line]
    assert line.startswith("mnist-all/ours-best-seed1")
    assert line.rstrip().endswith("epoch 7 of 60, ? left")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "mnist-al"], "no table 'mnist-al': did you mean 'mnist-all'?"),
        (["list", "mnist-ablatoin"], "did you mean 'mnist-ablation'?"),
        (["status", "imagnette"], "did you mean 'imagenette'?"),
        (
            ["run", "mnist-all", "--rows", "ours-bset"],
            "mnist-all has no row 'ours-bset': did you mean 'ours-best'?",
        ),
        (
            ["run", "mnist-all", "stl10", "--rows", "discoo"],
            "has a row 'discoo': did you mean 'disco'?",
        ),
        (["run", "mnist-all", "--seeds", "one"], "expected seeds such as 0,1,2"),
        (["run", "mnist-all", "--jobs", "0"], "jobs"),
        (["run", "mnist-all", "--results", "taken"], "taken is a file: --results names a folder"),
        (["run", "mnist-all", "--out", "taken"], "taken is a file: --out names a folder"),
        (["status", "--results", "taken"], "taken is a file: results are read from a folder"),
        (["report", "--results", "taken", "--out", "page.html"], "taken is a file: results are read from a folder"),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").write_text("a file")
    assert main(["reproduce", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("fourierscale: ")
    assert text in line
