"""What breaks around a command is said in one line; with ``--debug`` also where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fourierscale.cli import main

FACTORY = """
def failing():
    raise KeyError("no such weights")
"""


@pytest.mark.parametrize("debug", [False, True])
def test_a_function_that_fails_is_said_with_its_cause(debug, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made_badly.py").write_text(FACTORY)
    assert main(["--debug"] * debug + ["audit", "made_badly:failing"]) == 2
    *shown, last = capsys.readouterr().err.splitlines()
    assert "made_badly:failing: expected a function that builds a model without arguments, it fails (KeyError" in last
    assert any("made_badly.py" in line for line in shown) == debug


@pytest.mark.parametrize("content", ["1 / 0", "def build(:"])
def test_a_module_that_fails_is_said_with_its_cause(content, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "made_worse", raising=False)
    (tmp_path / "made_worse.py").write_text(content)
    assert main(["audit", "made_worse:build"]) == 2
    error = capsys.readouterr().err
    assert "cannot import made_worse from here (" in error
    assert error.count("\n") == 1


def test_a_torchvision_of_another_build_stops_only_what_needs_metrics(tmp_path):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")')
    code = """
from fourierscale.cli import main
from PIL import Image
Image.linear_gradient("L").resize((28, 28)).save("a.png")
audit = ["audit", "scalenet-tiny", "--data", "random", "--images", "1", "--resolutions", "12", "--kinds", "ideal"]
print([main(["predict", "scalenet-mnist", "a.png"]), main(audit), main(["train", "--config", "tiny", "--out", "run"])])
"""
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2] / "src")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.splitlines()[-1] == "[0, 0, 2]", done.stderr
    (error,) = done.stderr.splitlines()
    assert error == (
        "fourierscale: torchvision cannot be imported (operator torchvision::nms does not exist): install the release "
        "that suits those beside it, or remove it"
    )
