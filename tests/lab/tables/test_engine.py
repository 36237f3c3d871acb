"""The engine: finished runs are never trained again, stopped ones resume, a failure is one line and stops nobody."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fourierscale.data.cache import locked
from fourierscale.lab.tables import TableRow, engine
from fourierscale.lab.tables.engine import Job, run_all
from fourierscale.lab.tables.queue_log import QueueLog, seconds_left
from fourierscale.lab.tables.results import collect, is_finished, read_results, slim, to_json
from fourierscale.lab.tables.runs import Run, hashed_name, plan, recipe_names
from fourierscale.lab.tables.tables import TABLES
from fourierscale.models import load_pretrained
from fourierscale.training.callbacks import read_log
from fourierscale.training.config import Config
from fourierscale.training.errors import NoMemoryError
from tests.training.small_runs import write_digits

SMALL = (
    "model.overrides.widths=[4]",
    "model.overrides.pool=1",
    "model.overrides.hidden=8",
    "data.batch_size=64",
    "eval.limit=40",
    "eval.sample=4",
)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder, 200, 40)
    return folder


def make_runs(digits: Path, *settings: str, seeds: Sequence[int] = (0,)) -> list[Run]:
    row = TableRow("small", "small", "tiny", (*SMALL, f"data.data_dir={digits}", "data.offline=true"))
    return plan([(TABLES["mnist-all"], [row])], seeds, settings).runs


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Processes that start at once: this code instead of a training, with the run's folder as ``folder``."""
    start = "import pathlib, signal, sys, time\nfolder = pathlib.Path(sys.argv[1])\n"
    text = start + textwrap.dedent(code)
    monkeypatch.setattr(engine, "_command", lambda folder: [sys.executable, "-c", text, str(folder)])


def test_a_queue_starts_its_rows_in_order_and_keeps_count_of_its_hours(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "open(folder.parent / 'order', 'a').write(folder.name + ' '); sum(range(3_000_000))")
    runs = make_runs(digits, seeds=(2, 0, 1))
    run_all(runs, tmp_path, tmp_path / "results", interval=0.05, in_order=True, nice=5)
    assert (tmp_path / "order").read_text().split() == [run.folder for run in runs]
    log = QueueLog.read(tmp_path)
    assert len(log.rows) == 1
    assert 0 < log.cpu_hours < 0.1
    with (tmp_path / "queue.csv").open("a") as file:
        file.write("damaged\n")
    jobs = run_all(runs, tmp_path, tmp_path / "results", interval=0.05, cpu_hours=0.0)
    assert {job.state for job in jobs} == {"stopped"}
    assert len(QueueLog.read(tmp_path).rows) == 1  # nothing ran


def test_time_left_follows_from_the_epochs_of_like_runs(digits: Path, tmp_path: Path) -> None:
    (first, second) = make_runs(digits, "train.epochs=10", seeds=(0, 1))
    rows = "".join(f"{epoch},1,0.1,1.0,,,,20.0\n" for epoch in range(4))
    (tmp_path / "log.csv").write_text("epoch,step,lr,loss,val_loss,val_acc,val_scale_con,seconds\n" + rows)
    left = seconds_left([(first, tmp_path, False), (second, tmp_path / "none", False), (first, tmp_path, True)])
    assert left == [pytest.approx(120), pytest.approx(200), 0.0]
    assert seconds_left([(second, tmp_path / "none", False)]) == [None]


