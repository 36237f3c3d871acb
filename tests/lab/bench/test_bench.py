"""The benchmark measures what it says: peers compute what they claim, the cost model grows, mistakes give one line."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fourierscale import functional as F
from fourierscale.cli import main
from fourierscale.cli.bench import _shown
from fourierscale.functional import transform
from fourierscale.lab.bench import SUITES, Settings, photos, transforms
from fourierscale.lab.bench.cases import PAIR, SWEEPS, Case, choose_cases, list_cases, spaced
from fourierscale.lab.bench.contestants import make_contestants
from fourierscale.lab.bench.cost import step_cost
from fourierscale.lab.bench.measure import _peak, measure_case, measure_ceilings, precision_of_products
from fourierscale.lab.bench.peers import NaiveNet, NaivePair
from fourierscale.lab.bench.picture import plot_growth
from fourierscale.lab.bench.suites import OtherProcesses, about, times, write_csv
from fourierscale.models import ScaleClassifier, create_model

CPU = torch.device("cpu")
BRIEF = Settings(CPU, quick=True, repeats=2)
TINY = Case("size-12", PAIR, 12, 2, 3, spaced(12, 3), peers=("cnn", "cnn-no-norm", "naive-fft", "fno", "sesn", "disco"))
CEILINGS = measure_ceilings(CPU, "highest", side=64)


@pytest.mark.parametrize("grid", ["level", "common"])
def test_the_naive_pair_computes_what_ours_does(grid: str) -> None:
    case = replace(TINY, size=13, grid=grid, resolutions=(5, 8, 11, 13), peers=("naive-fft",))
    ours, naive = (contestant.model.double() for contestant in make_contestants(case, CPU))
    assert isinstance(naive, NaivePair)
    for own, other in zip(ours.parameters(), naive.parameters(), strict=True):
        own.data += torch.randn_like(own) / 3
        other.data.copy_(own.data)
    x = torch.randn(2, 3, 13, 13, dtype=torch.float64)
    expected = F.synthesize(ours(F.analyze(x)), 13)
    spectrum = naive(torch.fft.rfft2(x, norm="forward"))
    torch.testing.assert_close(torch.fft.irfft2(spectrum, s=(13, 13), norm="forward"), expected)


@pytest.mark.parametrize("grid", ["level", "common"])
def test_the_naive_network_has_our_logits_and_gradients(grid: str) -> None:
    options = {"widths": (3, 4), "hidden": 8, "dropout": 0.0, "grid": grid, "norm": "instance"}
    model = create_model("scalenet-mnist", **options).double()
    assert isinstance(model, ScaleClassifier)
    x = torch.randn(2, 1, 14, 14, dtype=torch.float64)
    parameters = [p for p in model.parameters() if p.requires_grad]
    logits, naive = model(x), NaiveNet(model)(x)
    torch.testing.assert_close(naive, logits)
    weights = torch.randn_like(logits)
    for one, other in zip(
        *(torch.autograd.grad((y * weights).sum(), parameters) for y in (logits, naive)), strict=True
    ):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize("train", [True, False])
def test_every_peer_of_a_pair_is_measured(train: bool) -> None:
    rows = measure_case(replace(TINY, train=train), BRIEF, CEILINGS)
    assert [row["contestant"] for row in rows] == ["ours", *TINY.peers]
    for row in rows:
        assert 0 < row["quartile1_ms"] <= row["median_ms"] <= row["quartile3_ms"]
        assert row["error"] < 1e-5
        assert row["peak_mib"] is not None
        assert row["peak_mib"] > 0
    assert rows[0]["ours_ratio"] == 1
    assert rows[0]["times_floor"] == pytest.approx(rows[0]["median_ms"] / rows[0]["floor_ms"])
    assert rows[1]["floor_ms"] is None


@pytest.mark.parametrize("train", [True, False])
def test_a_network_is_measured_beside_its_cnn(train: bool) -> None:
    case = Case("tiny", "scalenet-tiny", 12, 2, 1, (8, 12), train, peers=("specification", "gemm", "cnn"))
    rows = measure_case(case, BRIEF)
    assert [row["contestant"] for row in rows] == ["ours", "specification", "gemm", "cnn"]
    assert rows[0]["floor_ms"] is None
    assert rows[0]["mode"] == ("train" if train else "inference")


def test_contestants_of_every_case_can_be_built() -> None:
    for device in ("cpu", "cuda"):
        cases = list_cases(device)
        assert len({case.name for case in cases}) == len(cases)
        assert {case.group for case in cases} == {"mnist", "stl10", *SWEEPS}
        for case in cases:
            assert max(case.resolutions) == case.size
            if case.model == PAIR:
                small = replace(case, batch=1, channels=2, size=12, resolutions=spaced(12, 3))
                assert len(make_contestants(small, CPU)) == 1 + len(case.peers)


def test_the_cnn_has_the_widths_and_taps_of_ours() -> None:
    for name in ("mnist-train-16", "stl10-train-4"):
        (case,) = choose_cases([name], "cpu")
        ours, cnn = make_contestants(replace(case, batch=1, peers=("cnn",)), CPU)
        shapes = [[tuple(p.shape) for p in c.model.parameters() if p.ndim == 4] for c in (ours, cnn)]
        assert sorted(shapes[0]) == sorted(shapes[1])


def test_the_cost_model_grows_with_each_number() -> None:
    for group in SWEEPS:
        works = [step_cost(case) for case in choose_cases([group], "cpu")]
        assert works[0].flops > 0
        assert works[0].bytes > 0
        for smaller, larger in itertools.pairwise(works):
            assert smaller.flops < larger.flops
            assert smaller.bytes <= larger.bytes
    train, inference = (step_cost(case) for case in choose_cases(["stl10"], "cpu"))
    assert 2 * inference.flops < train.flops < 5 * inference.flops


def test_the_cost_model_counts_a_pair_by_hand() -> None:
    # One level, one tap, inference: mixing 8 b c^2 n (K + 1), then n^2 samples by two products and two back.
    case = Case("one", PAIR, 5, 3, 2, (5,), train=False, taps=1)
    mixing, transforms = 8 * 3 * 4 * 5 * 3, 3 * 2 * 4 * 2 * 5**3
    assert step_cost(case).flops == mixing + transforms
    moved = 3 * 2 * 25
    spectrum, norm = 2 * 5 * 3 * 4, 2 * 2
    assert step_cost(case).bytes == 4 * (4 * moved + spectrum + norm)


def test_peak_memory_is_that_of_the_step() -> None:
    (ours,) = make_contestants(replace(TINY, peers=()), CPU)
    kept = []

    def step() -> None:
        torch.empty(3 * 2**20, dtype=torch.uint8)
        kept.append(torch.empty(2**20, dtype=torch.uint8))
        torch.empty(2**21, dtype=torch.uint8)

    assert 3 * 2**20 <= _peak(ours, step) < 3.1 * 2**20


def test_peak_memory_does_not_count_what_layers_keep() -> None:
    (ours,) = make_contestants(replace(TINY, peers=(), train=False), CPU)
    step = torch.no_grad()(lambda: ours.model(ours.x))
    warm = _peak(ours, step)
    ours.model.eval()  # forgets the spectra, as measuring the error does
    assert _peak(ours, step) == warm


def test_precision_is_set_and_restored() -> None:
    before = torch.get_float32_matmul_precision()
    with precision_of_products("bfloat16"):
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cudnn.allow_tf32
    with precision_of_products("highest"):
        assert not torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == before


def test_the_file_has_every_column_and_the_picture_is_drawn(tmp_path: Path) -> None:
    rows = []
    for n in (8, 12):
        case = replace(TINY, name=f"size-{n}", size=n, resolutions=spaced(n, 2), peers=("cnn",))
        rows += measure_case(case, BRIEF, CEILINGS)
    where = about(CPU)
    write_csv(tmp_path / "deep" / "bench.csv", rows, where)
    with (tmp_path / "deep" / "bench.csv").open() as file:
        read = list(csv.DictReader(file))
    assert list(read[0]) == [*rows[0], "device", "torch", "triton", "python", "commit"]
    assert [line["contestant"] for line in read] == ["ours", "cnn", "ours", "cnn"]
    assert float(read[0]["median_ms"]) == pytest.approx(rows[0]["median_ms"], rel=1e-3)
    assert read[0]["torch"] == torch.__version__
    assert read[1]["floor_ms"] == ""
    assert not plot_growth(tmp_path / "none.png", rows[:2], "one case is no growth")
    assert plot_growth(tmp_path / "growth.png", rows, "growth")
    assert (tmp_path / "growth.png").read_bytes()[1:4] == b"PNG"


def test_the_processor_is_named() -> None:
    name = about(CPU)["device"]
    assert name.endswith(("thread", "threads"))
    known = Path("/proc/cpuinfo")
    if known.exists() and "model name" in known.read_text():
        assert name.rsplit(",", 1)[0] in known.read_text()


def test_times_are_taken_in_turns() -> None:
    done: list[int] = []
    taken = times([lambda: done.append(0), lambda: time.sleep(3e-3)], CPU, seconds=0.0, least=3)
    assert [len(own) for own in taken] == [3, 3]
    assert max(taken[0]) < 3e-3 <= min(taken[1])
    assert len(done) > 3 * 5  # what is short is repeated within a turn


@pytest.mark.parametrize(
    ("suite", "names", "files"),
    [
        ("baselines", ["cnn-small"], {"baselines-cpu-bf16": 1}),
        ("boundary", ["cost"], {"boundary-cost": 4}),
        ("limits", ["shift"], {"limits-shift": 3}),
    ],
)
def test_a_suite_gives_its_lines(suite: str, names: list[str], files: dict[str, int]) -> None:
    records = list(SUITES[suite](names, replace(BRIEF, precision="bfloat16", batch=2, repeats=1)))
    assert Counter(stem for stem, _ in records) == files
    for _, row in records:
        assert all(value >= 0 for value in row.values() if isinstance(value, float))


def test_photographs_are_measured_at_their_edges(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 96, 3), dtype=np.uint8)).save(tmp_path / name)
    records = list(SUITES["boundary"](["proportion", "leakage"], replace(BRIEF, images=tmp_path)))
    mirror = [
        row["coefficients"] for stem, row in records if stem.endswith("proportion") and row["boundary"] == "mirror"
    ]
    assert max(mirror) < 1e-11  # exact; a canvas is not
    assert len(records) == 8 + 10


def test_nets_for_photographs_are_timed_beside_plain_ones_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "SIZES", (24,))
    settings = replace(BRIEF, quick=True, batch=2, repeats=1)
    (_, rates), *rows = SUITES["photos"](["scalenet-stl10"], settings)
    assert min(rates["product_gflops"], rates["convolution_gflops"]) > 0
    assert [(row["mode"], row["size"], row["levels"]) for _, row in rows] == [("infer", 24, 7), ("train", 24, 7)]
    for _, row in rows:
        assert row["ratio"] == pytest.approx(row["ours_ms"] / row["plain_ms"])


@pytest.mark.gpu
def test_a_baseline_is_timed_as_a_graph() -> None:
    settings = Settings(torch.device("cuda"), batch=2, repeats=1)
    ((_, row),) = SUITES["baselines"](["cnn-small"], settings)
    assert 0 < row["graphed_ms"] < 10 * row["step_ms"]


def test_both_routes_of_a_transform_agree_and_the_limits_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(transform.FFT_FROM)
    monkeypatch.setattr(transforms, "SIZES", (12,))
    for stem, row in SUITES["transforms"]([], BRIEF):
        assert stem in ("transforms-cpu", "nested-cpu")
        assert row["difference"] < 1e-5
    assert before == transform.FFT_FROM


def test_the_work_of_other_processes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # busy, passed and own seconds: of 20 that passed, 12 were busy and 7 ours
    seconds = iter([(100.0, 200.0, 10.0), (112.0, 220.0, 17.0)])
    monkeypatch.setattr(OtherProcesses, "_seconds", staticmethod(lambda: next(seconds)))
    assert OtherProcesses().share() == pytest.approx(5 / 20)
    monkeypatch.setattr(OtherProcesses, "_seconds", staticmethod(lambda: None))
    assert OtherProcesses().share() is None


def test_quick_runs_leave_out_what_is_slow() -> None:
    quick = choose_cases([], "cpu", quick=True)
    assert 0 < len(quick) < len(choose_cases([], "cpu"))
    assert {peer for case in quick for peer in case.peers} == {"cnn", "cnn-no-norm", "naive-fft"}
    assert [case.name for case in choose_cases(["size-384"], "cpu", quick=True)] == ["size-384"]  # asked for by name


def test_the_command_runs_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "baselines", "cnn-small", "--device", "cpu", "--batch", "2", "--repeats", "1"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    with (tmp_path / "baselines-cpu.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["model"] == "cnn-small"
    assert row["device"] == about(CPU)["device"]
    assert _shown(float(row["step_ms"])) in capsys.readouterr().out


def test_the_command_measures_a_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert main(["bench", "batch-1", "--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "naive-fft" in shown
    assert "matplotlib is missing" in shown
    assert (tmp_path / "bench-cpu.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["mnist-trian-16"], "unknown case 'mnist-trian-16': did you mean 'mnist-train-16'?"),
        (["qqq"], "choose one of"),
        (["--device", "tpu"], "neither cpu nor cuda"),
        (["--precision", "low"], "neither highest, high nor bfloat16"),
        (["baselines", "cnn-smal"], "unknown case 'cnn-smal': did you mean 'cnn-small'?"),
        (["limits", "shifts"], "did you mean 'shift'?"),
        (["--out", __file__], "is a file"),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--device", "cpu", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert text in lines[0]
