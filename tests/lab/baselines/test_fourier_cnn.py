"""Fourier CNN: a block by its definition, one output per image, and no equivariance."""

import pytest
import torch
from torch.nn import functional as F

from fourierscale import create_model, downscale
from fourierscale.functional import analyze, band, crop, synthesize
from fourierscale.lab.baselines.fourier_cnn import FourierBlock
from fourierscale.testing import equivariance_error, relative_error


@pytest.mark.parametrize(("n", "modes"), [(12, 12), (12, 7), (9, 12), (13, 8)])
def test_a_block_is_a_global_convolution_of_the_low_frequencies_and_a_1x1_of_all(n, modes):
    block = FourierBlock(2, 3, modes)
    x = torch.randn(2, 2, n, n)
    low = crop(analyze(x), min(n, modes))
    assert low.shape[-1] == 2 * min(band(n), band(modes)) + 1
    mixed = synthesize(block.spectral(low), n) + torch.einsum("oi,bihw->bohw", block.pointwise.weight[..., 0, 0], x)
    variance, mean = torch.var_mean(mixed, (2, 3), keepdim=True, correction=0)
    torch.testing.assert_close(block(x), torch.relu((mixed - mean) / (variance + 1e-5).sqrt()))


def test_a_block_commutes_with_circular_shifts_and_its_linear_part_with_downscaling():
    block = FourierBlock(1, 2, 12).double()
    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    torch.testing.assert_close(block(x.roll((3, 5), (2, 3))), block(x).roll((3, 5), (2, 3)))
    linear = lambda x: synthesize(block.spectral(analyze(x)), tuple(x.shape[-2:])) + block.pointwise(x)  # noqa: E731
    assert equivariance_error(linear, downscale(x, 11), 7) < 1e-25
    assert equivariance_error(block, downscale(x, 11), 7) > 1e-3


def test_pooling_rounds_up_and_the_head_sees_one_grid():
    model = create_model("fourier-cnn-stl10", widths=(2, 2, 3, 3, 4, 4), stem=2, hidden=8).eval()
    for n, side in ((96, 24), (95, 24), (49, 13), (48, 12)):
        seen = []
        hook = model.head.inner.register_forward_pre_hook(
            lambda module, inputs, seen=seen: seen.append(inputs[0].shape)
        )
        x = torch.rand(1, 3, n, n)
        assert model(x).shape == (1, 10)
        assert model.features(x).shape[-1] == 2 * band(side) + 1
        assert seen == [(1, 1, 4 * 4)]  # one level, pooled to 2 x 2
        hook.remove()


def test_the_head_is_pooling_on_the_fixed_grid():
    model = create_model("fourier-cnn-mnist", widths=(3,), hidden=8).eval()
    x = torch.rand(2, 1, 11, 11)
    samples = synthesize(model.features(x), 28)
    pooled = F.max_pool2d(samples, 14).flatten(1)
    torch.testing.assert_close(model(x), model.head.outer(model.head.inner(pooled)))


def test_its_features_are_not_equivariant():
    model = create_model("fourier-cnn-mnist", widths=(4, 4)).eval()
    x = torch.randn(1, 1, 28, 28)
    small = model.features(downscale(x, 16))
    assert relative_error(crop(model.features(x), 16), small) > 1e-3