def test_no_process_is_left_behind_when_this_one_is_told_to_terminate(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "time.sleep(60)")
    before, seen = signal.getsignal(signal.SIGTERM), []

    def terminate(jobs: Sequence[Job]) -> None:
        seen[:] = [job.process for job in jobs]
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as stopped:
        run_all(make_runs(digits, seeds=(0, 1)), tmp_path, tmp_path / "results", 2, watch=terminate, interval=0.05)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert [process.poll() for process in seen] == [-signal.SIGTERM] * 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupted_run_resumes_and_a_finished_one_is_never_run_again(digits: Path, tmp_path: Path) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    (run,) = make_runs(digits, "train.epochs=10")
    (broken,) = make_runs(digits, "model.overrides.widths=[4, -1]")
    seen: list[Job] = []

    def interrupt(jobs: Sequence[Job]) -> None:
        seen[:] = jobs
        if jobs[0].epoch >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([run], out, results, watch=interrupt, interval=0.05)
    assert seen[0].process is not None
    assert seen[0].process.poll() is not None  # ended, not left behind
    assert not (seen[0].folder / "metrics.json").exists()
    assert (seen[0].folder / "checkpoints" / "last.ckpt").is_file()
    (failed,) = run_all([broken], out, results, interval=0.05)
    assert "got -1" in failed.reason
    assert "\n" not in failed.reason
    assert failed.reason in failed.log.read_text()
    done = len(read_log(seen[0].folder / "log.csv"))
    assert 1 <= done < 10
    assert not results.exists()

    (job,) = run_all([run], out, results, interval=0.05)
    assert (job.state, job.epoch, job.known) == ("done", 10, False)
    assert [int(row["epoch"]) for row in read_log(job.folder / "log.csv")] == list(range(10))
    printed = job.log.read_text()
    assert printed.count("epoch 1 of 10") == 1  # the second process went on where the first one was
    (result,) = read_results(results).all
    assert result.name == run.name
    assert result.key == run.key
    assert result.config.data.data_dir is None
    measured = json.loads((job.folder / "metrics.json").read_text())
    assert result.metrics["accuracy"] == pytest.approx(measured["accuracy"], rel=1e-5)
    assert str(tmp_path) not in (results / f"{run.name}.json").read_text()
    assert str(digits) not in (results / f"{run.name}.json").read_text()
    assert len(result.history["epoch"]) == 10
    seconds = [float(row["seconds"]) for row in read_log(job.folder / "log.csv")]
    assert result.metrics["train_seconds"] >= sum(seconds) - 0.01  # the part before the interruption counts too

    before = {path: path.stat().st_mtime_ns for path in job.folder.rglob("*")}
    for folder in (out, tmp_path / "elsewhere"):  # known by its folder, known by its result
        (again,) = run_all([run], folder, results)
        assert (again.state, again.known, again.process) == ("done", True, None)
    assert {path: path.stat().st_mtime_ns for path in job.folder.rglob("*")} == before
    (results / f"{run.name}.json").unlink()
    (again,) = run_all([run], out, results)
    assert again.known
    assert [result.name for result in read_results(results).all] == [run.name]
    (other,) = make_runs(digits, "train.epochs=10", "optim.lr=0.5")
    assert not is_finished(job.folder, other)

    named = replace(other, name=run.name)  # as if the row had another recipe now
    info = json.loads((job.folder / "model.json").read_text())
    info["config"]["optim"]["lr"] = 0.5
    shutil.copytree(job.folder, out / named.folder)
    (out / named.folder / "config.toml").write_text(other.config.to_toml())
    (out / named.folder / "model.json").write_text(json.dumps(info))
    collect([(named, out / named.folder)], results)
    found = {result.name: result.key for result in read_results(results).all}
    assert found == {run.name: other.key, hashed_name(run.name, run.key): run.key}  # nothing is lost


