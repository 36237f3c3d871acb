"""The paper's tables are complete, their figures are the printed ones, and every row is a config that loads."""

from __future__ import annotations

import itertools

import pytest

from fourierscale.lab.tables import PAPER, TABLES, Table, TableRow, find_rows, find_table, paper_rows
from fourierscale.lab.tables.runs import cell_key, identity, plan, recipe_key, recipe_names, resolved, row_runs
from fourierscale.models import create_model
from fourierscale.training.config import Config, load_config
from fourierscale.training.errors import ConfigError


def model_name(row: TableRow) -> str | None:
    return next((s.removeprefix("model.name=") for s in row.settings if s.startswith("model.name=")), None)


PAPERS = [table for table in TABLES.values() if table.paper.number]  # others are of tasks that the paper has not
ROWS = [(table, row) for table in TABLES.values() for row in table.rows]


def test_every_row_of_the_paper_is_a_row_of_ours() -> None:
    assert sum(len(paper.rows) for paper in PAPER.values()) == 80
    own = {table.paper.number: table for table in PAPERS if not table.other_protocol}
    assert set(own) == set(PAPER)
    for number, paper in PAPER.items():
        assert [column.key for column in own[number].columns] == list(paper.columns)
        assert {row.paper for row in own[number].rows if not row.apart} == set(paper.rows)
        assert all(len(figures) == len(paper.columns) for figures in paper.rows.values())


@pytest.mark.parametrize("table", PAPERS, ids=lambda table: table.name)
def test_ours_has_two_recipes_and_baselines_two_augmentations(table: Table) -> None:
    keys = [row.key for row in table.rows]
    assert len(set(keys)) == len(keys)
    assert len({row.label for row in table.rows}) == len(keys)
    papers = [key for key in keys if key.startswith("ours-paper") and key != "ours-paper-level"]
    assert papers
    assert all(key.replace("ours-paper", "ours-best") in keys for key in papers)
    ideal = all(load_config(row.preset, row.settings).data.kind is None for row in table.rows) and not any(
        table.protocol.endswith(kind) for kind in ("gaussian", "bicubic")
    )
    augment = "warp" if ideal else "early-warp"
    augment = augment if table.name.startswith("mnist") else f"flip-{augment}"
    best = load_config(table.rows[-1].preset, table.rows[-1].settings)
    if table.rows[-1].key == "ours-best":
        assert (best.data.augment, best.loss.two_passes) == (augment, not ideal)
    for row in table.rows:
        if row.key.startswith("ours"):
            continue
        assert {row.key, f"{row.key.removesuffix('-augmented')}-augmented"} <= set(keys)
        assert (f"data.augment={augment}" in row.settings) == row.key.endswith("-augmented")


def test_colour_tables_exist_for_images_that_the_paper_has_not() -> None:
    for start, protocol in (("stl10-5k", "stl10-scale-5k"), ("imagenette", "imagenette-scale")):
        for end in ("", "-upsample", "-gaussian", "-gaussian-upsample", "-padding"):
            table, same = TABLES[f"{start}{end}"], TABLES[f"stl10{end}"]
            assert (table.protocol, table.other_protocol) == (protocol, True)
            assert table.paper is same.paper
            assert [row.key for row in table.rows] == [row.key for row in same.rows]
            assert table.note != same.note


@pytest.mark.parametrize("name", sorted({model_name(row) or row.preset for _, row in ROWS}))
def test_configs_of_all_rows_load(name: str) -> None:
    rows = [(table, row) for table, row in ROWS if (model_name(row) or row.preset) == name]
    for table, row in rows:
        for column in table.columns:
            config = resolved(load_config(row.preset, row.settings_in(column)))
            assert config.data.protocol.startswith(table.protocol)
            assert config.model.name == (model_name(row) or config.model.name)
    create_model(config.model.name, **config.model.overrides)


def test_no_two_tables_have_one_title() -> None:
    assert len({table.title for table in TABLES.values()}) == len(TABLES)


def test_settings_of_a_table_reach_its_rows() -> None:
    def config(table: str, row: str, column: int = 0) -> Config:
        found = find_table(table)
        (only,) = find_rows(found, [row])
        return load_config(only.preset, only.settings_in(found.columns[column]))

    assert config("mnist-consistency", "ours-paper-1000", 0).loss.hinge == "batch"
    assert config("mnist-consistency", "ours-best-1000", 3).loss.hinge == "none"
    assert config("mnist-ablation", "ours-paper-no-local").model.overrides["local"] is False
    assert config("mnist-ablation", "ours-best-no-nested").model.overrides["nested"] is False
    assert config("mnist-efficiency", "ours-best", 2).data.protocol == "mnist-scale-1000"
    assert config("imagenette-gaussian", "ours-paper").data.kind == "gaussian"
    upsample = {row.key: row.settings for row in TABLES["stl10-upsample"].rows}
    assert "data.enlarge=upsample" in upsample["sesn"]
    assert not any("data.enlarge" in setting for key in ("fourier-cnn", "ours-best") for setting in upsample[key])
    missing = {row.key: row.settings for row in TABLES["mnist-missing"].rows}
    assert "data.augment=scaling" in missing["cnn"]
    assert not any("augment" in setting for setting in missing["ours-paper"])


def test_shortened_trainings_lower_the_learning_rate_at_the_same_shares() -> None:
    starts, ends = ("stl10-5k", "imagenette"), ("", "-upsample", "-padding")
    for start, end in itertools.product(starts, ends):
        assert len({load_config(row.preset, row.settings).train.epochs for row in TABLES[start + end].rows}) == 1
        for whole, short in zip(TABLES["stl10" + end].rows, TABLES[start + end].rows, strict=True):
            before, after = (load_config(row.preset, row.settings) for row in (whole, short))
            if after.optim.schedule == "step":
                shares = (config.optim.step_size / config.train.epochs for config in (before, after))
                assert next(shares) == pytest.approx(next(shares), abs=0.5 / after.train.epochs)
            assert f"{after.train.epochs} epochs" in TABLES[start + end].note
            precisions = {(config.train.precision, config.train.matmul) for config in (before, after)}
            assert len(precisions) == 2


