"""Two processes see together the batches of one, and measure what one does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from fourierscale.models import load_model
from fourierscale.training import EvalConfig, evaluate, train
from fourierscale.training.callbacks import read_log
from fourierscale.training.run import RANKS
from tests.training.small_runs import small_config, small_splits

SCRIPT = """
    import json, os, sys
    sys.path.insert(0, {tests!r})
    import torch
    torch.set_num_threads(1)
    from small_runs import small_config, small_splits
    from fourierscale.models import load_model
    from fourierscale.training import evaluate, train, module

    seen = []
    step = module.ScaleModule.training_step
    def watched(self, batch, index):
        seen.append([self.current_epoch, sorted(batch.indices.tolist()), float(batch.images.double().sum())])
        return step(self, batch, index)
    module.ScaleModule.training_step = watched
    settings = ["train.accelerator=cpu", "train.strategy=ddp", "eval.batch_size=4", *sys.argv[1:]]
    metrics = train(small_config(*settings), {folder!r}, splits=small_splits(augment="warp"))
    rank = os.environ.get("LOCAL_RANK", "0")
    open({folder!r} + f"/seen-{{rank}}.json", "w").write(json.dumps([seen, metrics]))
"""


def start(folder: Path, *settings: str, **environment: str) -> subprocess.Popen[str]:
    """A training in a process of its own, which writes into a folder."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(tests=str(Path(__file__).parent), folder=str(folder))))
    alone = {key: value for key, value in os.environ.items() if key not in (*RANKS, "WORLD_SIZE")}
    environment = {**alone, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [sys.executable, str(script), *settings], env=environment, text=True, stderr=subprocess.PIPE
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    process = start(folder, "train.devices=2", "train.epochs=1")
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told[-3000:]
    return folder


def test_two_machines_without_a_common_disk_measure_the_best_weights(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    folders = [tmp_path / "first", tmp_path / "second"]
    settings = ["train.devices=1", "train.num_nodes=2", "train.keep=best", "train.epochs=4", "optim.lr=0.3"]
    machines = []
    for number, folder in enumerate(folders):
        folder.mkdir()
        machines.append(start(folder, *settings, **address, NODE_RANK=str(number)))
    told = [machine.communicate(timeout=300)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], told
    results = [json.loads((folder / "seen-0.json").read_text())[1] for folder in folders]
    assert results[0]["accuracy_per_resolution"] == results[1]["accuracy_per_resolution"]
    alone = evaluate(load_model(folders[0]), small_splits(), EvalConfig(batch_size=4, sample=12))
    assert results[0]["accuracy"] == pytest.approx(alone["accuracy"], rel=1e-5)
    assert results[1]["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert not (folders[1] / "config.toml").exists()
    assert not (folders[1] / "metrics.json").exists()


def test_two_processes_share_the_batches_of_one(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fourierscale.training import module

    seen: list[list] = []
    step = module.ScaleModule.training_step

    def watched(self, batch, index):
        seen.append([self.current_epoch, sorted(batch.indices.tolist()), float(batch.images.double().sum())])
        return step(self, batch, index)

    monkeypatch.setattr(module.ScaleModule, "training_step", watched)
    train(small_config("train.epochs=1"), tmp_path, splits=small_splits(augment="warp"))
    shares = [json.loads((pair / f"seen-{rank}.json").read_text())[0] for rank in range(2)]
    dealt = [shares[number % 2][number // 2] for number in range(2 * len(shares[0]))]
    assert len(seen) == 15
    assert dealt == [*seen, seen[0]]  # 15 batches for two: one is repeated so that both have 8


def test_two_processes_measure_what_one_does(pair: Path) -> None:
    results = [json.loads((pair / f"seen-{rank}.json").read_text())[1] for rank in range(2)]
    timed = ("seconds", "train_seconds")
    first, second = ({k: v for k, v in result.items() if k not in timed} for result in results)
    assert first == second
    alone = evaluate(load_model(pair), small_splits(), EvalConfig(batch_size=4, sample=12))
    for key, value in alone.items():
        if isinstance(value, float) and key != "seconds":
            assert first[key] == pytest.approx(value, rel=1e-5, abs=1e-9), key
    (row,) = read_log(pair / "log.csv")
    on_validation = evaluate(load_model(pair), small_splits(), EvalConfig(batch_size=4, sample=12), split="val")
    assert float(row["val_acc"]) == pytest.approx(on_validation["accuracy"], rel=1e-5)
    assert float(row["val_loss"]) == pytest.approx(on_validation["loss"], rel=1e-4)
    assert float(row["val_scale_con"]) == pytest.approx(on_validation["scale_con"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    "accelerator", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)  # a GPU for each of two processes
def test_the_loss_of_a_process_ends_the_run_with_a_sentence(how: int, accelerator: str, tmp_path: Path) -> None:
    if accelerator == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    settings = ["train.devices=2", "train.epochs=1000", "train.timeout=15", f"train.accelerator={accelerator}"]
    process = start(tmp_path, *settings)
    try:
        lost = _second(process, tmp_path)
        os.kill(lost, how)
        _, told = process.communicate(timeout=120)
    finally:
        for number in _children(process.pid):
            os.kill(number, signal.SIGKILL)
        process.kill()
    sentence = "another process of this run has ended, or has not answered for 15 s (train.timeout); continue with "
    assert sentence in told
    assert f"train --resume --out {tmp_path}" in told
    assert process.returncode != 0
    assert not Path(f"/proc/{lost}").exists() or "zombie" in Path(f"/proc/{lost}/status").read_text()


def _children(number: int) -> list[int]:
    path = Path(f"/proc/{number}/task/{number}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _second(process: subprocess.Popen[str], folder: Path) -> int:
    """The second process of a pair, once both train."""
    while not (folder / "log.csv").exists() or len(read_log(folder / "log.csv")) < 2:
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.2)
    (second,) = (child for child in _children(process.pid) if "script.py" in Path(f"/proc/{child}/cmdline").read_text())
    return second
