"""Norms in front of activations: moments of a level, and a scale and a shift of each."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale import Levels
from fourierscale.functional import (
    LevelAffine,
    analyze,
    axis_bands,
    crop,
    grids,
    level_moments,
    nested_activation,
    synthesize,
)
from fourierscale.testing import assert_scale_equivariant


@given(st.integers(1, 3), st.integers(1, 4), st.sets(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 9))
def test_moments_are_those_of_the_samples_on_any_grid_that_holds_the_level(axes, images, bands, seed):
    torch.manual_seed(seed)
    boxes = [(k,) * axes for k in sorted(bands)]
    coeffs = torch.randn(images, 3, *grids(boxes[-1]), dtype=torch.float64)
    mean, variance = level_moments(coeffs, boxes)
    for i, box in enumerate(boxes):
        for more in (1, 4):
            size = tuple(n + more for n in grids(box))
            samples = synthesize(crop(coeffs, tuple(n for n in grids(box))), size).movedim(1, 0).flatten(1)
            torch.testing.assert_close(mean[i], samples.mean(1))
            torch.testing.assert_close(variance[i], samples.var(1, correction=0))


def test_a_large_mean_does_not_spoil_the_variance():
    coeffs = torch.randn(4, 1, 9, 9)
    shifted = coeffs.clone()
    shifted[..., 0, 0] += 2.0**14
    a, b = (level_moments(c, [(1, 1), (4, 4)])[1] for c in (coeffs, shifted))
    torch.testing.assert_close(a, b, atol=0, rtol=1e-3)


def test_moments_have_gradients():
    x = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: level_moments(x, [(0, 0), (1, 1)]), (x,))


def test_on_one_level_it_is_torchs_batch_norm_on_the_samples():
    torch.manual_seed(0)
    coeffs = torch.randn(5, 3, 9, 9, dtype=torch.float64)
    mean, variance = level_moments(coeffs, [(4, 4)])
    scale = (variance + 1e-5).rsqrt()
    ours = nested_activation(coeffs, [9], torch.relu, norm=LevelAffine(scale, -mean * scale))
    samples = torch.nn.functional.batch_norm(synthesize(coeffs, 9), None, None, training=True)
    torch.testing.assert_close(ours, analyze(torch.relu(samples)))


def test_scale_and_shift_belong_to_the_level_and_leave_it_exact():
    torch.manual_seed(0)
    levels = Levels([5, 9, 15])
    norm = LevelAffine(*torch.randn(2, 3, 2, dtype=torch.float64))
    coeffs = torch.randn(1, 2, *grids(axis_bands((15, 15))), dtype=torch.float64)
    assert_scale_equivariant(
        lambda c: nested_activation(c, levels, torch.relu, norm=norm), coeffs, [5, 9], domain="coefficients"
    )
    before = nested_activation(coeffs, levels, torch.relu, norm=norm)
    norm.shift[1] += 0.3
    change = nested_activation(coeffs, levels, torch.relu, norm=norm) - before
    assert change[..., :5, :5].abs().max() == 0 < change[..., :9, :9].abs().max()


def test_a_channel_axis_is_needed():
    with pytest.raises(ValueError, match="channel axis"):
        level_moments(torch.zeros(3, 3), [(1, 1)])
