"""The report: every figure is a result's or the paper's, and the page works in a browser with nothing from outside."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from fourierscale.cli import main
from fourierscale.lab.tables.figures import Figures, make_figures
from fourierscale.lab.tables.report import build_page
from fourierscale.lab.tables.results import read_results
from fourierscale.lab.tables.runs import plan
from fourierscale.lab.tables.structure import Structure, dependence, structures
from fourierscale.lab.tables.summary import Cell, row_cells
from fourierscale.lab.tables.tables import TABLES, find_rows
from fourierscale.models import create_model
from tests.training.small_runs import small_splits

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TABLE = TABLES["mnist-consistency"]


def write_result(folder: Path, run: Any, accuracy: float, **more: Any) -> None:
    """As a finished run leaves it."""
    levels = {"8": accuracy, "20": accuracy, "28": None}
    metrics = {
        "accuracy": accuracy,
        "scale_con": accuracy - 0.1,
        "equi_err": 3e-13,
        "equi_err_pairs": 20,
        "images": 100,
        "accuracy_standard_error": 0.05 * (1 - accuracy),
        "precision": "bf16" if accuracy < 0.5 else "32",
        "epochs": 2,
        "device": "abacus",
        "train_seconds": 7.0,
        "levels_from_one_pass": True,
        "accuracy_per_resolution": levels,
        "loss_per_level": {"3": 0.5, "13": 0.25},
    }
    history = {"epoch": [0.0, 1.0], "loss": [2.0, 1.0], "val_acc": [0.5, None]}
    data = {"config": run.config.to_dict(), "metrics": metrics, "versions": {"torch": "9.9"}, "history": history}
    path = folder / f"{run.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data | more))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of one row with the consistency loss, one without; a colour row; and a run that is no row."""
    folder = tmp_path_factory.mktemp("results")
    rows = find_rows(TABLE, ["ours-paper-1000"])
    for run in plan([(TABLE, rows)]).runs:
        without = run.config.loss.hinge == "none"
        if run.seed == 0 or not without:
            write_result(folder, run, 0.9512 if without else 0.96 + 0.001 * run.seed)
    colour = TABLES["imagenette"]
    write_result(folder, plan([(colour, find_rows(colour, ["ours-best"]))], [0]).runs[0], 0.4321)
    write_result(folder, plan([(TABLE, rows)], [4], ["train.epochs=3"]).runs[0], 0.1234)
    return folder


