"""Masks and fields in the trainer: what is minimised, what is measured, and that a run learns and resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fourierscale.data import Batch
from fourierscale.data.protocols import find_protocol
from fourierscale.functional import area_average, downscale
from fourierscale.models import create_model, load_model
from fourierscale.training import Config, ConfigError, StoppedError, evaluate, load_config, load_splits, train
from fourierscale.training.callbacks import read_log
from fourierscale.training.config import EvalConfig
from fourierscale.training.losses import dice_loss, map_cross_entropy, relative_error
from fourierscale.training.map_report import write_map_report
from fourierscale.training.maps import Fields, Segmentation
from fourierscale.training.tasks import Step
from tests.training.small_pairs import field_config, mask_config, write_fields, write_masks


@pytest.fixture(scope="module")
def masks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_masks(tmp_path_factory.mktemp("masks"), 40)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fields(tmp_path_factory.mktemp("fields"))


def test_losses_of_maps_are_their_definitions() -> None:
    maps, shares = torch.randn(2, 3, 4, 4).double(), torch.rand(2, 3, 4, 4).double().softmax(1)
    shares[0, :, 1] = 0  # ignored
    total = weight = 0.0
    for b in range(2):
        for i in range(4):
            for j in range(4):
                log = maps[b, :, i, j] - maps[b, :, i, j].exp().sum().log()
                total -= float((shares[b, :, i, j] * log).sum())
                weight += float(shares[b, :, i, j].sum())
    assert float(map_cross_entropy(maps, shares)) == pytest.approx(total / weight)
    probabilities = maps.softmax(1) * shares.sum(1, keepdim=True)
    parts = []
    for c in range(3):
        p, t = probabilities[:, c], shares[:, c]
        parts.append(1 - (2 * float((p * t).sum()) + 1) / (float(p.sum()) + float(t.sum()) + 1))
    assert float(dice_loss(maps, shares)) == pytest.approx(sum(parts) / 3)
    a, b = torch.randn(2, 1, 4, 4), torch.randn(2, 1, 4, 4)
    expected = [float((a[n] - b[n]).norm() / b[n].norm()) for n in range(2)]
    assert relative_error(a, b).tolist() == pytest.approx(expected)
    assert map_cross_entropy(maps, shares * 0) == 0  # nothing to learn from is no NaN


class _Seen(nn.Module):
    """A step's forward pass that keeps what it was given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.sizes = model, []

    def forward(self, x: Tensor, which: str = "own") -> Tensor:
        self.sizes.append(x.shape[-1])
        return self.model(x)


def _config(*settings: str) -> Config:
    return load_config("pets", ["loss.dice=0.25", *settings])


def test_a_step_is_the_mean_over_the_levels_maps() -> None:
    protocol = find_protocol("pets")
    task = Segmentation(_config(), protocol, (96,))
    model = create_model("unet", widths=(3, 4)).eval()
    x, labels = torch.rand(2, 3, 96, 96), torch.rand(2, 2, 96, 96).softmax(1)
    forward = _Seen(task.training_pass(model))
    got = task.loss(Step(forward, (0, 0, 1, 0), lambda: None), Batch(x, labels, 96, torch.arange(2)))
    expected = []
    for n, maps in zip((48, 68, 96), model.per_level(x), strict=True):
        wanted = area_average(labels, n)
        expected.append(map_cross_entropy(maps, wanted) + 0.25 * dice_loss(maps, wanted))
    torch.testing.assert_close(got, sum(expected) / 3)


def test_one_size_a_step_is_drawn_from_the_step_alone() -> None:
    protocol = find_protocol("pets")
    task = Segmentation(_config("loss.maps=one", "model.overrides.exact=false"), protocol, (96,))
    model = create_model("unet", widths=(3, 4), exact=False).eval()
    x, labels = torch.rand(1, 3, 96, 96), torch.rand(1, 2, 96, 96).softmax(1)
    sizes = []
    for number in range(24):
        forward = _Seen(task.training_pass(model))
        batch = Batch(x, labels, 96, torch.arange(1))
        losses = [task.loss(Step(forward, (0, 0, number, 0), lambda: None), batch) for _ in range(2)]
        assert losses[0] == losses[1]
        assert forward.sizes[0] == forward.sizes[1]
        sizes.append(forward.sizes[0])
    assert set(sizes) == {48, 68, 96}
    small = downscale(x, sizes[-1])
    maps, wanted = model(small), area_average(labels, sizes[-1])
    torch.testing.assert_close(losses[0], map_cross_entropy(maps, wanted) + 0.25 * dice_loss(maps, wanted))


