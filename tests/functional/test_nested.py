import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale import Levels
from fourierscale.functional import (
    InstanceNorm,
    analyze,
    axis_bands,
    band,
    crop,
    grids,
    nested_activation,
    nested_map,
    nested_merge,
    nested_pool,
    plan_levels,
    pool_samples,
    synthesize,
)
from fourierscale.testing import assert_scale_equivariant
from tests import definitions


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize(("n", "resolutions"), [(7, range(1, 8)), (9, [4, 6, 9]), (8, [3, 5])])
def test_activation_is_the_papers_equation(axes, n, resolutions):
    coeffs = analyze(torch.randn((n,) * axes, dtype=torch.float64), axes)
    levels = sorted({definitions.half(r) for r in resolutions} | {definitions.half(n)})
    paper = definitions.nonlinearity(definitions.spectrum_of(coeffs), levels, torch.relu)
    ours = definitions.spectrum_of(nested_activation(coeffs, resolutions, torch.relu, axes=axes))
    assert ours.keys() == paper.keys()
    assert all(abs(ours[k] - paper[k]) < 1e-12 for k in paper)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize(("window", "n"), [(2, 13), (3, 14)])
@pytest.mark.parametrize(("kind", "function"), [("max", torch.amax), ("average", torch.mean)])
def test_pooling_is_the_papers_equation(axes, window, n, kind, function):
    coeffs = analyze(torch.randn((n,) * axes, dtype=torch.float64), axes)
    levels = range(definitions.half(n) // window + 1)
    paper = definitions.pooling(definitions.spectrum_of(coeffs), levels, window, function)
    ours = definitions.spectrum_of(nested_pool(coeffs, "all", window, kind, axes=axes))
    assert ours.keys() == paper.keys()
    assert all(abs(ours[k] - paper[k]) < 1e-12 for k in paper)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize(("rate", "n"), [(1, 7), (2, 9), (3, 8)])
def test_a_merge_is_its_definition(axes, rate, n):
    fine = analyze(torch.randn((n,) * axes, dtype=torch.float64), axes)
    coarse = torch.randn((2 * (band(n) // rate) + 1,) * axes, dtype=torch.float64)
    big, low = definitions.spectrum_of(fine), definitions.spectrum_of(coarse)
    slow = {}
    for level in range(band(n), -1, -1):
        read = definitions.truncate(big, (level,) * axes)
        for k, value in definitions.truncate(low, (level // rate,) * axes).items():
            read[k] = read[k] + value
        samples = torch.relu(definitions.idft(read, (2 * level + 1,) * axes))
        slow |= definitions.dft(samples, (level,) * axes)
    ours = definitions.spectrum_of(nested_merge(fine, coarse, "all", rate, torch.relu, axes=axes))
    assert ours.keys() == slow.keys()
    assert all(abs(ours[k] - slow[k]) < 1e-12 for k in slow)


def test_a_merge_normalises_the_sum():
    fine, coarse = torch.randn(2, 3, 15, 15).double(), torch.randn(2, 3, 7, 7).double()
    seen = []
    nested_merge(fine, coarse, [5, 15], 2, lambda x: seen.append(x) or x, norm=InstanceNorm(eps=0.0))
    assert [x.shape[-1] for x in seen] == [15, 5]
    for x in seen:
        torch.testing.assert_close(x.mean((-2, -1)), torch.zeros(2, 3, dtype=torch.float64))
        torch.testing.assert_close(x.square().mean((-2, -1)), torch.ones(2, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="an input of rate 2 must have band"):
        nested_merge(fine, coarse[..., :5, :5], [5, 15], 2, torch.relu)


def test_instance_norm_gives_each_level_mean_zero_and_variance_one():
    coeffs = 5 + 3 * torch.randn(2, 3, 15, 15, dtype=torch.float64)
    seen = []

    def look(x):
        seen.append(x)
        return x

    nested_activation(coeffs, [5, 9, 15], look, norm=InstanceNorm(eps=0.0))
    assert [x.shape[-1] for x in seen] == [15, 9, 5]
    for x in seen:
        torch.testing.assert_close(x.mean((-2, -1)), torch.zeros(2, 3, dtype=torch.float64))
        torch.testing.assert_close(x.square().mean((-2, -1)), torch.ones(2, 3, dtype=torch.float64))


def test_instance_norm_agrees_with_torchs_on_the_samples_of_a_level():
    coeffs = torch.randn(2, 3, 9, 9)
    weight, bias = torch.rand(1, 3), torch.rand(1, 3)
    ours = nested_activation(coeffs, [9], torch.relu, norm=InstanceNorm(weight, bias))
    samples = torch.nn.functional.instance_norm(synthesize(coeffs, 9), weight=weight[0], bias=bias[0])
    torch.testing.assert_close(ours, analyze(torch.relu(samples)), atol=1e-5, rtol=1e-5)


def test_a_large_mean_does_not_spoil_the_variance():
    coeffs = torch.randn(1, 1, 9, 9)
    shifted = coeffs.clone()
    shifted[..., 0, 0] += 1e4
    a, b = (nested_activation(c, [5, 9], torch.nn.functional.silu, norm=InstanceNorm()) for c in (coeffs, shifted))
    torch.testing.assert_close(a, b, atol=0.02, rtol=0.02)  # limited by the samples of the shifted image


def test_parameters_belong_to_the_level():
    levels = Levels([5, 9, 15])
    coeffs = torch.randn(1, 1, 15, 15, dtype=torch.float64)
    weight = torch.ones(3, 1, dtype=torch.float64)
    bias = torch.zeros(3, 1, dtype=torch.float64)
    base = nested_activation(coeffs, levels, torch.relu, norm=InstanceNorm(weight, bias))
    bias[1] = 0.3
    changed = nested_activation(coeffs, levels, torch.relu, norm=InstanceNorm(weight, bias))
    difference = (changed - base)[0, 0]
    assert difference[:5, :5].abs().max() == 0
    assert difference[:9, :9].abs().max() > 0.01
    difference[:9, :9] = 0
    assert difference.abs().max() == 0


@given(st.data())
def test_any_function_per_level_commutes_with_cropping(data):
    axes = data.draw(st.integers(1, 2))
    resolutions = sorted(data.draw(st.sets(st.integers(1, 16), min_size=1, max_size=5)))
    n = data.draw(st.integers(max(resolutions), 17))
    pool = data.draw(st.integers(1, 3))
    grid = data.draw(st.sampled_from(["level", "common"]))
    oversample = data.draw(st.sampled_from([1.0, 1.3, 2.0]))

    def function(level, x):
        # A different function on every level, with mixing over space and a strange non-linearity.
        y = torch.sin(3 * x + level.index) + x.flatten(-axes).sum(-1)[(..., *(None,) * axes)].cos() * x.flip(-1)
        return pool_samples(y, pool, "max", axes)

    def g(coeffs):
        return nested_map(coeffs, resolutions, function, axes=axes, pool=pool, grid=grid, oversample=oversample)

    coeffs = torch.randn(1, 2, *grids(axis_bands((n,) * axes)), dtype=torch.float64)
    whole = g(coeffs)
    assert whole.shape[-1] == 2 * (band(n) // pool) + 1
    for r in resolutions:
        small = g(crop(coeffs, (r,) * axes))
        torch.testing.assert_close(small, crop(whole, tuple(small.shape[-axes:])))


def test_a_decoder_merges_two_rates_exactly():
    torch.manual_seed(1)
    resolutions = Levels(range(4, 29))

    def unet(coeffs):
        coarse = nested_pool(coeffs, resolutions, 2)
        coarse = nested_activation(coarse, resolutions.pooled(2), torch.relu)
        merge = [(coeffs, 1), (coarse, 2)]
        return nested_map(merge, resolutions, lambda level, fine, low: torch.relu(fine - low) * low)

    coeffs = analyze(torch.randn(2, 3, 28, 28, dtype=torch.float64))
    assert_scale_equivariant(unet, coeffs, range(4, 28), domain="coefficients")


def test_plain_upsampling_of_a_pooled_feature_is_not_equivariant():
    def naive(coeffs):
        coarse = nested_pool(coeffs, "all", 2)
        padded = torch.zeros_like(coeffs)
        padded[..., : coarse.shape[-2], : coarse.shape[-1]] = coarse
        return nested_map(coeffs, "all", lambda level, x: torch.relu(x)) + padded

    with pytest.raises(AssertionError, match="not scale-equivariant"):
        assert_scale_equivariant(naive, torch.randn(1, 1, 27, 27).double(), [13, 20], domain="coefficients")


def test_a_coarse_input_alone_needs_the_size_of_the_output():
    coarse = torch.randn(1, 1, 13, 13)
    with pytest.raises(ValueError, match="pass size"):
        nested_map([(coarse, 2)], "all", lambda level, x: x)
    assert nested_map([(coarse, 2)], "all", lambda level, x: x, size=28).shape[-1] == 27
    with pytest.raises(ValueError, match="must have band"):
        nested_map([(torch.randn(1, 1, 27, 27), 1), (torch.randn(1, 1, 9, 9), 2)], "all", lambda level, a, b: a)


def test_independent_axes_are_exact_for_every_pair_of_factors():
    levels = Levels.independent(range(3, 14), range(3, 18))
    coeffs = torch.randn(1, 2, 13, 17, dtype=torch.float64)
    pairs = [(a, b) for a in (3, 6, 9, 13) for b in (3, 4, 11, 17)]
    assert_scale_equivariant(lambda c: nested_activation(c, levels, torch.relu), coeffs, pairs, domain="coefficients")


def test_common_grid_is_that_of_the_highest_resolution():
    plan = plan_levels(Levels([8, 28]), (13, 13), grid="common")
    assert [level.grid for level in plan] == [(28, 28), (28, 28)]
    plan = plan_levels(Levels([8, 28]), (20, 20), grid="common")  # an input above the highest needs a larger one
    assert plan[-1].grid == (41, 41)
    assert [level.grid for level in plan_levels(Levels([8, 28]), (13, 13), oversample=1.5)] == [(11, 11), (41, 41)]


def test_an_input_between_two_levels_is_exact_up_to_the_level_below():
    levels = Levels([8, 16, 28])
    coeffs = analyze(torch.randn(1, 1, 28, 28, dtype=torch.float64))
    whole = nested_activation(coeffs, levels, torch.relu)
    between = nested_activation(crop(coeffs, 20), levels, torch.relu)
    torch.testing.assert_close(crop(between, 16), crop(whole, 16))
    assert not torch.allclose(between, crop(whole, 20), atol=1e-3)


def test_inputs_outside_the_set_follow_their_documented_rule():
    levels = Levels([8, 16])
    coeffs = analyze(torch.randn(1, 1, 40, 40, dtype=torch.float64))
    above = nested_activation(coeffs, levels, torch.relu)
    assert_scale_equivariant(lambda c: nested_activation(c, levels, torch.relu), coeffs, [8, 16], domain="coefficients")
    assert above.shape == coeffs.shape
    below = crop(coeffs, 5)
    single = analyze(torch.relu(synthesize(below, 5)))
    torch.testing.assert_close(nested_activation(below, levels, torch.relu), single)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gradcheck_of_the_nested_functions(axes):
    coeffs = torch.randn(1, 2, *grids((2,) * axes), dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
    bias = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)

    def activate(c, w, b):
        return nested_activation(c, [3, 5], torch.nn.functional.silu, axes=axes, norm=InstanceNorm(w, b))

    # fast mode compares along random directions: all of the Jacobian of 3 axes would take minutes
    assert torch.autograd.gradcheck(activate, (coeffs, weight, bias), fast_mode=axes == 3)
    for kind in ("max", "average"):
        assert torch.autograd.gradcheck(
            lambda c, kind=kind: nested_pool(c, [3, 5], 2, kind, axes=axes), coeffs, fast_mode=axes == 3
        )
    assert torch.autograd.gradcheck(
        lambda c, w, b: nested_merge(
            c, c[(..., *(slice(3),) * axes)], [3, 5], 2, torch.tanh, axes=axes, norm=InstanceNorm(w, b)
        ),
        (coeffs, weight, bias),
        fast_mode=axes == 3,
    )
    assert torch.autograd.gradcheck(
        lambda c: nested_map([(c, 1), (c[(..., *(slice(3),) * axes)], 2)], [3, 5], _product, axes=axes),
        coeffs,
        fast_mode=axes == 3,
    )


def _product(level, a, b):
    return torch.tanh(a) * b
