"""Layers with kernels at several scales: they are their definitions."""

import math

import pytest
import torch
from torch import nn

from fourierscale.lab.baselines.parts.disco_fit import disco_basis
from fourierscale.lab.baselines.parts.hermite import hermite_basis
from fourierscale.lab.baselines.parts.steerable import LiftingConv2d, ScaleConv2d
from fourierscale.testing import relative_error


def test_a_scaled_image_gives_the_scaled_response():
    """Blobs, and the same blobs twice as large: a relative squared error below 1e-6 where kernels are resolved."""

    def blobs(scale, side):
        u = (torch.arange(side, dtype=torch.float64) - side // 2) / scale
        grid = torch.stack(torch.meshgrid(u, u, indexing="ij"))
        centres = torch.tensor([[0.0, 0.0], [6.0, -4.0], [-5.0, 7.0]], dtype=torch.float64)
        far = (grid - centres[:, :, None, None]).square().sum(1)
        return torch.exp(-far / torch.tensor([18.0, 10.0, 14.0])[:, None, None]).sum(0)[None, None]

    basis = hermite_basis(29, (1.7, 3.4), 9)
    conv = LiftingConv2d(1, 5, basis).double()
    conv.basis = basis
    inside = (..., slice(8, 33), slice(8, 33))
    base = conv(blobs(1, 41))[:, :, 0][inside]
    large = conv(blobs(2, 81))[..., ::2, ::2]
    same, wrong = (relative_error(large[:, :, s][inside], base) for s in (1, 0))
    assert same < 1e-6
    assert wrong > 0.05


@pytest.mark.parametrize("stride", [1, 2])
def test_lifting_is_a_loop_over_scales(stride):
    basis = hermite_basis(7, (0.9, 1.27, 1.79), 9)
    conv = LiftingConv2d(2, 4, basis, stride).double()
    conv.basis = basis
    conv.bias.data.normal_()
    x = torch.randn(3, 2, 9, 12, dtype=torch.float64)
    y = conv(x)
    for s in range(3):
        kernel = sum(conv.weight[:, :, 0, i, None, None] * basis[i, s] for i in range(9))
        expected = nn.functional.conv2d(x, kernel, conv.bias, stride, padding=3)
        torch.testing.assert_close(y[:, :, s], expected)


@pytest.mark.parametrize(("extent", "stride"), [(1, 1), (2, 1), (3, 2)])
def test_scale_convolution_is_a_loop_over_scales(extent, stride):
    basis = hermite_basis(7, (0.9, 1.27, 1.79), 9)
    conv = ScaleConv2d(2, 4, basis, extent, stride).double()
    conv.basis = basis
    conv.bias.data.normal_()
    x = torch.randn(3, 2, 3, 9, 12, dtype=torch.float64)
    y = conv(x)
    for s in range(3):
        expected = conv.bias[:, None, None]
        for e in range(min(extent, 3 - s)):
            kernel = sum(conv.weight[:, :, e, i, None, None] * basis[i, s] for i in range(9))
            expected = expected + nn.functional.conv2d(x[:, :, s + e], kernel, None, stride, padding=3)
        torch.testing.assert_close(y[:, :, s], expected)


def test_weights_begin_like_a_convolution_of_as_many_weights():
    conv = LiftingConv2d(8, 40, hermite_basis(15, (1.7, 2.45, 3.54, 5.1), 49, "B"))
    bound = 1 / math.sqrt(8 * 49)
    assert bound * 0.99 < conv.weight.abs().max().item() <= bound
    assert conv.bias.abs().max() == 0


def test_zeros_between_and_around_the_taps_are_left_out_and_nothing_changes():
    torch.manual_seed(0)
    layer = ScaleConv2d(3, 4, disco_basis(5, 3, (1.0, 1.41, 2.0))).double()
    assert layer.taps == [(slice(1, 4, 1), 1), (slice(0, 5, 1), 1), (slice(0, 5, 2), 2)]
    x = torch.randn(2, 3, 3, 9, 10, dtype=torch.float64)
    got = layer(x)
    layer.taps = [(slice(None), 1)] * 3
    torch.testing.assert_close(got, layer(x))


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match=r"functions, scales, size, size"):
        LiftingConv2d(1, 2, torch.ones(9, 5, 5))
    with pytest.raises(ValueError, match=r"\(batch, 2, 3, height, width\)"):
        ScaleConv2d(2, 4, hermite_basis(7, (0.9, 1.27, 1.79), 9))(torch.rand(1, 2, 9, 9))
