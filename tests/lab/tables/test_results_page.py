"""The tables of docs/results.md and of the README say what the result files say."""

import re
import statistics
from pathlib import Path

import pytest

from fourierscale.lab.tables.results import read_results
from fourierscale.lab.tables.runs import cell_key
from fourierscale.lab.tables.tables import find_rows, find_table

ROOT = Path(__file__).parents[3]
ROWS = {
    "ours, best recipe": "ours-best",
    "ours, the paper's recipe": "ours-paper",
    "ours, the paper's recipe, each level on its own grid": "ours-paper-level",
    "CNN": "cnn",
    "CNN per resolution": "per-resolution-cnn",
    "SESN": "sesn",
    "SESN, scalar": "sesn",
    "SESN, vector": "sesn-vector",
    "DSS": "dss",
    "SI-ConvNet": "si-convnet",
    "SS-CNN": "ss-cnn",
    "DISCO": "disco",
    "Fourier CNN": "fourier-cnn",
    "Fourier CNN with our augmentation": "fourier-cnn-augmented",
    "wide residual net": "wrn",
}
FIGURES = ("accuracy", "scale_con", "equi_err")
DIGITS = ("accuracy@5000", "accuracy@2500", "accuracy@1000")
BOTH = (*FIGURES, *(f"{metric}+" for metric in FIGURES))
# of each table the columns that hold figures of ours; + is the row with our augmentation
TABLES = {
    ("Results", 0): ("mnist-all", (None, *FIGURES)),
    ("Baselines", 0): ("mnist-all", (*FIGURES, None, "accuracy+", "scale_con+")),
    ("Fewer images", 0): ("mnist-efficiency", (*DIGITS, *(f"{metric}+" for metric in DIGITS))),
    ("Missing scales", 0): ("mnist-missing", (*FIGURES, "accuracy+", "scale_con+")),
    ("Gaussian downscaling", 0): ("mnist-gaussian", BOTH),
    ("Gaussian downscaling", 2): ("mnist-bicubic", BOTH),
    ("Photographs", 0): ("stl10-5k", BOTH),
    ("Photographs", 1): ("imagenette", BOTH),
}
VARIANTS = [
    f"{name}-{end}" for name in ("stl10-5k", "imagenette") for end in ("upsample", "gaussian", "gaussian-upsample")
]


@pytest.fixture(scope="module")
def results():
    return read_results(ROOT / "results")