@pytest.fixture(scope="module")
def figures() -> list[Figures]:
    """Digits that are downscaled ideally, and the same digits downscaled with a Gaussian low-pass."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ours = create_model("scalenet-tiny", widths=(4, 6), hidden=8, classes=3, resolutions=range(8, 13), pool=1)
        ideal = small_splits()
        gaussian = dataclasses.replace(ideal, protocol=dataclasses.replace(ideal.protocol, kind="gaussian"))
        cnn = create_model("cnn-small", classes=3)
        return [make_figures(splits, ours, cnn, digits=8) for splits in (ideal, gaussian)]
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def measured(figures: list[Figures]) -> list[Structure]:
    first = figures[0]
    return structures(first.ours.model, first.cnn.model, first.original)


@pytest.fixture(scope="module")
def page(results: Path, figures: list[Figures], measured: list[Structure]) -> str:
    return build_page(read_results(results), figures, measured)


def test_cells_are_means_over_seeds_beside_the_papers(results: Path) -> None:
    (row,) = find_rows(TABLE, ["ours-paper-1000"])
    cells = row_cells(TABLE, row, read_results(results))
    assert [len(cell.values) for cell in cells] == [3, 3, 1, 1]
    assert cells[0].text() == "0.9610 ± 0.0010"
    assert cells[0].paper == 0.9606
    assert cells[0].difference == pytest.approx(0.0004)
    assert (cells[2].text(), cells[2].spread) == ("0.9512", None)
    assert Cell("accuracy", paper=0.5).difference is None


def test_the_page_shows_results_and_the_papers_figures_and_invents_none(page: str) -> None:
    table = page[page.index('<section id="mnist-consistency">') : page.index('<section id="imagenette">')]
    table = table[: table.index('<div class="two">')]  # without the charts
    (line,) = re.findall(r"<tr>(?:(?!</tr>).)*ours, 1,000 images, the paper&#x27;s recipe.*?</tr>", table)
    assert '<td>0.9610 <span class="spread">± 0.0010</span>' in line
    assert 'paper 0.9606 <b class="good">+0.0004</b>' in line
    assert 'paper 0.9599 <b class="bad">-0.0087</b>' in line
    assert line.endswith("<td>1 to 3</td></tr>")
    assert table.count("not run") == 5
    assert "<td>not run</td>" in table
    assert "paper 0.8906" in table  # of a row that was not run
    numbers = set(re.findall(r"0\.\d{4}", re.sub(r"<svg.*?</svg>|<small>.*?</small>", "", table)))
    assert numbers == {"0.9610", "0.0010", "0.8610", "0.9512", "0.8512"}


def test_figures_of_other_images_are_marked_and_not_subtracted(page: str) -> None:
    table = page[page.index('<section id="imagenette">') :]
    table = table[: table.index("</section>")]
    assert "on other images" in table
    assert "0.4321" in table
    assert "STL-10 0.7332" in table
    assert "paper 0.7332" not in table
    assert 'class="good">' not in table


def test_the_page_tells_how_each_number_was_made(page: str) -> None:
    command = (
        "fourierscale train --config mnist-paper --set data.protocol=mnist-scale-1000 --set loss.hinge=none --seed 0"
    )
    assert f"<code>{command}</code>" in page
    assert "seeds 0, 1, 2; 2 epochs, trained in 7, 7, 7 s; 100 test images" in page
    assert "100 test images in bfloat16" in page[page.index('<section id="imagenette">') :]
    assert "abacus, torch 9.9" in page
    assert "mnist-efficiency/ours-paper-1000-seed0.json" in page  # the table that has the run first
    others = page[page.index("<h2>Other runs</h2>") :]
    assert "train.epochs=3" in others
    assert "0.1234" in others
    assert page.count("0.1234") == 1


def test_each_table_tells_how_much_its_number_of_images_leaves_open(page: str) -> None:
    told = re.findall(r'<section id="([\w-]+)">(?:(?!</section>).)*?from the number of images: up to ([^<]*)\.<', page)
    assert told == [
        ("mnist-efficiency", "0.0020 in Acc"),
        ("mnist-consistency", "0.0024 in Acc"),
        ("imagenette", "0.0284 in Acc"),
    ]


def test_the_page_needs_nothing_from_outside_and_draws_every_curve(page: str) -> None:
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:|#)|url\(|@import|https?://", page)
    consistency = page[page.index('<section id="mnist-consistency">') : page.index('<section id="imagenette">')]
    assert consistency.count("<svg") == 2  # over two epochs; over one resolution and one level it is a table
    for style in ("light-dark(", "max-width: 560px", "@media print"):
        assert style in page
    anchors, links = set(re.findall(r'id="([\w-]+)"', page)), set(re.findall(r'href="#([\w-]+)"', page))
    assert {"maps", "layers", "structure", "not-run", "mnist-consistency"} <= links <= anchors
    assert set(TABLES) <= anchors
    assert "no history was kept" not in page.lower()


def test_features_agree_where_downscaling_is_ideal_and_nowhere_else(page: str, figures: list[Figures]) -> None:
    ideal, gaussian = figures
    assert len(ideal.ours.errors) == len(gaussian.ours.errors) == 2
    assert max(max(row) for row in ideal.ours.errors) < 1e-9 < 1e-3 < min(min(row) for row in ideal.cnn.errors)
    assert min(min(row) for row in gaussian.ours.errors) > 1e-6
    assert page.count("data-maps>") == 2
    assert page.index("Ideal downscaling") < page.index("Gaussian downscaling")


def test_only_ours_has_the_structure_of_the_claim(page: str, measured: list[Structure]) -> None:
    convolution, relu, activation, cnn, ours = (torch.tensor(part.shares) for part in measured)
    assert torch.equal(convolution, torch.eye(6, dtype=convolution.dtype))
    assert measured[0].levels == [3, 4, 5]
    for part in (activation, ours):  # up to band 3 all depends on all, but for the mean, which the norm replaces
        assert (part[:4, 1:4] > 0).all()
        assert not part[:4, 4:].any()
        assert part[5, 5] > 0
        assert part[4, 5] == 0
    assert (relu > 0).all()
    assert (cnn > 0).all()
    assert cnn.shape == (3, 6)  # behind a pooling
    assert [any(part.beyond()) for part in measured] == [False, True, False, True, False]
    section = page[page.index('<section id="structure">') :]
    section = section[: section.index("</section>")]
    assert section.count("<svg") == 5
    zeros = sum(share == 0 for part in measured for line in part.shares for share in line)
    assert section.count('class="zero"') == zeros > 40


def test_shares_are_those_of_the_jacobian() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(1, 1, 5, 5, dtype=torch.float64), torch.randn(25, 25, dtype=torch.float64)

    def function(coeffs: torch.Tensor) -> torch.Tensor:
        return (coeffs.flatten(1) @ weight.T).sin().reshape(-1, 1, 5, 5)

    jacobian = torch.func.jacrev(function)(x).reshape(25, 25)
    ring = torch.tensor([max((i + 1) // 2, (j + 1) // 2) for i in range(5) for j in range(5)])
    blocks = [[jacobian[ring == k][:, ring == j].square().sum() for j in range(3)] for k in range(3)]
    expected = torch.stack([torch.stack(line) for line in blocks])
    expected = expected / expected.sum(1, keepdim=True)
    torch.testing.assert_close(dependence(function, x, probes=3000), expected, rtol=0.1, atol=0.01)


def test_without_results_or_figures_the_page_says_so(tmp_path: Path) -> None:
    page = build_page(read_results(tmp_path))
    assert "No row has been run yet" in page
    assert "data-maps>" not in page
    assert 'id="structure"' not in page
    assert "0 runs fill 0 of" in page


PROBE = """
<script>
addEventListener("load", () => {
  const box = document.querySelector("[data-maps]"), slider = box.querySelector("input"), seen = [];
  const look = () => seen.push([
    box.querySelector("output").textContent,
    ["cnn", "ours"].map((name) => box.querySelector(`[data-tell=${name}-error]`).textContent).join(" "),
    box.querySelector("[data-tell=cnn-error]").className,
    ...[...box.querySelectorAll("img")].map((image) => image.src.length + image.src.slice(-60)),
  ]);
  look();
  for (const value of [slider.min, slider.max]) {
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
    look();
  }
  const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  const probe = document.createElement("pre");
  probe.id = "probe";
  probe.textContent = JSON.stringify({seen, wide});
  document.body.append(probe);
});
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_in_a_browser_the_slider_changes_pictures_and_numbers(page: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=500,900"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run(
        [str(CHROMIUM), *flags, path.as_uri()], capture_output=True, text=True, timeout=60, check=False
    )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    told = json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    start, lowest, highest = told["seen"]
    assert (start[0], lowest[0], highest[0]) == ("11", "8", "11")
    assert start == highest
    assert len(lowest) == 3 + 5
    assert all(before != after for before, after in zip(lowest[3:], highest[3:], strict=True))
    assert lowest[1] != highest[1]
    assert lowest[2] == highest[2] == "bad"
    assert not told["wide"]


def test_the_command_writes_the_page(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    shutil.copytree(results, tmp_path / "given")
    (tmp_path / "given" / "broken.json").write_text("{")
    arguments = ["reproduce", "report", "--out", str(out), "--results", str(tmp_path / "given"), "--no-figures"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "broken.json: not a result" in printed
    assert f"wrote {out}" in printed
    assert "<td>0.9610 " in out.read_text(encoding="utf-8")
    assert main([*arguments[:3], str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "no such folder" in capsys.readouterr().err
