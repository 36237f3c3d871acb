"""Every metric against its definition as a slow loop, ties included, and split over two processes."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fourierscale.functional import downscale
from fourierscale.metrics import (
    EquivarianceError,
    LevelCalibration,
    LevelLoss,
    ResolutionAccuracy,
    ScaleConsistency,
    fit_temperature,
    one_pass_levels,
    shrink_features,
)
from fourierscale.models import Preprocessing, create_model


def test_consistency_is_its_slow_definition_ties_included() -> None:
    generator = torch.Generator().manual_seed(0)
    metric = ScaleConsistency()
    shares = []
    for columns in ([0], [0, 0, 1], [2, 1, 3, 3], []):
        losses = torch.randint(0, 3, (7, 4), generator=generator).float()  # many ties
        metric.update(losses, columns)
        for row in losses.tolist():
            if columns:
                shares.append(sum(row[-1] <= row[c] for c in columns) / len(columns))
    got = metric.compute()
    assert math.isclose(got["mean"].item(), statistics.mean(shares))
    assert math.isclose(got["standard_error"].item(), statistics.stdev(shares) / math.sqrt(len(shares)))
    assert got["count"] == 21
    assert got["left_out"] == 7


def test_consistency_of_a_loss_that_is_nan_is_nan() -> None:
    metric = ScaleConsistency()
    metric.update(torch.tensor([[2.0, 1.0], [math.nan, 1.0]]), columns=[0])
    assert math.isnan(metric.compute()["mean"])


def test_consistency_counts_a_tie_and_no_more() -> None:
    metric = ScaleConsistency()
    metric.update(torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-6]]), [0])
    assert metric.compute()["mean"] == 0.5


def test_a_level_stands_for_a_resolution_only_where_its_band_is_a_level() -> None:
    model = create_model("scalenet-tiny", widths=(2,), pool=1, resolutions=[8, 12, 16])
    assert one_pass_levels(model, 16, range(8, 17)) == {8: 0, 11: 1, 12: 1, 15: 2}
    assert one_pass_levels(model, 14, range(8, 17)) == {8: 0, 11: 1, 12: 1, 13: 2}
    assert one_pass_levels(model, 8, range(8, 17)) == {}
    assert one_pass_levels(create_model("cnn-small"), 28, range(8, 29)) == {}  # 27 and 28 share a band, not an answer


def test_equivariance_error_is_its_slow_definition() -> None:
    metric = EquivarianceError()
    values = []
    for resolution in (5, 9):
        large, small = torch.rand(3, 2, 9, 9), torch.rand(3, 2, resolution, resolution)
        shrunk = shrink_features(large, small, resolution / 9, "coefficients")
        metric.update(shrunk, small)
        for b in range(3):
            difference = norm = 0.0
            for c in range(2):
                for i in range(resolution):
                    for j in range(resolution):
                        difference += (small[b, c, i, j].item() - large[b, c, i, j].item()) ** 2
                        norm += small[b, c, i, j].item() ** 2
            values.append(difference / norm)
    got = metric.compute()
    assert math.isclose(got["mean"].item(), statistics.mean(values))
    assert math.isclose(got["max"].item(), max(values))
    assert got["count"] == 6


def test_image_like_features_are_downscaled_and_then_fitted_as_the_image_was() -> None:
    large = torch.rand(1, 2, 8, 8)
    native = shrink_features(large, torch.rand(1, 2, 5, 5), 0.5, "image")
    assert torch.equal(native, downscale(large, 5))
    padded = shrink_features(
        large, torch.rand(1, 2, 8, 8), 0.5, "image", Preprocessing(enlarge="zero", enlarge_size=16)
    )
    assert torch.equal(padded[..., 2:6, 2:6], downscale(large, 4))
    assert padded[..., 0, :].abs().max() == 0


def test_accuracy_and_loss_are_counted_per_resolution_and_level() -> None:
    accuracy, loss = ResolutionAccuracy([8, 9, 10]), LevelLoss([3, 4, 5])
    logits = torch.eye(3)
    accuracy.update(logits, torch.tensor([0, 1, 0]), 8)
    accuracy.update(logits[:1], torch.tensor([1]), 10)
    loss.update(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [3, 4])
    loss.update(torch.tensor([[6.0]]), [3])
    got = accuracy.compute()
    assert got["mean"] == 0.5
    assert torch.allclose(got["per_resolution"], torch.tensor([2 / 3, torch.nan, 0]).double(), equal_nan=True)
    assert torch.allclose(loss.compute()["per_level"], torch.tensor([10 / 3, 3, torch.nan]).double(), equal_nan=True)
    with pytest.raises(ValueError, match="resolution 11 is not one of 8, 9, 10"):
        accuracy.update(logits, torch.tensor([0, 1, 0]), 11)


def slow_ece(logits: Tensor, labels: Tensor, bins: int = 15) -> float:
    p = logits.double().softmax(-1)
    total = 0.0
    for i in range(bins):
        inside = [b for b in range(len(p)) if i / bins < p[b].max().item() <= (i + 1) / bins]
        hits = sum(p[b].argmax().item() == labels[b].item() for b in inside)
        total += abs(hits - sum(p[b].max().item() for b in inside))
    return total / len(p)


def test_calibration_is_its_slow_definition() -> None:
    metric = LevelCalibration([3, 4, 5], temperature=2.0)
    a, b = 2 * torch.randn(40, 3, 5), 2 * torch.randn(30, 2, 5)
    labels_a, labels_b = torch.randint(0, 5, (40,)), torch.randint(0, 5, (30,))
    metric.update(a, labels_a, [3, 4, 5])
    metric.update(b, labels_b, [3, 5])
    got = metric.compute()
    labels = torch.cat([labels_a, labels_b])
    last = torch.cat([a[:, -1], b[:, -1]])
    expected = [slow_ece(torch.cat([a[:, 0], b[:, 0]]), labels), slow_ece(a[:, 1], labels_a), slow_ece(last, labels)]
    assert torch.allclose(got["per_level"], torch.tensor(expected).double())
    assert math.isclose(got["prediction"].item(), slow_ece(last, labels))
    assert math.isclose(got["scaled"].item(), slow_ece(last / 2, labels))


def test_fitted_temperature_is_the_minimum() -> None:
    logits, labels = 5 * torch.randn(200, 4), torch.randint(0, 4, (200,))
    labels[:150] = logits[:150].argmax(1)
    best = fit_temperature(logits, labels)
    loss = [torch.nn.functional.cross_entropy(logits.double() / t, labels) for t in (best * 0.99, best, best * 1.01)]
    assert loss[1] < min(loss[0], loss[2])


SCRIPT = """
    import sys, torch
    import torch.distributed as dist
    from fourierscale.metrics import *

    def data():
        g = torch.Generator().manual_seed(3)
        for number in range(5):
            yield number, torch.randn(6 + number, 3, 4, generator=g), torch.randint(0, 4, (6 + number,), generator=g)

    def measure(rank, world):
        con, equi = ScaleConsistency(), EquivarianceError()
        acc, cal = ResolutionAccuracy(range(5)), LevelCalibration([1, 2, 3])
        for number, logits, labels in data():
            if number % world == rank:
                con.update(logits[..., 0], [0, 1] if number else [])
                equi.update(logits, logits + 0.1)
                acc.update(logits[:, -1], labels, number)
                cal.update(logits, labels, [1, 2, 3])
        return [metric.compute() for metric in (con, equi, acc, cal)]

    alone = measure(0, 1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2)
    for a, b in zip(alone, measure(dist.get_rank(), 2), strict=True):
        for key in a:
            torch.testing.assert_close(b[key], a[key], rtol=1e-12, atol=1e-12)
    print("equal")
    dist.destroy_process_group()
"""


def test_two_processes_compute_what_one_does(tmp_path: Path) -> None:
    script = tmp_path / "measure.py"
    script.write_text(textwrap.dedent(SCRIPT))
    runs = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "meet"), str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for run in runs:
        out, err = run.communicate(timeout=120)
        assert "equal" in out, err
