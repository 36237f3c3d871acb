"""The same small run in other ways: in bfloat16, compiled, on a GPU. It learns, and what it learned is exact."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from fourierscale.training import train
from fourierscale.training.callbacks import read_log
from tests.training.small_runs import small_config, small_splits

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
NETS = {
    "plain": [],
    "residual": ["model.overrides.residual=true", "model.overrides.stem=4"],
    "mirror": ["model.overrides.boundary=mirror"],
    "common grid": ["model.overrides.grid=common", "model.overrides.oversample=1.5", "model.overrides.head=average"],
}


def losses(folder: Path) -> list[float]:
    return [float(row["loss"]) for row in read_log(folder / "log.csv")]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "net", [name if name == "plain" else pytest.param(name, marks=pytest.mark.slow) for name in NETS]
)
def test_a_run_in_bfloat16_learns_what_one_in_float32_does(net: str, device: str, tmp_path: Path) -> None:
    settings = ["train.epochs=6", f"train.accelerator={'gpu' if device == 'cuda' else 'cpu'}", *NETS[net]]
    found = {}
    for precision in ("32", "bf16"):
        config = small_config(*settings, f"train.precision={precision}")
        boundary = "mirror" if net == "mirror" else "circular"
        found[precision] = train(config, tmp_path / precision, splits=small_splits(boundary=boundary))
        assert found[precision]["equi_err"] < 1e-11  # measured in float32
        assert found[precision]["level_difference"] < 1e-4
    exact, rounded = losses(tmp_path / "32"), losses(tmp_path / "bf16")
    assert rounded[-1] < 0.9 * rounded[0]
    assert rounded[0] == pytest.approx(exact[0], rel=0.05)  # later they go their own ways
    assert rounded != exact
    assert found["bf16"]["accuracy"] > found["32"]["accuracy"] - 0.15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own parts warn of their own deprecations
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["32", "bf16"])
@pytest.mark.parametrize("net", ["plain"])
def test_a_compiled_run_learns_what_an_uncompiled_one_does(
    net: str, precision: str, device: str, tmp_path: Path
) -> None:
    found = {}
    for name in ("true", "false"):
        config = small_config(
            "train.epochs=2",
            f"train.compile={name}",
            f"train.precision={precision}",
            "model.overrides.dropout=0",  # which compiled code draws in its own way
            f"train.accelerator={'gpu' if device == 'cuda' else 'cpu'}",
            *NETS[net],
        )
        found[name] = train(config, tmp_path / name, splits=small_splits())
        torch.compiler.reset()
    compiled, plain = losses(tmp_path / "true"), losses(tmp_path / "false")
    assert compiled == pytest.approx(plain, rel=1e-3 if precision == "32" else 0.05)
    assert found["true"]["equi_err"] < 1e-11
    assert found["true"]["images"] == found["false"]["images"]
