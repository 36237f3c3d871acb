"""DSS: its blur is Lindeberg's, its convolution is a sum over taps and moves scales exactly when an image is halved."""

import math

import pytest
import torch
from torch import nn

from fourierscale.lab.baselines.dss import DilatedScaleConv2d, GaussianLift, build_dss_stl10, discrete_gaussian
from fourierscale.testing import relative_error


def bessel(n, t):
    """The power series of the modified Bessel function."""
    return sum((t / 2) ** (2 * m + n) / (math.factorial(m) * math.factorial(m + n)) for m in range(60))


@pytest.mark.parametrize("t", [0.1875, 0.75, 3.75, 15.75])
def test_the_blur_is_lindebergs_discrete_gaussian(t):
    half = 4 * math.ceil(math.sqrt(t))
    expected = torch.tensor([math.exp(-t) * bessel(abs(n), t) for n in range(-half, half + 1)], dtype=torch.float64)
    torch.testing.assert_close(discrete_gaussian(t, half), expected / expected.sum(), rtol=0, atol=1e-14)


def test_variances_of_the_blur_add_up():
    wide = discrete_gaussian(0.75, 30)[None, None]
    twice = nn.functional.conv1d(discrete_gaussian(3.0, 30)[None, None], wide, padding=30)
    torch.testing.assert_close(twice[0, 0], discrete_gaussian(3.75, 30), rtol=0, atol=1e-12)


def test_the_lift_is_the_image_and_its_blurs():
    lift = GaussianLift(3, 0.5).double()
    x = torch.randn(2, 3, 20, 14, dtype=torch.float64)
    y = lift(x)
    assert y.shape == (2, 3, 3, 20, 14)
    torch.testing.assert_close(y[:, :, 0], x)
    for s, (t, half) in enumerate([(0.75, 4), (3.75, 8)], start=1):
        taps = discrete_gaussian(t, half)
        kernel = (taps[:, None] * taps).expand(3, 1, -1, -1)
        expected = nn.functional.conv2d(x, kernel, padding=half, groups=3)
        torch.testing.assert_close(y[:, :, s], expected, rtol=0, atol=1e-6)  # taps are kept in single precision


@pytest.mark.parametrize(("extent", "stride", "size"), [(1, 1, 7), (2, 1, 3), (2, 2, 3), (1, 2, 1)])
def test_the_convolution_is_its_sum_over_taps(extent, stride, size):
    scales, height, width = 3, 9, 8
    conv = DilatedScaleConv2d(2, 3, size, scales, extent, stride).double()
    x = torch.randn(2, 2, scales + extent - 1, height, width, dtype=torch.float64)
    expected = torch.zeros(2, 3, scales, height, width, dtype=torch.float64)
    middle = size // 2
    for s in range(scales):
        for e in range(extent):
            for i in range(size):
                for j in range(size):
                    down, right = 2**s * (i - middle), 2**s * (j - middle)
                    for p in range(max(0, -down), min(height, height - down)):
                        for q in range(max(0, -right), min(width, width - right)):
                            seen = x[:, :, s + e, p + down, q + right]
                            expected[:, :, s, p, q] += seen @ conv.weight[:, :, e, i, j].T
    torch.testing.assert_close(conv(x), expected[..., ::stride, ::stride])


@pytest.mark.parametrize("extent", [1, 2])
def test_halving_moves_the_scales_of_a_convolution_exactly(extent):
    """x'[s](p) = x[s + 1](2p) gives y'[s](p) = y[s + 1](2p), borders included, and through ReLUs and further layers."""
    first = DilatedScaleConv2d(2, 4, 7, 4 - (extent - 1), extent).double()
    second = DilatedScaleConv2d(4, 3, 3, 4 - 2 * (extent - 1), extent).double()
    x = torch.randn(2, 2, 4, 32, 24, dtype=torch.float64)
    halved = x[:, :, 1:, ::2, ::2]
    y = second(torch.relu(first(x)))
    shorter = [DilatedScaleConv2d(c.in_channels, c.out_channels, c.kernel_size, c.scales - 1, extent).double()
               for c in (first, second)]  # fmt: skip
    for conv, whole in zip(shorter, (first, second), strict=True):
        conv.load_state_dict(whole.state_dict())
    moved = shorter[1](torch.relu(shorter[0](halved)))
    torch.testing.assert_close(moved, y[:, :, 1:, ::2, ::2], rtol=0, atol=1e-12)


def test_halving_moves_the_scales_of_the_lift_nearly_and_the_better_the_more_blur_it_has():
    """Blur and halve, then lift: the next scale of the lift, halved. On a grid small blurs let aliases through.

    Noise with the blur that the lift takes it to have is the hardest such image.
    """
    errors = []
    noise = torch.randn(1, 1, 128, 128, dtype=torch.float64)
    for zero_scale in (0.25, 0.5, 1.0):
        fine = discrete_gaussian(zero_scale**2, 12)
        x = nn.functional.conv2d(noise, (fine[:, None] * fine)[None, None], padding=12)
        lift = GaussianLift(3, zero_scale).double()
        lifted = lift(x)
        halved = lift(lifted[:, :, 1, ::2, ::2])
        inside = (..., slice(16, 48), slice(16, 48))
        assert torch.equal(halved[:, :, 0], lifted[:, :, 1, ::2, ::2])
        errors.append(relative_error(halved[:, :, 1][inside], lifted[:, :, 2, ::2, ::2][inside]))
    assert 0.3 < errors[0] < 1  # the digits' blur of a quarter of a pixel lets aliases through
    assert errors[1] < 0.2
    assert errors[2] < 1e-3


def test_weights_begin_near_the_identity():
    conv = DilatedScaleConv2d(4, 6, 3, 2, extent=2, init="delta")
    groups = 2
    for b in range(6):
        for a in range(4):
            same = a * groups // 4 == b * groups // 6
            for e in range(2):
                middle = conv.weight[b, a, e, 1, 1].item()
                assert middle == pytest.approx(groups / 6) if same else abs(middle) <= 0.01
    others = conv.weight.detach().clone()
    others[..., 1, 1] = 0
    assert 0.005 < others.abs().max() <= 0.01
    he = DilatedScaleConv2d(16, 64, 7, 2)
    assert he.weight.std().item() == pytest.approx(math.sqrt(2 / (49 * 16)), rel=0.02)


def test_the_residual_net_goes_from_four_scales_to_two():
    net = build_dss_stl10(widths=(2, 4, 6, 4)).eval()
    seen = []
    for block in net.blocks:
        block.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape[2:])))
    assert net.features(torch.rand(1, 3, 32, 32)).shape == (1, 4, 8, 8)
    assert seen == [(3, 32, 32)] * 2 + [(2, 16, 16)] * 2 + [(2, 8, 8)] * 2


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="must be odd, got 4"):
        DilatedScaleConv2d(1, 1, 4, 2)
    with pytest.raises(ValueError, match="choose one of he, delta"):
        DilatedScaleConv2d(1, 1, 3, 2, init="zero")
    with pytest.raises(ValueError, match=r"at least 3 scales, height, width\), got \(1, 1, 2, 8, 8\)"):
        DilatedScaleConv2d(1, 1, 3, 2, extent=2)(torch.rand(1, 1, 2, 8, 8))
    with pytest.raises(ValueError, match="at least 3 scales, got 2"):
        build_dss_stl10(scales=2)
