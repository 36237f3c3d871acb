"""The benchmark of the baselines' training steps runs, and writes what it measured."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "baselines.py"


@pytest.mark.parametrize(
    ("device", "precision", "file"),
    [
        ("cpu", "bf16", "baselines-cpu-bf16.csv"),
        pytest.param("cuda", "32", "baselines-cuda.csv", marks=pytest.mark.gpu),
    ],
)
def test_a_step_is_timed(tmp_path, device, precision, file):
    options = ["--device", device, "--precision", precision, "--models", "cnn-small", "--batch", "2", "--repeats", "1"]
    command = [sys.executable, str(SCRIPT), *options, "--out", str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with (tmp_path / file).open() as lines:
        assert next(lines).startswith("# ")
        (row,) = csv.DictReader(lines)
    assert row["model"] == "cnn-small"
    assert float(row["step_ms"]) > 0
    assert f"{float(row['step_ms']):.2f}" in printed
    if device == "cuda":
        assert 0 < float(row["graphed_ms"]) < 10 * float(row["step_ms"])