def test_the_error_of_fields_is_that_of_every_level() -> None:
    task = Fields(load_config("field"), find_protocol("navier-stokes"), (64,))
    model = create_model("fno", width=4, modes=3, depth=1)
    x, y = torch.randn(2, 1, 64, 64), torch.randn(2, 1, 64, 64)
    forward = task.training_pass(model)
    got = task.loss(Step(forward, (0,), lambda: None), Batch(x, y, 64, torch.arange(2)))
    low, high = model.per_level(x)
    both = [relative_error(low, downscale(y, 32)).mean(), relative_error(high, y).mean()]
    torch.testing.assert_close(got, sum(both) / 2)


def test_masks_are_learned_and_measured(masks: Path, tmp_path: Path) -> None:
    config = mask_config(masks, "train.epochs=8")
    splits = load_splits(config)
    metrics = train(config, tmp_path / "run", splits=splits)
    assert metrics["iou"] > 0.75
    assert metrics["equi_err"] < 1e-10
    assert set(metrics["iou_per_resolution"]) == {"8", "11", "16"}
    log = read_log(tmp_path / "run" / "log.csv")
    assert float(log[-1]["loss"]) < float(log[0]["loss"])
    assert all(row["val_iou"] and not row["val_acc"] for row in log)
    model = load_model(tmp_path / "run")
    assert model.preprocessing is not None
    assert model.preprocessing.classes == splits.classes
    again = evaluate(model, splits, EvalConfig(batch_size=7))
    assert again["iou_per_resolution"] == pytest.approx(metrics["iou_per_resolution"])
    page = write_map_report(tmp_path / "run", splits).read_text()
    assert "equal by construction" in page


def test_a_stopped_run_ends_as_one_that_was_not(masks: Path, tmp_path: Path) -> None:
    config = mask_config(masks, "train.epochs=3", "loss.maps=one")
    whole = train(config, tmp_path / "whole")
    from fourierscale.training.module import ScaleModule

    step, calls = ScaleModule.training_step, []

    def stop(self: ScaleModule, batch: Batch, index: int) -> Tensor:
        calls.append(1)
        if len(calls) == self.steps_per_epoch + 2:
            raise KeyboardInterrupt
        return step(self, batch, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScaleModule, "training_step", stop)
        with pytest.raises(StoppedError):
            train(config, tmp_path / "part")
    resumed = train(config, tmp_path / "part", resume=True)
    assert resumed["iou_per_resolution"] == whole["iou_per_resolution"]


def test_bare_nets_are_measured_as_what_they_are(masks: Path, tmp_path: Path) -> None:
    config = mask_config(masks, "model.overrides.exact=false", "train.epochs=4")
    metrics = train(config, tmp_path / "run")
    assert metrics["equi_err"] > 1e-6
    assert load_model(tmp_path / "run").levels is None


def test_fields_are_learned_and_flat_over_grids(fields: Path, tmp_path: Path) -> None:
    config = field_config(fields, "train.epochs=20")
    splits = load_splits(config)
    metrics = train(config, tmp_path / "run", splits=splits)
    errors = [*metrics["error_per_resolution"].values()]
    assert max(errors) < 0.5
    assert metrics["equi_err"] < 1e-10
    assert json.loads((tmp_path / "run" / "model.json").read_text())["preprocessing"]["mean"]
    assert "strided" in write_map_report(tmp_path / "run", splits).read_text()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["data.mixed=true"], "data.mixed and data.enlarge"),
        (["loss.real=1"], "are for classification"),
        (["data.augment=crop-flip-cutout"], "cannot move a mask"),
        (["data.augment=nonsense"], "no augmentation"),
        (["model.overrides.exact=3"], "exact must be true or false"),
    ],
)
def test_settings_that_cannot_be_are_refused(masks: Path, tmp_path: Path, settings: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        train(mask_config(masks, *settings), tmp_path)


def test_fields_are_not_turned(fields: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.augment=none"):
        train(field_config(fields, "data.augment=photo"), tmp_path)
