"""Two passes: what they add to the loss, that they train, and that the second is what the data would show."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from fourierscale import create_model
from fourierscale.data.protocols import find_protocol
from fourierscale.data.scaled import Batch
from fourierscale.functional import downscale
from fourierscale.training import ConfigError, scale_loss, train
from fourierscale.training.classification import Classification
from fourierscale.training.real import WithFeatures, draw_below, two_pass_penalty
from fourierscale.training.tasks import Step
from tests.training.small_runs import small_config, small_splits


def test_the_penalty_is_its_slow_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(3, 4, 5, generator=generator), torch.randn(3, 2, 9, 9, generator=generator)
    small = torch.randn(3, 2, 5, generator=generator), torch.randn(3, 2, 5, 5, generator=generator)
    labels, total = torch.tensor([0, 3, 1]), 0.0
    for b in range(3):
        odds = []
        for logits in (small[0][b, -1], own[0][b, -1]):
            others = [math.exp(z) for c, z in enumerate(logits.tolist()) if c != labels[b]]
            odds.append(logits[labels[b]].item() - math.log(sum(others)))
        error = (small[1][b] - own[1][b, :, :5, :5]).square().sum() / small[1][b].square().sum()
        total += 0.7 * max(odds[0] - odds[1] + 0.5, 0) + 0.3 * error.item()
    got = two_pass_penalty(own, small, labels, 0.7, 0.3, 0.5)
    assert got.item() == pytest.approx(total / 3, rel=1e-5)


def test_an_equivariant_net_and_ideal_downscaling_leave_no_error_of_features() -> None:
    model = WithFeatures(create_model("scalenet-tiny", classes=3, widths=(4, 6), hidden=8)).eval()
    x = torch.randn(2, 1, 24, 24)
    labels = torch.tensor([0, 1])
    error = {kind: two_pass_penalty(model(x), model(downscale(x, 15, kind)), labels, 0, 1, 0).item() for kind in KINDS}
    assert error["ideal"] < 1e-11
    assert error["gaussian"] > 1e-4


KINDS = ("ideal", "gaussian")


def test_the_lower_resolution_depends_on_the_step_alone_and_takes_all_values() -> None:
    drawn = [draw_below((0, 1, step, 0, 3), 12, (8, 9, 10, 11, 12)) for step in range(60)]
    assert drawn == [draw_below((0, 1, step, 0, 3), 12, (8, 9, 10, 11, 12)) for step in range(60)]
    assert set(drawn) == {8, 9, 10, 11}


def test_a_step_is_the_mean_of_two_passes_and_the_penalty() -> None:
    protocol = find_protocol("mnist-scale-gaussian")
    config = small_config("loss.real=0.6", "loss.features=0.4", "loss.follow=0.2", "model.overrides.dropout=0.0")
    model = create_model("scalenet-tiny", widths=(4, 6), hidden=8, dropout=0.0)
    task, passes = Classification(config, protocol, (28,)), WithFeatures(model)
    step = Step(lambda x, which="own": passes(x), (0, 0, 7, 0), lambda: None)
    x, labels = torch.randn(4, 1, 20, 20), torch.arange(4)
    got = task.loss(step, Batch(x, labels, 20, torch.arange(4)))
    lower = draw_below((0, 0, 7, 0, 3), 20, protocol.equivariance)
    own, small = passes(x), passes(downscale(x, lower, "gaussian"))
    expected = two_pass_penalty(own, small, labels, 0.6, 0.4, 0.5)
    for logits, _ in (own, small):
        expected = expected + scale_loss(logits, labels, "pairs", 0.1, 0.5, follow=0.2) / 2
    torch.testing.assert_close(got, expected)
    smallest = torch.randn(4, 1, 8, 8)
    alone = task.loss(step, Batch(smallest, labels, 8, torch.arange(4)))
    torch.testing.assert_close(alone, scale_loss(model(smallest), labels, "pairs", 0.1, 0.5, follow=0.2))


def test_it_trains_and_its_checkpoint_holds_the_model_once(tmp_path: Path) -> None:
    config = small_config("loss.real=1.0", "loss.features=0.1", "train.epochs=6")
    metrics = train(config, tmp_path / "run", splits=small_splits())
    assert metrics["accuracy"] > 0.8
    saved = torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    weights = [name for name in saved if name.startswith("model.")]
    assert len(weights) == len(create_model("scalenet-tiny", head="temperature").state_dict())
    assert not any("_passes" in name for name in saved)


def test_a_model_without_levels_is_refused_in_one_sentence(tmp_path: Path) -> None:
    config = small_config("model.name=cnn-mnist", "model.overrides={}", "loss.real=1.0")
    with pytest.raises(ConfigError, match="cnn-mnist has none: set both to 0"):
        train(config, tmp_path / "run", splits=small_splits(enlarge="zero"))


@pytest.mark.gpu
def test_two_graphs_in_a_step_give_the_gradients_of_two_passes() -> None:
    from fourierscale.training.graphs import GraphedTraining

    model, twin = (create_model("scalenet-tiny", dropout=0.0).cuda().train() for _ in range(2))
    twin.load_state_dict(model.state_dict())
    graphs = [GraphedTraining(WithFeatures(model).train()) for _ in range(2)]
    labels = torch.arange(8, device="cuda")
    for large, low in ((28, 12), (20, 8), (28, 12)):
        x = torch.randn(8, 1, large, large, device="cuda")
        for owner, passes in ((model, graphs), (twin, [WithFeatures(twin)] * 2)):
            owner.zero_grad()
            own, small = passes[0](x), passes[1](downscale(x, low, "gaussian"))
            loss = two_pass_penalty(own, small, labels, 1.0, 1.0, 0.5)
            (loss + nn.functional.cross_entropy(own[0][:, -1], labels)).backward()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            if b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
