"""The demo end to end on a small set: its table, its page, and one line for a mistake."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fourierscale.cli import main
from fourierscale.cli.demo import results_table
from fourierscale.lab.demo import Demo, DemoSettings, result_lines, run_demo, stages, write_report
from fourierscale.models import create_model, load_model
from fourierscale.pages.elements import spread
from fourierscale.training import StoppedError
from tests.training.small_runs import write_digits


class Heard:
    """Remembers what a listener is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.news: list[str] = []
        self.shares: list[float] = []
        self.ended = 0

    def stage(self, title: str) -> None:
        self.stages.append(title)
        self.begun = time.perf_counter()

    def done(self, seconds: float) -> None:
        assert 0 < seconds <= time.perf_counter() - self.begun
        self.ended += 1

    def report(self, text: str, fraction: float | None) -> None:
        if fraction is None:
            self.news.append(text)
        else:
            self.shares.append(fraction)


def untrained() -> nn.Module:
    torch.manual_seed(0)
    return create_model("scalenet-tiny", widths=(4, 4), hidden=8).eval()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Demo, Path, Heard]:
    folder = tmp_path_factory.mktemp("demo")
    write_digits(folder / "digits")
    settings = DemoSettings(
        limit=40,
        data_dir=folder / "digits",
        offline=True,
        sample=6,
        cnn_epochs=1,
        tiny_epochs=1,
        tiny_settings=("model.overrides.widths=[4, 4]", "model.overrides.hidden=8"),
    )
    heard, threads = Heard(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        demo = run_demo(folder / "out", settings, heard, untrained)
        write_report(demo, folder / "out" / "report.html", heard)
    finally:
        torch.set_num_threads(threads)
    return demo, folder / "out", heard


def test_every_net_is_measured_on_the_same_images(made: tuple[Demo, Path, Heard]) -> None:
    demo, out, heard = made
    assert [entry.key for entry in demo.entries] == ["ours", "tiny", "cnn"]
    assert {entry.metrics["images"] for entry in demo.entries} == {40}
    ours, tiny, cnn = (entry.metrics for entry in demo.entries)
    assert max(ours["equi_err"], tiny["equi_err"]) < 1e-10 < 1e-2 < cnn["equi_err"]
    assert sum(p.numel() for p in load_model(out / "scalenet-tiny").parameters()) == demo.entries[1].parameters
    assert len(heard.stages) == heard.ended == 5
    assert any("source" in text for text in heard.news)
    assert any("epoch 1 of 1" in text for text in heard.news)
    assert max(heard.shares) == 1


def test_the_table_has_the_measured_rows_and_the_papers(made: tuple[Demo, Path, Heard]) -> None:
    rows = result_lines(made[0])
    assert [row.key for row in rows] == ["ours", "tiny", "cnn", "paper", "paper"]
    assert rows[0].accuracy.startswith(f"{made[0].entries[0].metrics['accuracy']:.4f} ± ")
    assert (rows[3].accuracy, rows[3].scale_con) == ("0.9889", "0.9716")
    assert results_table(made[0]).row_count == 5


def test_the_page_needs_nothing_from_outside(made: tuple[Demo, Path, Heard]) -> None:
    page = (made[1] / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:)|url\(|@import|https?://", page)
    assert page.count("data:image/png;base64,") == 3 * 5 + 6
    assert page.count("<svg") == 2 + 6  # one epoch is a table
    for row in result_lines(made[0]):
        assert f"<td>{spread(row.accuracy)}</td><td>{spread(row.scale_con)}</td>" in page
    assert "$" not in page


def test_a_mistake_gives_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    for arguments, text in (
        (["--out", str(tmp_path / "taken")], "is a file"),
        (["--limit", "-1"], "limit"),
        (["--out", str(tmp_path / "o"), "--data-dir", str(tmp_path / "none"), "--offline"], "none"),
    ):
        assert main(["demo", *arguments]) == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fourierscale: ")]
        assert len(lines) == 1
        assert text in lines[0]


def test_stopping_the_training_gives_no_advice_about_a_folder_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoppedError("stopped in epoch 1 of 3; continue with fourierscale train --resume --out /gone")

    monkeypatch.setattr(stages, "train", stopped)
    demo: Any = SimpleNamespace(settings=DemoSettings(), splits=None)
    with pytest.raises(KeyboardInterrupt):
        stages._train("tiny", [], demo, Heard())


def test_all_images_are_looked_at_in_every_resolution(made: tuple[Demo, Path, Heard]) -> None:
    demo, _, _ = made
    pixels, items = demo.splits.test.largest(40)
    labels = demo.splits.test.labels[items]
    for entry in demo.entries:
        assert list(entry.at_sizes) == [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28]
        prepare = entry.model.preprocessing or demo.splits.preprocessing
        for size in (8, 14, 28):
            small = pixels if size == 28 else prepare.downscale(pixels, size)
            with torch.no_grad():
                logits = entry.model(prepare(small))
            logits = logits[:, -1] if logits.ndim == 3 else logits
            accuracy, loss = entry.at_sizes[size]
            assert accuracy == pytest.approx(float((logits.argmax(-1) == labels).float().mean()), abs=1e-6)
            assert loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-3)