def page_tables(page="docs/results.md"):
    """Tables by heading and place below it, each a list of rows of cells without stars."""
    found, heading, place, lines = {}, "", -1, []
    for line in [*(ROOT / page).read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("#"):
            heading, place = line.lstrip("# "), -1
        if line.startswith("|"):
            lines.append([cell.strip().replace("*", "") for cell in line.strip("|").split("|")])
        elif lines:
            place += 1
            found[heading, place], lines = lines[2:], []
    return found


def measured(results, table, key, metric, shown=None):
    """A figure of every seed; none where the row was not run. One that is no column stands behind the one shown."""
    table = find_table(table)
    column = next(column for column in table.columns if column.key == (shown or metric))
    found = results.of(cell_key(find_rows(table, [key])[0], column))
    return [result.metrics[metric.partition("@")[0]] for result in found]


def agrees(text, values):
    """Whether a cell, ``0.988`` or ``0.988 ± 0.001`` or ``4e-14``, is the mean of these values and their deviation."""
    if not text or not values:
        return bool(text) == bool(values)
    mean, _, deviation = text.partition(" ± ")
    pairs = [(mean, statistics.mean(values))] + ([(deviation, statistics.stdev(values))] if deviation else [])
    for shown, value in pairs:
        unit = 10.0 ** (int(shown.split("e")[1]) if "e" in shown else 0)
        decimals = len(shown.split("e")[0].partition(".")[2])
        if abs(float(shown) - value) > 0.5001 * unit * 10.0**-decimals:
            return False
    return True


def test_what_agrees_is_a_rounded_mean():
    assert agrees("0.99", [0.985, 0.995])
    assert agrees("4e-14", [4.4e-14])
    assert agrees("0.990 ± 0.007", [0.985, 0.995])
    assert not agrees("0.990 ± 0.009", [0.985, 0.995])
    assert not agrees("0.98", [0.985, 0.997])
    assert not agrees("", [0.5])
    assert not agrees("0.5", [])


@pytest.mark.parametrize(("place", "table"), TABLES.items())
def test_tables_hold_what_was_measured(results, place, table):
    name, columns = table
    checked = 0
    for label, *cells in page_tables()[place]:
        key = ROWS.get(re.sub(r", (with our augmentation )?(two|three) seeds$", "", label))
        if key is None:
            continue
        for text, column in zip(cells, columns, strict=False):
            ours = key.startswith("ours")
            if column is None or (ours and not text):  # ours is in one of both halves
                continue
            row = key if ours or not column.endswith("+") else f"{key}-augmented"
            values = measured(results, name, row, column.rstrip("+"))
            assert agrees(text, values), (label, column, text, values)
            checked += 1
    assert checked >= 9


@pytest.mark.parametrize(("heading", "place", "rows"), [("Results", 4, 3), ("Baselines", 3, 9)])
def test_calibration_errors_are_what_was_measured(results, heading, place, rows):
    found = {ROWS[label]: cells[place] for label, *cells in page_tables()[heading, 0] if label in ROWS}
    assert len(found) == rows
    for key, text in found.items():
        for shown, metric in zip(text.rstrip(")").split(" ("), ("ece", "ece_after_temperature"), strict=True):
            assert agrees(shown, measured(results, "mnist-all", key, metric, "accuracy")), (key, metric, text)


def test_the_ablation_holds_what_was_measured(results):
    ends = {"without local filter": "-no-local", "without scale-equivariant ReLU": "-no-nested"}
    recipe, seen = "", set()
    for label, *cells in page_tables()["What the parts do", 0]:
        recipe = ROWS[label] if label.startswith("ours") else recipe
        row = recipe + ends[label] if label in ends else ROWS[label]
        for text, metric in zip(cells, FIGURES, strict=False):
            assert agrees(text, measured(results, "mnist-ablation", row, metric)), (row, metric, text)
        seen.add(row)
    assert seen == {row.key for row in find_table("mnist-ablation").rows}


def test_the_consistency_table_holds_what_was_measured(results):
    columns = [(recipe, which) for recipe in ("best", "paper") for which in ("with", "without")]
    for images, *cells in page_tables()["With and without the consistency loss", 0]:
        for text, (recipe, which) in zip(cells, columns, strict=False):
            row = f"ours-{recipe}-{images.replace(',', '')}"
            for shown, metric in zip(text.split(" / "), ("accuracy", "scale_con"), strict=True):
                values = measured(results, "mnist-consistency", row, f"{metric}@{which}")
                assert agrees(shown, values), (row, which, shown, values)


def test_the_variants_hold_the_better_of_both_recipes(results):
    for label, *cells in page_tables()["Photographs", 2]:
        for text, table in zip(cells, VARIANTS, strict=True):
            keys = [ROWS[label]] if label.startswith("ours") else [ROWS[label], f"{ROWS[label]}-augmented"]
            rows = {key: [measured(results, table, key, metric) for metric in FIGURES] for key in keys}
            trained = [key for key in keys if rows[key][0]]
            if not trained:
                assert not text, (label, table)
                continue
            best = max(trained, key=lambda key: statistics.mean(rows[key][0]))
            assert text.endswith("+") == best.endswith("-augmented"), (label, table)
            for shown, values in zip(text.rstrip("+ ").split(" / "), rows[best], strict=True):
                assert agrees(shown, values), (label, table, shown, values)


def test_the_paddings_hold_both_recipes(results):
    places = [(name, way) for name in ("stl10-5k", "imagenette") for way in ("replicate", "circular", "reflect")]
    rows = page_tables()["Photographs", 3]
    assert len(rows) == 6
    for label, *cells in rows:
        ours = label == "ours, the paper's recipe / best recipe"
        keys = ("ours-paper", "ours-best") if ours else (ROWS[label], f"{ROWS[label]}-augmented")
        for text, (name, way) in zip(cells, places, strict=True):
            for shown, key in zip(text.split(" / "), keys, strict=True):
                assert agrees(shown, measured(results, f"{name}-padding", key, f"accuracy@{way}")), (label, name, way)


def best_of_the_baselines(results, table, metric):
    """The best mean over seeds among the rows that are not ours."""
    keys = [row.key for row in find_table(table).rows if not row.key.startswith("ours")]
    figures = [statistics.mean(measured(results, table, key, metric)) for key in keys]
    return min(figures) if metric == "equi_err" else max(figures)


def test_the_first_table_of_the_readme_holds_what_was_measured(results):
    rows = next(rows for rows in page_tables("README.md").values() if "--config mnist-best" in rows[0][0])
    for text, paper, other, metric in zip(*(row[1:] for row in rows[:3]), FIGURES, strict=True):
        assert agrees(text, measured(results, "mnist-all", "ours-best", metric)), (metric, text)
        assert agrees(paper, measured(results, "mnist-all", "ours-paper", metric)), (metric, paper)
        assert agrees(other, [best_of_the_baselines(results, "mnist-all", metric)]), (metric, other)


def test_the_readme_shows_ours_beside_the_best_of_the_baselines(results):
    rows = next(rows for rows in page_tables("README.md").values() if rows[0][0] == "`mnist-missing`")
    for name, _, ours, others, _ in rows:
        name = name.strip("`")
        for shown, other, metric in zip(ours.split(" / "), others.split(" / "), FIGURES, strict=True):
            assert agrees(shown, measured(results, name, "ours-best", metric)), (name, metric)
            assert agrees(other, [best_of_the_baselines(results, name, metric)]), (name, metric, other)


def test_the_readme_says_what_was_measured_with_1000_digits(results):
    sentence = r"With 1,000 training digits ours has an accuracy of (0\.\d+), the best baseline (0\.\d+),"
    ours, other = re.search(sentence, (ROOT / "README.md").read_text(encoding="utf-8")).groups()
    assert agrees(ours, measured(results, "mnist-efficiency", "ours-best", "accuracy@1000"))
    assert agrees(other, [best_of_the_baselines(results, "mnist-efficiency", "accuracy@1000")])
