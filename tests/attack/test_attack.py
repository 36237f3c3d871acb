"""A small share of each part, and what each must reject."""

from __future__ import annotations

import csv
import itertools
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fourierscale.functional import Levels
from fourierscale.kernels.nested.task import make_plan
from fourierscale.models import classifier
from tests.attack import PARTS
from tests.attack.__main__ import main
from tests.attack.commands import Told
from tests.attack.corpus import Reading
from tests.attack.disk import Disk
from tests.attack.files import FORMATS, Files, judge
from tests.attack.frame import BrokenError, Case, Outcome, Part, run_part
from tests.attack.kills import Kills, check_whole
from tests.attack.layers import Layers
from tests.attack.models import Models
from tests.attack.pairs import Pairs
from tests.attack.server import Server
from tests.attack.threads import Threads


def attack(part: type[Part], cases: int, folder: Path, seed: int = 0) -> Outcome:
    return run_part(part, cases, seed, time.monotonic() + 300, folder)


@pytest.mark.parametrize(("part", "cases"), [(Layers, 60), (Models, 30), (Pairs, 40), (Threads, 6), (Server, 25)])
def test_a_share_of_the_attack_finds_nothing(part: type[Part], cases: int, tmp_path: Path) -> None:
    outcome = attack(part, cases, tmp_path)
    assert not outcome.failures, outcome.smallest()
    assert outcome.done == cases


def test_a_share_of_the_damaged_files_is_told_in_one_line(tmp_path: Path) -> None:
    class Few(Files):
        formats = tuple(name for name in FORMATS if name not in ("ONNX", "torch.export"))  # which take long to write

    outcome = attack(Few, 30, tmp_path)
    assert not outcome.failures, outcome.smallest()
    assert outcome.done == 30


@pytest.mark.slow
@pytest.mark.parametrize(("part", "cases"), [(Kills, 8), (Disk, 8), (Files, 300), (Layers, 2000), (Models, 500)])
def test_a_larger_share_finds_nothing(part: type[Part], cases: int, tmp_path: Path) -> None:
    outcome = attack(part, cases, tmp_path, seed=1)
    if outcome.left_out:
        pytest.skip(outcome.left_out)
    assert not outcome.failures, outcome.smallest()


def test_a_case_is_drawn_from_its_numbers_alone(tmp_path: Path) -> None:
    def draw(seed: int, number: int) -> tuple[list[int], torch.Tensor]:
        case = Case("layers", seed, number, tmp_path)
        return [case.whole("n", 0, 10**9) for _ in range(3)], torch.rand(2)

    random.seed(5)
    first, same, other = draw(1, 2), draw(1, 2), draw(1, 3)
    assert first[0] == same[0] != other[0]
    assert torch.equal(first[1], same[1])
    assert not torch.equal(first[1], other[1])


def test_a_layer_that_is_not_exact_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Levels, "of_input", lambda self, box: (box,))  # ordinary activations
    make_plan.cache_clear()
    try:
        outcome = attack(Layers, 60, tmp_path)
    finally:
        make_plan.cache_clear()
    assert len(outcome.failures) > 15
    failure, _ = outcome.smallest()[0]
    assert "relative squared error" in failure.message
    assert "levels=" in failure.arguments
    assert failure.again == f"python -m tests.attack layers --seed 0 --case {failure.number}"


def test_a_head_that_sums_over_levels_outside_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_their_order(axes: int, *bands: Any) -> torch.Tensor:
        *numbers, dtype, device = bands
        return torch.ones(len(numbers) // axes, len(numbers) // axes, dtype=dtype, device=device).tril()

    monkeypatch.setattr(classifier, "_levels_inside", in_their_order)
    outcome = attack(Models, 150, tmp_path)
    assert outcome.failures
    assert all("logits at" in failure.message and "independent" in failure.arguments for failure in outcome.failures)


def test_a_backend_that_all_threads_share_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = itertools.cycle(["torch", "gemm"])
    monkeypatch.setattr("tests.attack.threads.get_backend", lambda: next(names))
    assert attack(Threads, 4, tmp_path).failures


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (Told(2, "", "fourierscale: one line\n", 0.1, False, (), ()), None),
        (Told(0, "7 0.93", "", 0.1, False, (), ("run/report.html",)), None),
        (Told(2, "", "fourierscale: a\nfourierscale: b\n", 0.1, False, (), ()), "2 sentences in 2 lines"),
        (Told(2, "", "a warning\n", 0.1, False, (), ()), "0 sentences in 1 lines"),
        (
            Told(1, "", 'Traceback\n  File "a/b.py", line 3\nKeyError: x\n', 0.1, False, (), ()),
            r"KeyError: x \(b.py:3\)",
        ),
        (Told(-11, "", "", 0.1, False, (), ()), "status -11"),
        (Told(-9, "", "", 40.0, True, (), ()), "hangs for more than 40 s"),
        (Told(0, "", "", 0.1, False, ("os.system ('ls',)",), ()), "not asked for: os.system"),
        (Told(0, "", "", 0.1, False, (), ("code-was-run",)), "writes what it was not asked for"),
        (Told(0, "1 nan", "", 0.1, False, (), ()), "numbers that are none"),
    ],
)
def test_what_a_call_must_not_do_is_refused(told: Told, message: str | None) -> None:
    if message is None:
        judge(told, Reading([], ("run",)))
        return
    with pytest.raises(BrokenError, match=message):
        judge(told, Reading([], ("run",)))


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.toml", "x = "), ("a.json", "{"), ("a.html", "<p>"), ("log.csv", "epoch,loss\n0\n"), ("a.partial.json", "{}")],
)
def test_half_a_file_is_found(name: str, content: str, tmp_path: Path) -> None:
    check_whole(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(BrokenError, match=r"is not whole|is left behind"):
        check_whole(tmp_path)


def test_the_command_tells_what_it_did_and_writes_the_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "attack.csv"
    threads = torch.get_num_threads()
    try:
        status = main(["layers", "models", "--layers", "5", "--models", "3", "--result", str(counts)])
        assert main(["layers", "--case", "4"]) == 0
    finally:
        torch.set_num_threads(threads)
    assert status == 0
    with counts.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["part"], line["cases"], line["failed"]) for line in lines] == [
        ("layers", "5", "0"),
        ("models", "3", "0"),
    ]
    assert sum(map(int, re.findall(r"\d+(?=,|$)", lines[0]["kinds"]))) == 5
    told = capsys.readouterr().out
    assert "layers            5        5       0" in told
    assert "layers, case 4: axes=" in told
    with pytest.raises(SystemExit):
        main(["nothing"])


def test_every_part_is_in_the_readme() -> None:
    readme = (Path(__file__).parent / "README.md").read_text()
    for part in PARTS.values():
        assert f"| `{part.name}` |" in readme
        assert part.cases > 0
