"""Adding a baseline takes one file in ``lab/baselines`` and one row in ``lab/tables/rows.py``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fourierscale

BASELINE = '''"""Small convolutions."""

from typing import Any

from torch import nn

from fourierscale.lab.baselines.parts.frames import MnistFrame, register_in_frame


def build_mine(taps: int = 3, **frame: Any) -> MnistFrame:
    """The frame for digits with small convolutions."""
    return MnistFrame(lambda inputs, outputs, stage: nn.Conv2d(inputs, outputs, taps, padding=taps // 2), **frame)


register_in_frame("mine-mnist", build_mine, "three small convolutions", "nobody")
'''
ROW = 'Baseline("mine", "My net"),'
USE = """
import torch
from fourierscale import create_model, list_models, models
from fourierscale.cli import main
from fourierscale.lab.tables.runs import plan
from fourierscale.lab.tables.tables import find_table
from fourierscale.models import model_info

assert "mine-mnist" in list_models()
small = create_model("mine-mnist", taps=5, **model_info("mine-mnist").small)
x, y = torch.rand(8, 1, 28, 28), torch.arange(8)
optimizer = torch.optim.Adam(small.parameters(), 0.01)
losses = []
for _ in range(8):
    loss = torch.nn.functional.cross_entropy(small(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
table = find_table("mnist-all")
planned = plan([(table, [row for row in table.rows if row.key.startswith("mine")])])
assert not planned.refused
assert {run.config.model.name for run in planned.runs} == {"mine-mnist"}
assert len(planned.runs) == 2 * len(table.seeds)
models.list_models = lambda: ["cnn-mnist", "mine-mnist"]  # to count all of them takes a while
assert main(["models"]) == 0
assert main(["reproduce", "list", "mnist-all"]) == 0
"""


def test_a_baseline_is_one_file_and_one_row(tmp_path: Path):
    copied = tmp_path / "fourierscale"
    shutil.copytree(Path(fourierscale.__file__).parent, copied, copy_function=os.symlink)
    (copied / "lab" / "baselines" / "mine.py").write_text(BASELINE)
    rows = copied / "lab" / "tables" / "rows.py"
    text = rows.read_text()
    rows.unlink()
    rows.write_text(text.replace("DIGITS = (\n", f"DIGITS = (\n    {ROW}\n"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    listed = [line.split() for line in done.stdout.splitlines()]
    counted = next(cells for cells in listed if cells[:1] == ["mine-mnist"])
    weights = 9 * (32 + 32 * 63 + 63 * 95)
    assert counted[1] == f"{weights + 3 * (32 + 63 + 95) + 380 * 256 + 2 * 256 + 2570:,}"
    assert {"mine", "mine-augmented"} <= {cells[0] for cells in listed if cells}
