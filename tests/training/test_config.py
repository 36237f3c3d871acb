"""Configs: files, presets, settings, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fourierscale.data.errors import DataError
from fourierscale.training.config import Config, list_presets, load_config
from fourierscale.training.errors import ConfigError
from fourierscale.training.typed import parse_value, to_toml

BOMB = "[&a0 [x, x]" + "".join(f", &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)) + "]"


@pytest.mark.parametrize("name", list_presets())
def test_a_preset_survives_being_saved(name: str, tmp_path: Path) -> None:
    config = load_config(name, ["model.overrides.resolutions=[8, 12]", 'data.data_dir=a "b"\\c'])
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert load_config(path) == config


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[optim]\nlr = 1e-3\nbetas = [0.9, 0.95]\n[train]\nprecision = "bf16"\n')
    (tmp_path / "a.yaml").write_text("optim: {lr: 1e-3, betas: [0.9, 0.95]}\ntrain: {precision: bf16}\n")
    (tmp_path / "empty.yml").write_text("")
    (tmp_path / "shared.yaml").write_text("optim: {lr: &rate 1e-3, weight_decay: *rate}")
    assert load_config(tmp_path / "shared.yaml").optim.weight_decay == 0.001
    assert load_config(tmp_path / "a.toml") == load_config(tmp_path / "a.yaml")
    assert load_config(tmp_path / "a.yaml").optim.lr == 0.001
    assert load_config(tmp_path / "empty.yml") == Config()


def test_settings_replace_fields_of_every_type() -> None:
    config = Config().replaced(
        [
            "train.epochs=3",
            "optim.lr=3e-3",
            "optim.betas=[0.8,0.9]",
            "data.data_dir=/a",
            "train.compile=true",
            "data.kind=gaussian",
            "model.overrides.widths=[4,8]",
            "train.devices=0,1",
            "train.precision=32",
        ]
    )
    assert (config.train.epochs, config.optim.lr, config.optim.betas) == (3, 0.003, (0.8, 0.9))
    assert (config.data.data_dir, config.train.compile, config.data.kind) == ("/a", True, "gaussian")
    assert config.model.overrides == {"widths": [4, 8]}
    assert config.train.devices == "0,1"
    assert config.replaced(["data.data_dir=none"]).data.data_dir is None
    words = load_config("mnist-paper", ["loss.hinge=none", "data.augment=none"])
    assert (words.loss.hinge, words.data.augment) == ("none", "none")


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("optim.lrr=1", "no field optim.lrr: did you mean 'lr'?"),
        ("optin.lr=1", "no section 'optin': did you mean 'optim'?"),
        ("optim=1", "optim must be a table of settings, got 1"),
        ("optim.lr.x=1", "optim.lr is a single value and has no field 'x'"),
        ("optim.lr", "expected a setting such as optim.lr=3e-3, got 'optim.lr'"),
        ("optim.lr=fast", "optim.lr must be a number, got 'fast'"),
        ("optim.lr=-1", "optim.lr must be greater than 0, got -1"),
        ("optim.lr=nan", "optim.lr must be a finite number, got nan"),
        ("optim.betas=[0.9]", "optim.betas.1 must be there, got [0.9]"),
        ("optim.name=sgd", "optim.name must be 'adamw' or 'adam', got 'sgd'"),
        ("train.epochs=1.5", "train.epochs must be a whole number, got 1.5"),
        ("train.epochs=inf", "train.epochs must be a whole number, got inf"),
        ("train.compile=1", "train.compile must be true or false, got 1"),
        ("model.overrides=3", "model.overrides must be a table, got 3"),
        ("loss.follow=-1", "loss.follow must be greater than or equal to 0, got -1"),
        ("loss.follow=nan", "loss.follow must be a finite number, got nan"),
        ("train.epochs=true", "train.epochs must be a whole number, got True"),
        ("train.epochs=1e4000", "train.epochs must be a whole number, got inf"),
        (f"train.epochs={'9' * 5000}", "train.epochs must be a whole number, got '9999"),
        (f"data.train_size={'9' * 4000}", "data.train_size must be less than 2147483648, got 999"),
        ("model.overrides.widths=2001-01-01", "model.overrides.widths must be text, a number, a list or a table"),
        (f"model.overrides.widths={'[' * 5000}", "nested too deeply"),
        (f"model.overrides.widths={'[' * 300 + ']' * 300}", "model.overrides.widths"),
        (f"data.size={'9' * 30}", "expected a size of 2 or more, at most 65536"),
        (f"data.lowest={'9' * 30}", "expected a lowest resolution from 1 to 65536"),
        ("train.compile=true loss.real=1", "is not compiled: set train.compile=false"),
        ("loss.hinge=pair", "loss.hinge must be 'none', 'batch', 'sample' or 'pairs', got 'pair'"),
    ],
)
def test_a_wrong_setting_is_one_sentence(setting: str, text: str) -> None:
    with pytest.raises((ConfigError, DataError)) as error:
        Config().replaced(setting.split(" "))
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("tinny", None, "no preset 'tinny', and not a .toml or .yaml file: did you mean 'tiny'?"),
        ("absent.toml", None, "No such file"),
        ("a.toml", "lr = ", "not TOML"),
        ("a.yaml", "a: [", "not YAML"),
        ("a.yaml", "- 1", "expected tables"),
        ("a.yaml", "train: {epochs: 2001-99-99}", "not YAML: month must be in 1..12"),
        ("a.yaml", f"train: {{epochs: {'9' * 5000}}}", "not YAML: Exceeds the limit"),
        ("a.yaml", f"model: {'[' * 5000}", "not YAML: nested too deeply"),
        ("a.yaml", f"model: {{overrides: {{a: {BOMB}}}}}", "more than 10000 values once its aliases are written out"),
        ("a.yaml", "a: &a [*a]", "not YAML: nested too deeply"),
        ("a.toml", f"a = {'[' * 5000}", "nested too deeply"),
        ("a.toml", f"a = {'9' * 5000}", "not TOML: Exceeds the limit"),
        ("a.toml", "[optm]\nlr = 1", "a.toml: no section 'optm': did you mean 'optim'?"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, name: str, content: str | None, text: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as error:
        load_config(path if "." in name else name)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_toml_round_trips_odd_text() -> None:
    data = {"a": {"k e y": 'quote " back \\ line\n tab\t', "n": [1, [2.5, False]]}}
    import tomllib

    assert tomllib.loads(to_toml(data)) == data
    assert parse_value("'1'") == "1"
