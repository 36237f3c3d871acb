"""Models of one input size train on batches of several resolutions, and are measured at one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fourierscale.cli import main
from fourierscale.data import Batch
from fourierscale.lab.tables import TABLES
from fourierscale.models import list_models, model_info
from fourierscale.training import Config, ConfigError, NonFiniteLossError, classification, load_config, module, train
from fourierscale.training.callbacks import read_log
from fourierscale.training.datamodule import batch_count
from tests.training.small_runs import small_config, small_splits


def cnn(*settings: str) -> Config:
    options = ["model.overrides={widths = [3, 4, 5], hidden = 8}", "loss.hinge=none", "data.mixed=true"]
    return small_config("model.name=cnn-mnist", *options, *settings)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Batch]]:
    """Batches of training and of validation, in order."""
    batches: dict[str, list[Batch]] = {"training_step": [], "validation_step": []}

    def watch(name: str) -> None:
        step = getattr(module.ScaleModule, name)

        def watched(self, batch, index):
            batches[name].append(batch)
            return step(self, batch, index)

        monkeypatch.setattr(module.ScaleModule, name, watched)

    for name in batches:
        watch(name)
    return batches


def test_a_run_trains_on_mixed_batches_and_is_validated_on_batches_of_one_resolution(
    tmp_path: Path, seen: dict[str, list[Batch]]
) -> None:
    splits = small_splits(augment="flip-warp", enlarge="zero")
    metrics = train(cnn(), tmp_path, splits=splits)
    assert metrics["steps"] == 2 * 12  # epochs of 90 images in batches of 8; of one resolution they were 15
    assert metrics["images"] == 60
    training, validation = seen["training_step"], seen["validation_step"]
    assert [batch.resolution for batch in training] == [0] * 24
    assert {tuple(batch.images.shape[1:]) for batch in training} == {(1, 28, 28)}
    assert sorted(torch.cat([batch.indices for batch in training[:12]]).tolist()) == list(range(90))
    assert {batch.resolution for batch in validation} == {8, 9, 10, 11, 12}
    losses = [float(row["loss"]) for row in read_log(tmp_path / "log.csv")]
    assert losses[1] < losses[0]


def test_steps_of_an_epoch_are_those_of_mixed_batches() -> None:
    train = small_splits(enlarge="zero").train
    assert [batch_count(train, 8, world, mixed) for world in (1, 5) for mixed in (False, True)] == [15, 12, 3, 3]


@pytest.mark.parametrize("name", ["scalenet-tiny", "fourier-cnn-mnist", "per-resolution-cnn-mnist"])
def test_a_model_that_takes_every_size_refuses_mixed_batches(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--model", name, "--out", str(tmp_path / "run"), "--set", "data.mixed=true"]
    assert main(arguments) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    assert f"{name} is given each at its own: set data.mixed=false" in told


def test_images_that_are_not_fitted_refuse_mixed_batches(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set data\.mixed=false"):
        train(cnn(), tmp_path / "run", splits=small_splits())
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_names_the_mixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classification, "scale_loss", lambda logits, *rest: logits.sum() * float("nan"))
    with pytest.raises(
        NonFiniteLossError, match=r"epoch 1, step 1, in a batch of several resolutions: lower optim\.lr"
    ):
        train(cnn(), tmp_path, splits=small_splits(enlarge="zero"))


@pytest.mark.parametrize("name", list_models())
def test_recipes_mix_resolutions_for_models_of_one_input_size_alone(name: str) -> None:
    info = model_info(name)
    mixed = load_config(info.recipe).data.mixed
    assert mixed == (info.recipe == "stl10-baseline")
    assert not mixed or info.enlarge is not None


def test_no_row_of_a_table_mixes_resolutions_that_are_not_fitted() -> None:
    mixed = set()
    for table in TABLES.values():
        for row in table.rows:
            config = load_config(row.preset, row.settings)
            assert not config.data.mixed or model_info(config.model.name).enlarge is not None
            mixed |= {config.model.name} if config.data.mixed else set()
    assert {"wrn-stl10", "sesn-stl10", "disco-stl10"} <= mixed
    assert "fourier-cnn-stl10" not in mixed