def test_a_limit_stops_the_processes_and_leaves_the_rest_for_next_time(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(
        monkeypatch,
        """
        def end(number, frame):
            (folder / "ended").write_text("asked to")
            sys.exit(143)
        signal.signal(signal.SIGTERM, end)
        (folder / "ready").write_text("")
        time.sleep(60)
        """,
    )
    runs = make_runs(digits, seeds=(0, 1, 2))
    started = time.monotonic()
    jobs = run_all(runs, tmp_path / "out", tmp_path / "results", jobs=2, limit=1.5, interval=0.05)
    assert time.monotonic() - started < 20
    assert [job.state for job in jobs] == ["stopped"] * 3
    assert [(job.folder / "ended").exists() for job in jobs] == [True, True, False]
    assert [job.process is None for job in jobs] == [False, False, True]


def test_a_process_that_does_not_end_is_killed(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)")
    monkeypatch.setattr(engine, "PATIENCE", 0.3)
    started = time.monotonic()
    (job,) = run_all(make_runs(digits), tmp_path / "out", tmp_path / "results", limit=1, interval=0.05)
    assert time.monotonic() - started < 20
    assert job.state == "stopped"
    assert job.process is not None
    assert job.process.poll() == -9


def test_a_failure_is_one_line_and_others_go_on(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        """
        if folder.name.endswith("seed1"):
            import os
            os.kill(os.getpid(), signal.SIGSEGV)
        print("  trying a mirror\\nfourierscale: no source could supply it")
        print("  and a last word")
        sys.exit(2 if folder.name.endswith("seed0") else 0)
        """,
    )
    most = 0

    def watch(jobs: Sequence[Job]) -> None:
        nonlocal most
        most = max(most, sum(job.process is not None and job.process.poll() is None for job in jobs))

    jobs = run_all(make_runs(digits, seeds=range(4)), tmp_path / "out", tmp_path / "r", 2, watch=watch, interval=0.02)
    assert [job.state for job in jobs] == ["failed"] * 4
    assert jobs[0].reason == "no source could supply it"
    assert jobs[1].reason == "killed by SIGSEGV"
    assert most <= 2
    assert not (tmp_path / "r").exists()


def test_the_longest_runs_start_first(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "print(folder.name, file=(folder.parent / 'order').open('a'))")
    few, many = "data.protocol=mnist-scale-1000", "data.protocol=mnist-scale"
    runs = [
        *make_runs(digits, few, "train.epochs=2"),
        *make_runs(digits, many, "train.epochs=1"),
        *make_runs(digits, many, "train.epochs=1", "loss.real=1"),
        *make_runs(digits, few, "train.epochs=1"),
    ]
    assert [run.work for run in runs] == [2_000, 10_000, 20_000, 1_000]
    jobs = run_all(runs, tmp_path, tmp_path / "r", interval=0.02)
    order = (tmp_path / "order").read_text().split()
    assert order == [runs[number].folder for number in (2, 1, 0, 3)]
    assert [job.run for job in jobs] == runs


def test_a_run_that_found_no_memory_beside_others_waits_for_one_of_them(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(
        monkeypatch,
        f"""
        calls = folder / "calls"
        calls.write_text(calls.read_text() + "." if calls.exists() else ".")
        others = [other for other in folder.parent.iterdir() if other != folder and (other / "holds").exists()]
        if len(others) > 1:
            print("fourierscale: the GPU has too little memory")
            sys.exit({NoMemoryError.status})
        (folder / "holds").write_text("")
        time.sleep(1)
        (folder / "holds").unlink()
        sys.exit("reached" if folder.name[-1] != "3" else {NoMemoryError.status})
        """,
    )
    runs = make_runs(digits, seeds=range(4))
    jobs = run_all(runs[:3], tmp_path / "out", tmp_path / "r", jobs=3, interval=0.02)
    assert [job.reason for job in jobs] == ["reached"] * 3
    assert sorted((job.folder / "calls").read_text() for job in jobs) == [".", ".", ".."]
    (alone,) = run_all(runs[3:], tmp_path / "out", tmp_path / "r", jobs=3, interval=0.02)
    assert alone.state == "failed"  # nobody to wait for


def test_a_run_that_another_engine_trains_is_left_to_it(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "sys.exit('reached')")
    first, second = make_runs(digits, seeds=(0, 1))
    with locked(tmp_path / "out" / first.folder):
        jobs = run_all([first, second], tmp_path / "out", tmp_path / "results", interval=0.02)
    assert [job.process is None for job in jobs] == [True, False]
    assert "another process has held the lock" in jobs[0].reason
    assert jobs[1].reason == "reached"
    (again,) = run_all([first], tmp_path / "out", tmp_path / "results", interval=0.02)
    assert again.reason == "reached"


def test_a_file_that_is_no_result_is_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text('{"config": {"optim": {"lrr": 1}}, "metrics": {"accuracy": 1}, "versions": {}}')
    (tmp_path / "c.json").write_text('{"config": {}, "metrics": {}, "versions": {}}')
    found = read_results(tmp_path)
    assert found.all == ()
    assert [problem.split(":")[0] for problem in found.problems] == [str(tmp_path / f"{n}.json") for n in "abc"]
    assert read_results(tmp_path / "nowhere").all == ()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("metrics", {"accuracy": 0.5, "images": [0]}),
        ("metrics", {"accuracy": 0.5, "ece": float("nan")}),
        ("metrics", {"accuracy": 0.5, "accuracy_over_resolution": {"x": 1}}),
        ("history", {"epoch": [0], "loss": [[1]]}),
        ("history", {"epoch": [0, 1], "loss": [1]}),
        ("history", {"loss": [1]}),
        ("history", {"epoch": [0], "loss": 3}),
    ],
)
def test_a_result_that_no_page_can_show_is_named_and_left_out(part: str, value: Any, tmp_path: Path) -> None:
    good = {"config": {}, "metrics": {"accuracy": 0.5, "level_difference": None}, "versions": {}, "history": {}}
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps(good | {part: value}))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "pipe.json")
    found = read_results(tmp_path)
    assert [result.name for result in found.all] == ["good"]
    assert len(found.problems) == 3


