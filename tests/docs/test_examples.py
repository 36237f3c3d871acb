"""Each example runs and shows what its docstring promises."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples"
EXACT, FAR = 1e-11, 5e-3


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def printed(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    return capsys.readouterr().out


def rows(text: str) -> dict[str, list[str]]:
    """The cells of a printed table, by the first of each row."""
    cells = [[cell.strip() for cell in line.strip("│ ").split("│")] for line in text.splitlines() if "│" in line]
    return {first: rest for first, *rest in cells}


def errors(cells: list[str]) -> list[float]:
    return [float(cell) for cell in cells if re.fullmatch(r"\de[+-]\d+", cell)]


def test_signal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(printed("signal_1d.py", capsys, monkeypatch))
    assert next(iter(table)) == "100"
    assert len(table) == 10
    for length, cells in table.items():
        ours, plain = errors(cells)
        assert ours < EXACT
        assert plain > 0.1 or length == "800"


def test_volume(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(printed("volume_3d.py", capsys, monkeypatch))
    assert [cells[0] for cells in table.values()] == ["yes"] * 4 + ["no"]
    for known, error, _ in table.values():
        assert float(error) < EXACT if known == "yes" else float(error) > FAR


def test_price_of_maps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = rows(printed("price_of_maps.py", capsys, monkeypatch, "--out", str(tmp_path / "price.png")))
    overlaps = {int(side): float(cells[-1]) for side, cells in table.items() if side.isdigit()}
    assert overlaps[96] == 1
    assert all(overlaps[side] < 0.5 for side in (8, 16, 32, 48))
    assert (tmp_path / "price.png").is_file()


def test_custom_network(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(printed("custom_network.py", capsys, monkeypatch))
    wrong = errors(table.pop("U-Net that upsamples"))
    assert min(wrong) > FAR
    assert len(table) == 3
    for cells in table.values():
        assert len(errors(cells)) == 5
        assert max(errors(cells)) < EXACT


def test_existing_cnn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(printed("existing_cnn.py", capsys, monkeypatch))
    exact = {name for name, cells in table.items() if max(errors(cells)) < EXACT}
    assert exact == {
        "in front: the new layers",
        "behind: as a function of the stem's features",
        "layers exchanged",
        "level by level",
    }
    assert all(min(errors(cells)) > 0.05 for name, cells in table.items() if name not in exact)
    for name in ("layers exchanged", "level by level"):
        assert 0.01 < float(table[name][4]) < 0.5  # of the CNN's output: near it, not the same


@pytest.mark.slow
def test_monai_unets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("monai", exc_type=ImportError)
    lines = printed("monai_unets.py", capsys, monkeypatch).splitlines()
    cells = [[cell.strip() for cell in line.strip("│ ").split("│")] for line in lines if "│" in line]
    assert [row[:2] for row in cells] == [
        [what, net] for what in ("image", "volume") for net in ["alone"] * 2 + ["exact"] * 2
    ]
    for _, net, _, error, share, _ in cells:
        assert float(error) < EXACT if net == "exact" else float(error) > 0.05
        assert share == "100.00 %" if net == "exact" else float(share.rstrip(" %")) < 95


@pytest.mark.slow
def test_transformers_resnet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", exc_type=ImportError)
    table = rows(printed("transformers_resnet.py", capsys, monkeypatch))
    assert list(table) == ["logits of level 64", "stage1, 32 x 38", "stage2, 16 x 19", "stage3, 8 x 10"]
    for alone, exact in table.values():
        assert float(alone) > 0.05
        assert float(exact) < EXACT


def test_equivariance(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr("fourierscale.data.sources._fetchers", lambda dataset, tell: [])  # the embedded digits
    picture = tmp_path / "maps.png"
    text = printed("equivariance.py", capsys, monkeypatch, "--out", str(picture), "--digits", "16")
    table = rows(text)
    assert max(errors(table["fourierscale, layer 4"])) < EXACT
    assert min(errors(table["plain CNN, layer 4"])) > 0.05
    assert picture.stat().st_size > 10_000


def test_boundaries(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    picture = tmp_path / "boundary.png"
    table = rows(printed("boundaries.py", capsys, monkeypatch, "--out", str(picture)))
    shares = {boundary: float(cells[0]) for boundary, cells in table.items()}
    assert shares["circular"] > 100 * max(shares["mirror"], shares["canvas"])
    assert picture.stat().st_size > 10_000


def test_two_processes() -> None:
    alone = {key: value for key, value in os.environ.items() if key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(FOLDER / "two_processes.py")],
            env=alone | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        # on a machine that stood still for a moment, torch's gloo has been seen to abort when a process ends
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    table = rows(done.stdout)
    assert [cells[0] for cells in table.values()] == ["128"] * 3  # half of 16 batches: one of the 15 is repeated
    losses = [float(cells[1]) for cells in table.values()]
    assert losses[2] < losses[0] / 2
    assert max(error for cells in table.values() for error in errors(cells)) < EXACT
    assert "the same weights in every process: True" in done.stdout


def test_each_example_is_in_the_list_and_says_how_to_run_it() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in FOLDER.glob("*.py"):
        assert f"({path.name})" in listed
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert f"python examples/{path.name}" in docstring
        assert f"test_{path.stem.removesuffix('_1d').removesuffix('_3d')}" in globals()
