"""What evaluate says, against slow loops over really downscaled images, for models with levels and without."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fourierscale import create_model
from fourierscale.functional import downscale
from fourierscale.functional.enlarging import enlarge_to
from fourierscale.models import ImageModel
from fourierscale.training import EvalConfig, evaluate
from fourierscale.training.config import OptimConfig
from fourierscale.training.optim import lr_factor
from tests.training.small_runs import RESOLUTIONS, small_splits


class Plain(ImageModel):
    """A CNN of one input size and no levels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 3)

    def features(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[-2:] == (12, 12)
        return self.head(self.features(x).mean((2, 3)))


PADDED = replace(small_splits().preprocessing, enlarge="zero", enlarge_size=12)


def slow(model: nn.Module, enlarge: str | None, resolutions: tuple[int, ...]) -> tuple[float, float, int]:
    """Accuracy, Scale-Con and images left out, one image at a time, every resolution really downscaled."""
    splits = small_splits()
    mean, std = splits.test.mean, splits.test.std

    def loss(x: Tensor, label: int) -> tuple[float, bool]:
        if enlarge is not None:
            x = (enlarge_to(x * std + mean, 12, enlarge) - mean) / std
        logits = model(x)
        logits = logits if logits.ndim == 2 else logits[:, -1]
        value = nn.functional.cross_entropy(logits.double(), torch.tensor([label])).item()
        return value, logits.argmax().item() == label

    right, shares, left_out = [], [], 0
    with torch.no_grad():
        for item in range(len(splits.test)):
            image, label = splits.test[item]
            own, hit = loss(image[None], label)
            right.append(hit)
            below = [r for r in resolutions if r < image.shape[-1]]
            if not below:
                left_out += 1
                continue
            # one pass and a real pass of the same band differ by rounding; no two losses are that near otherwise
            losses = [loss(downscale(image[None], r), label)[0] for r in below]
            shares.append(statistics.mean(own <= value + 1e-6 for value in losses))
    return statistics.mean(right), statistics.mean(shares), left_out


@pytest.mark.parametrize("levels", [(8, 10, 12), (8, 12)])
def test_levels_of_one_pass_give_what_real_passes_do(levels: tuple[int, ...]) -> None:
    model = create_model("scalenet-tiny", classes=3, widths=(4,), pool=1, hidden=8, resolutions=levels).eval()
    got = evaluate(model, small_splits(), EvalConfig(sample=20, batch_size=7))
    accuracy, consistency, left_out = slow(model, None, (8, 10, 12))
    assert got["levels_from_one_pass"]
    assert got["accuracy"] == pytest.approx(accuracy)
    assert got["scale_con"] == pytest.approx(consistency)
    assert got["scale_con_left_out"] == left_out == 12
    assert (got["equi_err"] < 1e-11) == (levels == (8, 10, 12))  # at 10 pixels nothing is promised without that level
    assert set(got["accuracy_per_resolution"]) == {str(r) for r in RESOLUTIONS}
    assert not model.training


def test_a_model_without_levels_is_really_downscaled() -> None:
    model = Plain()
    got = evaluate(model, small_splits(), EvalConfig(sample=20), preprocessing=PADDED)
    accuracy, consistency, _ = slow(model, "zero", (8, 10, 12))
    assert not got["levels_from_one_pass"]
    assert got["level_difference"] is None
    assert got["accuracy"] == pytest.approx(accuracy)
    assert got["scale_con"] == pytest.approx(consistency)
    assert got["equi_err"] > 1e-3
    assert model.training


def test_levels_that_do_not_agree_with_real_passes_are_not_believed() -> None:
    model = create_model(
        "scalenet-tiny", classes=3, widths=(4,), pool=1, hidden=8, resolutions=(8, 10, 12), nested=False
    )
    got = evaluate(model.eval(), small_splits(), EvalConfig(sample=20))
    assert got["level_difference"] > 1e-3
    assert not got["levels_from_one_pass"]
    assert got["scale_con"] == pytest.approx(slow(model, None, (8, 10, 12))[1])


def test_scale_con_of_some_images_leaves_all_else_as_it_was() -> None:
    model, splits = Plain(), small_splits()

    def measured(consistency: int) -> dict[str, Any]:
        return evaluate(model, splits, EvalConfig(sample=20, consistency=consistency), preprocessing=PADDED)

    whole, some = measured(0), measured(20)
    assert whole["scale_con_images"] + whole["scale_con_left_out"] == whole["images"] > 20
    assert some["scale_con_images"] + some["scale_con_left_out"] == 20
    changed = {name for name in whole if some[name] != whole[name]}
    assert "scale_con_images" in changed
    assert all(name == "seconds" or name.startswith("scale_con") for name in changed)
    assert measured(20)["scale_con"] == some["scale_con"]


def test_half_precision_measures_nearly_the_same_and_says_so() -> None:
    model = Plain().eval()
    configs = (EvalConfig(precision=p) for p in ("32", "bf16"))
    single, half = (evaluate(model, small_splits(), config, preprocessing=PADDED) for config in configs)
    assert (single["precision"], half["precision"]) == ("32", "bf16")
    assert half["loss"] != single["loss"]
    assert half["loss"] == pytest.approx(single["loss"], rel=2e-2)
    assert half["equi_err"] == pytest.approx(single["equi_err"], rel=5e-2)
    assert not model.training
    assert torch.is_autocast_enabled("cpu") is False


def test_a_limit_draws_the_same_images_again() -> None:
    model = create_model("scalenet-tiny", classes=3, widths=(4,), pool=1, hidden=8, resolutions=(8, 10, 12))
    a, b = (evaluate(model, small_splits(), EvalConfig(limit=20, sample=5)) for _ in range(2))
    assert a["images"] == 20
    assert {k: v for k, v in a.items() if k != "seconds"} == {k: v for k, v in b.items() if k != "seconds"}


@pytest.mark.parametrize(
    ("schedule", "first", "last"), [("step", 1.0, 0.01), ("onecycle", 0.04, 0.0), ("cosine", 0.1, 0.0)]
)
def test_schedules_start_and_end_where_they_should(schedule: str, first: float, last: float) -> None:
    config = OptimConfig(schedule=schedule, warmup=0.2, step_size=2, gamma=0.1)
    factors = [lr_factor(step, 50, 10, config) for step in range(50)]
    assert math.isclose(factors[0], first, abs_tol=1e-3)
    assert math.isclose(factors[-1], last, abs_tol=5e-3)
    assert max(factors) == pytest.approx(1, abs=1e-6)
    if schedule == "step":
        assert factors[19:21] == [1.0, 0.1]
    assert np.isfinite(factors).all()
