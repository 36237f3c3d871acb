"""The tutorial's commands, one after the other, with a few images and a tiny net; what it shows is what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch
from PIL import Image

from fourierscale.cli import main

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
TINY = (
    "model.overrides.widths=[4]",
    "model.overrides.pool=1",
    "model.overrides.residual=false",
    "data.size=12",
    "data.lowest=10",
)
SHORT = {
    "data": ["--per-class", "4"],
    "train": ["--epochs", "1", "--set", "train.progress=false", *(part for s in TINY for part in ("--set", s))],
    "audit": ["--images", "4"],
}


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.S)
    lines = [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]
    return [shlex.split(line, comments=True) for line in lines]


def test_every_command_of_the_tutorial_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    text = TUTORIAL.read_text(encoding="utf-8")
    printed = ""
    try:
        for program, command, *rest in commands(text):
            if program != "fourierscale":  # how the environment is made
                assert program in ("make", "source")
                continue
            if "--resume" in rest:  # of a run that was stopped; this one was not
                continue
            assert main([command, *rest, *SHORT.get(command, [])]) == 0, rest
            printed += capsys.readouterr().out
    finally:
        torch.set_num_threads(threads)
    for name in ("model.safetensors", "model.onnx", "report.html", "metrics.json", "config.toml"):
        assert (tmp_path / "runs" / "digits" / name).is_file()
        assert name in text
    shown = re.findall(r"```text\n(.*?)```", text, flags=re.S)
    first_words = {line.split("  ")[0].strip() for block in shown for line in block.splitlines()}
    settings = {word for word in first_words if re.fullmatch(r"(data|model|optim|train)\.\w+", word)}
    assert len(settings) >= 8
    for setting in settings:
        assert re.search(rf"^{re.escape(setting)} ", printed, flags=re.M), setting
    for words in ("wrote 40 images of ten classes", "balanced accuracy", "next:", " px  ", "equivariant to"):
        assert words in printed
    with Image.open(tmp_path / "digits" / "3" / "000.png") as picture:
        assert picture.mode == "L"


def test_the_sample_folder_is_mixed_the_same_every_time_and_never_overwrites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fourierscale.data import ImageFolder, sample_folder, survey_folder

    found = survey_folder(sample_folder(tmp_path / "a", per_class=8))
    assert len(set(found.heights.tolist())) >= 3
    assert 0 < found.elongated < 80
    assert {path.suffix for path in found.folder.paths} == {".png", ".jpg"}
    again = ImageFolder(sample_folder(tmp_path / "b", per_class=8))
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(found.folder.paths, again.paths, strict=True))
    assert main(["data", "sample-folder", str(tmp_path / "a")]) == 2
    assert "is there already: name a new or an empty folder" in capsys.readouterr().err