def test_a_run_of_two_tables_is_run_once() -> None:
    wanted = [(TABLES[name], find_rows(TABLES[name], ["ours-best"])) for name in ("mnist-all", "mnist-ablation")]
    runs = plan(wanted).runs
    assert [run.name for run in runs] == [f"mnist-all/ours-best-seed{seed}" for seed in (0, 1, 2)]
    assert len({run.folder for run in runs}) == 3
    assert runs[1].command.endswith("--seed 1")
    assert runs[1].config.train.seed == 1
    (changed,) = plan(wanted[:1], [5], ["train.epochs=2"]).runs
    assert changed.key != runs[0].key
    assert changed.name == f"mnist-all/ours-best-{changed.key}-seed5"
    upsampled = (TABLES["stl10-upsample"], find_rows(TABLES["stl10-upsample"], ["ours-paper"]))
    assert [run.name for run in plan([upsampled], [0]).runs] == ["stl10/ours-paper-seed0"]


def test_a_row_that_cannot_be_run_is_refused_and_others_go_on() -> None:
    table = TABLES["mnist-all"]
    broken = TableRow("broken", "broken", "tiny", ("model.name=no-such-net",))
    found = plan([(table, [broken, find_rows(table, ["ours-best"])[0]])], [0])
    assert [run.name for run in found.runs] == ["mnist-all/ours-best-seed0"]
    assert list(found.refused) == ["mnist-all broken"]
    assert "unknown model 'no-such-net'" in found.refused["mnist-all broken"]
    assert cell_key(broken, table.columns[0]) is None


def test_what_does_not_change_the_numbers_does_not_change_the_hash() -> None:
    config = load_config("mnist-paper")
    same = ["data.data_dir=elsewhere", "train.devices=2", "train.cuda_graphs=false", "train.seed=7", "eval.sample=8"]
    same += ["train.channels_last=true", "eval.precision=bf16"]
    same += ["train.validate_every=10", "model.overrides.hidden=256"]
    same += [f"model.overrides.resolutions={list(range(8, 29))}"]
    for setting in same:
        assert recipe_key(config.replaced([setting])) == recipe_key(config), setting
    for setting in ("optim.lr=0.02", "train.epochs=61", "model.overrides.hidden=255", "train.precision=bf16"):
        assert recipe_key(config.replaced([setting])) != recipe_key(config), setting
    best = config.replaced(["train.keep=best"])
    assert recipe_key(best.replaced(["train.validate_every=10"])) != recipe_key(best)
    assert "optim.schedule" in identity(config)
    colour = config.replaced(["data.protocol=imagenette-scale"])
    assert resolved(colour).model.overrides["in_channels"] == 3
    assert recipe_key(resolved(colour)) == recipe_key(colour)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: find_table("minst-all"), "no table 'minst-all': did you mean 'mnist-all'?"),
        (lambda: find_rows(TABLES["mnist-all"], ["ours-bets"]), "no row 'ours-bets': did you mean 'ours-best'?"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(call, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        call()
    assert text in str(error.value)


def test_the_papers_rows_end_with_its_own_model() -> None:
    for name in ("mnist-scale", "mnist-scale-missing", "stl10-scale", "mnist-scale-1000", "mnist-scale-bicubic"):
        rows = paper_rows(name)
        assert rows[-1].model == "Ours"
        assert all(row.accuracy is not None and 0 < row.accuracy < 1 for row in rows)
    assert paper_rows("photos") == ()
    assert paper_rows("mnist-scale-300") == ()


@pytest.mark.parametrize("start", ["stl10", "stl10-5k", "imagenette"])
def test_no_padding_reaches_ours(start: str) -> None:
    padded, plain = (find_table(f"{start}-{end}") for end in ("padding", "upsample"))
    names = recipe_names()
    for key in ("ours-paper", "ours-best"):
        (row,), (same,) = find_rows(padded, [key]), find_rows(plain, [key])
        (run,) = row_runs(padded, row, [0], (), names)
        assert {cell_key(row, column) for column in padded.columns} == {run.key}
        assert run.key == cell_key(same, plain.columns[0])
    (sesn,) = find_rows(padded, ["sesn"])
    assert len(row_runs(padded, sesn, [0], (), names)) == 3


@pytest.mark.parametrize(
    ("name", "before", "keys"),
    [
        ("photos", "folder:photos", ("5e07bfbabe", "a5f2fe244b", "42558010f4")),
        ("~/my photos", "folder:~/my photos", ("8bf4b25399", "59bb6ea339", "c624761a74")),
        ("./mnist-scale", "folder:mnist-scale", ("cbef081329", "fc52ab44fa", "a269265a4e")),
    ],
)
def test_recipes_on_a_folder_keep_the_hash_that_its_old_name_gave(name: str, before: str, keys: tuple[str]) -> None:
    chosen = ("data.size=64", "data.lowest=16", "data.shape=whole", "data.skip_bad=true")
    for spelt in (name, before):
        images = f'data.protocol="{spelt}"'
        configs = (
            load_config("folder", [images]),
            load_config("folder", [images, *chosen]),
            load_config("tiny", [images, "data.size=32"]),
        )
        assert {config.data.protocol for config in configs} == {name}
        assert tuple(map(recipe_key, configs)) == keys
