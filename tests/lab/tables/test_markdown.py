"""The pages hold what was measured: their tables are written from the results, and nothing else in them is a figure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fourierscale.cli import main
from fourierscale.lab.tables import TABLES
from fourierscale.lab.tables.markdown import BENCH, MARKED, Measured, fill_page, write_tables
from fourierscale.lab.tables.results import read_results
from fourierscale.lab.tables.summary import row_cells
from fourierscale.training.errors import ConfigError

ROOT = Path(__file__).parents[3]
WRITTEN = [ROOT / name for name in ("README.md", *(f"docs/{name}.md" for name in ("results", "speed", "baselines")))]


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured(read_results(ROOT / "results"), ROOT / "results" / BENCH)


def test_pages_are_what_make_tables_writes() -> None:
    assert write_tables(ROOT, ROOT / "results", check=True) == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_figures_stand_in_written_tables_alone(page: Path) -> None:
    text = re.sub(r"```.*?```", "", MARKED.sub("", page.read_text(encoding="utf-8")), flags=re.DOTALL)
    assert re.findall(r"\d\.\d{3,}|\d (?:ms|MiB|GiB)\b", text) in ([], ["0.001"])  # the paper's weight of the hinge


def test_a_page_that_differs_is_named_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    (tmp_path / "README.md").write_text("nothing to fill\n")
    page.write_text("before\n<!-- table: results mnist-all ours-best -->\n| stale |\n<!-- end -->\nafter\n")
    command = ["reproduce", "tables", "--root", str(tmp_path), "--results", str(ROOT / "results")]
    assert main([*command, "--check"]) == 1
    assert "stale" in page.read_text()
    assert capsys.readouterr().out == f"{page} differs from the results\n"
    assert main(command) == 0
    assert main([*command, "--check"]) == 0
    lines = page.read_text().splitlines()
    assert lines[0] == "before"
    assert lines[3] == "| | Acc | Scale-Con | Equi-Err |"
    assert lines[-1] == "after"
    assert "stale" not in lines


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("result mnist-all", "no kind of table 'result': did you mean 'results'?"),
        ("results mnist-al", "no table 'mnist-al': did you mean 'mnist-all'?"),
        ("results mnist-all ours-bets", "no row 'ours-bets': did you mean 'ours-best'?"),
        ("runs head/*", "no result is named 'head/*'"),
        ("speed mnist-* bench-cpu-minst", "did you mean 'bench-cpu-mnist'?"),
        ("speed minst-* bench-cpu-mnist", "has no rows"),
        ("list boundary-cost net step", "boundary-cost has no column 'step': did you mean 'step_ms'?"),
        ("pivot boundary-errors net downscaling features data=digit", "has no rows"),
    ],
)
def test_a_table_that_nothing_fills_is_refused(wanted: str, told: str, measured: Measured) -> None:
    with pytest.raises(ConfigError) as error:
        fill_page(f"<!-- table: {wanted} -->\n<!-- end -->\n", measured)
    assert told in str(error.value)


def test_a_table_without_an_end_is_refused(measured: Measured) -> None:
    with pytest.raises(ConfigError, match="has no <!-- end -->"):
        fill_page("<!-- table: results mnist-all -->\n\n<!-- table: runs heads/* -->\n<!-- end -->\n", measured)
    with pytest.raises(ConfigError, match="has no <!-- end -->"):
        fill_page("<!-- table: results mnist-all -->\n", measured)


@pytest.mark.parametrize("name", ["mnist-all", "mnist-missing", "mnist-efficiency", "stl10-5k", "imagenette"])
def test_our_best_recipe_is_ahead_of_every_baseline_as_the_page_says(name: str, measured: Measured) -> None:
    table = TABLES[name]
    cells = {row.key: row_cells(table, row, measured.results) for row in table.rows}
    for row in table.rows:
        for ours, other in zip(cells["ours-best"], cells[row.key], strict=True):
            if not row.ours:
                assert (ours.mean - other.mean) * (-1 if ours.metric == "equi_err" else 1) > 0, (row.key, ours.metric)


def test_the_papers_own_figures_stand_below_whatever_rows_are_named(measured: Measured) -> None:
    page = fill_page("<!-- table: results mnist-all ours-best cnn-augmented -->\n<!-- end -->\n", measured)
    assert '| the paper, "Ours" | 0.9889 | 0.9716 | 0.00 |' in page  # its Table 1, as printed
    assert "Ours" not in fill_page("<!-- table: results mnist-all cnn -->\n<!-- end -->\n", measured)
