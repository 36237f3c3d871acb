"""The losses against their definitions as slow loops."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fourierscale.training.losses import (
    consistency_hinge,
    level_cross_entropy,
    level_divergence,
    log_odds_hinge,
    scale_loss,
)


def draw(batch: int, levels: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(batch, levels, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, classes, (batch,), generator=generator)


def slow_cross_entropy(z: list[float], y: int) -> float:
    return math.log(sum(math.exp(value) for value in z)) - z[y]


def slow_log_odds(z: list[float], y: int) -> float:
    return z[y] - math.log(sum(math.exp(value) for c, value in enumerate(z) if c != y))


sizes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(2, 4), st.integers(0, 9))


@given(sizes)
def test_every_loss_is_its_slow_definition(size: tuple[int, int, int, int]) -> None:
    logits, labels = draw(*size)
    batch, levels, _, _ = size
    rows, true = logits.tolist(), labels.tolist()
    entropy = [[slow_cross_entropy(rows[b][k], true[b]) for k in range(levels)] for b in range(batch)]
    means = [sum(entropy[b][k] for b in range(batch)) / batch for k in range(levels)]
    by_batch = sum(max(means[k] - means[k - 1], 0) for k in range(1, levels))
    by_sample = sum(max(e[k] - e[k - 1], 0) for e in entropy for k in range(1, levels)) / batch
    pairs = 0.0
    for b in range(batch):
        odds = [slow_log_odds(rows[b][k], true[b]) for k in range(levels)]
        for k in range(1, levels):
            pairs += sum(max(odds[j] - odds[k] + 0.5, 0) for j in range(k)) / k / batch

    follow = 0.0
    for b in range(batch):
        for coarser, finer in itertools.pairwise(rows[b]):
            gaps = [slow_cross_entropy(finer, c) - slow_cross_entropy(coarser, c) for c in range(len(finer))]
            follow += sum(math.exp(-slow_cross_entropy(coarser, c)) * gap for c, gap in enumerate(gaps)) / batch

    losses = level_cross_entropy(logits, labels)
    assert torch.allclose(losses, torch.tensor(entropy, dtype=torch.float64))
    assert math.isclose(consistency_hinge(losses).item(), by_batch, abs_tol=1e-12)
    assert math.isclose(consistency_hinge(losses, "sample").item(), by_sample, abs_tol=1e-12)
    assert math.isclose(log_odds_hinge(logits, labels, 0.5).item(), pairs, abs_tol=1e-9)
    for hinge, penalty in (("none", 0.0), ("batch", by_batch), ("sample", by_sample), ("pairs", pairs)):
        total = scale_loss(logits, labels, hinge, weight=0.3, margin=0.5)
        assert math.isclose(total.item(), sum(means) + 0.3 * penalty, abs_tol=1e-9)
        total = scale_loss(logits, labels, hinge, weight=0.3, margin=0.5, follow=0.7)
        assert math.isclose(total.item(), sum(means) + 0.3 * penalty + 0.7 * follow, abs_tol=1e-9)
    assert math.isclose(level_divergence(logits).item(), follow, abs_tol=1e-9)
    mean = scale_loss(logits, labels, "none", levels="mean")
    assert math.isclose(mean.item(), sum(means) / levels, abs_tol=1e-12)


@pytest.mark.parametrize("hinge", ["none", "batch", "sample", "pairs"])
def test_gradients_are_those_of_finite_differences(hinge: str) -> None:
    logits, labels = draw(2, 3, 3)
    assert torch.autograd.gradcheck(lambda z: scale_loss(z, labels, hinge), logits.requires_grad_())


def test_a_finer_level_follows_and_a_coarser_one_is_left_alone() -> None:
    logits, _ = draw(2, 3, 4)
    level_divergence(logits.requires_grad_()).backward()
    coarser, finer = logits[:, :-1].detach().softmax(-1), logits[:, 1:].detach().softmax(-1)
    assert logits.grad is not None
    assert torch.equal(logits.grad[:, 0], torch.zeros_like(logits.grad[:, 0]))
    torch.testing.assert_close(logits.grad[:, 1:], (finer - coarser) / 2)  # of a batch of two


def test_logits_without_levels_are_one_level() -> None:
    logits, labels = draw(4, 1, 5)
    for hinge in ("none", "batch", "sample", "pairs"):
        assert torch.equal(scale_loss(logits[:, 0], labels, hinge, follow=1.0), scale_loss(logits, labels, "none"))


def test_log_odds_of_a_large_margin_stay_finite() -> None:
    logits = torch.tensor([[[500.0, 0.0], [-500.0, 0.0]]], requires_grad=True)
    loss = log_odds_hinge(logits, torch.tensor([0]))
    loss.backward()
    assert loss.item() == 1000.5
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda z, y: scale_loss(z, y, "pair"), "unknown hinge 'pair'"),
        (lambda z, y: scale_loss(z, y, levels="max"), "levels must be one of sum, mean"),
        (lambda z, y: level_cross_entropy(z, y[:1]), "expected 2 labels"),
        (lambda z, y: level_cross_entropy(z[0, 0], y), "expected logits"),
        (lambda z, y: consistency_hinge(level_cross_entropy(z, y), "max"), "unknown reduction 'max'"),
    ],
)
def test_a_wrong_argument_is_named(call, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(*draw(2, 3, 4))