def test_a_description_of_any_age_becomes_the_same_result() -> None:
    counts, accuracy = {"8": 60, "9": 40, "10": 100}, {"8": 1.0, "9": 0.5, "10": None}
    metrics = {"accuracy": 0.12345678, "images_per_resolution": counts, "accuracy_per_resolution": accuracy}
    config = Config().replaced(["data.data_dir=/data", "optim.lr=0.5"]).to_dict()
    history = {"epoch": [*map(float, range(60))], "loss": [1 / 3] * 60, "val_acc": [None, 0.5] * 30, "lr": [1.0] * 60}
    info = {"config": config, "metrics": metrics | {"source": "/data"}, "versions": {"torch": "9"}, "history": history}
    found = slim(info)
    assert found == slim(json.loads(to_json(found)))
    assert found["config"] == {"optim": {"lr": 0.5}}
    assert found["metrics"] == {"accuracy": 0.123457, "accuracy_over_resolution": {"8.4": 0.8}}
    assert found["history"]["epoch"][:2] + found["history"]["epoch"][-1:] == [1, 5, 59]
    assert {name: len(values) for name, values in found["history"].items()} == {"epoch": 20, "loss": 20, "val_acc": 20}
    assert "/data" not in to_json(found)


def test_every_committed_result_loads_and_is_named_after_its_row() -> None:
    results, names = read_results(Path(__file__).parents[3] / "results"), recipe_names()
    assert not results.problems
    assert len(results.all) >= 569
    for result in results.all:
        row, told = names.get(result.key), re.search(r"-([0-9a-f]{10})-seed", result.name)
        assert result.name == f"{row}-seed{result.seed}" or (row is None and result.name not in names.values())
        assert told is None or told[1] == result.key  # a recipe keeps its hash
    assert (names["10b1b028d4"], names["393ce601ea"]) == ("mnist-all/cnn", "mnist-all/ours-best")


def test_every_shipped_weight_loads() -> None:
    from importlib import resources

    weights = [path.name for path in (resources.files("fourierscale.models") / "weights").iterdir()]
    for name in {name.partition(".")[0] for name in weights if name.endswith(".safetensors")}:
        assert load_pretrained(name)
