"""SS-CNN's layer: the waves, the steering, and one convolution against a loop over sizes."""

import cmath
import math

import pytest
import torch
from torch.nn import functional as F

from fourierscale.lab.baselines.ss_cnn import SteerableConv2d, log_polar_waves, wave_numbers

ORDERS = (0.5, 1.0, 2.0)
SIZES = (5, 7, 9, 11, 13)


def wave(row, column, order, phi, largest):
    """The basis function at any point of the plane, by its definition, without norm and mask."""
    radius = math.hypot(row, column)
    theta = math.atan2(column, -row)
    apart = min(abs(theta - phi + turn * math.pi) for turn in range(-2, 3))
    number = 2 * math.pi * order / math.log(largest // 2 * math.sqrt(2))
    amplitude = math.exp(-(apart**2) / (2 * (math.pi / 16) ** 2)) / radius
    return amplitude * cmath.exp(1j * (number * math.log(radius) - math.pi / 4))


def slow_filter(layer, size, reference, largest):
    """Each learned combination, resampled: the continuous filter at positions divided by the scale."""
    scale = size / reference
    norms = torch.linalg.vector_norm(_unnormed(largest), dim=(2, 3))
    weight = torch.complex(*layer.weight.detach().double())
    half = size // 2
    kernel = torch.zeros(*weight.shape[:2], largest, largest, dtype=torch.float64)
    middle = largest // 2
    for row in range(-half, half + 1):
        for column in range(-half, half + 1):
            if math.hypot(row, column) > middle:
                continue
            for k, order in enumerate(ORDERS):
                for a in range(9):
                    phi = a * math.pi / 8
                    if row == column == 0:  # the middle counts as radius 1, wherever the filter is steered to
                        number = wave_numbers(largest, [order]).item()
                        value = wave(-1, 0, order, phi, largest) * cmath.exp(-1j * number * math.log(scale)) * scale
                    else:
                        value = wave(row / scale, column / scale, order, phi, largest)
                    value *= math.sqrt(2) / norms[k, a].item() / scale
                    kernel[:, :, middle + row, middle + column] += (weight[:, :, k, a] * value).real
    return kernel


def _unnormed(largest):
    values = torch.zeros(len(ORDERS), 9, largest, largest, dtype=torch.complex128)
    middle = largest // 2
    for row in range(-middle, middle + 1):
        for column in range(-middle, middle + 1):
            if math.hypot(row, column) <= middle:
                for k, order in enumerate(ORDERS):
                    for a in range(9):
                        at = (-1, 0) if row == column == 0 else (row, column)
                        values[k, a, middle + row, middle + column] = wave(*at, order, a * math.pi / 8, largest)
    return values


def test_the_waves_are_their_definition():
    unnormed = _unnormed(13)
    expected = unnormed * (math.sqrt(2) / torch.linalg.vector_norm(unnormed, dim=(2, 3), keepdim=True))
    torch.testing.assert_close(log_polar_waves(13, ORDERS), expected)
    assert torch.linalg.vector_norm(expected.real, dim=(2, 3)).mean().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("size", SIZES)
def test_rotating_the_phase_is_resampling_the_filter(size):
    layer = SteerableConv2d(2, 3, 11, SIZES, ORDERS)
    filters = layer.filters()[SIZES.index(size)].double()
    torch.testing.assert_close(filters, slow_filter(layer, size, 11, 13), atol=1e-5, rtol=1e-4)


def test_at_the_reference_size_nothing_is_steered():
    layer = SteerableConv2d(1, 2, 11, SIZES, ORDERS)
    plain = torch.einsum("poika,pkahw->oihw", layer.weight, torch.stack([layer.waves[0], -layer.waves[1]]))
    middle = slice(1, 12)
    torch.testing.assert_close(layer.filters()[3][..., middle, middle], plain[..., middle, middle])


@pytest.mark.parametrize(("sizes", "stride"), [(SIZES, 1), ((3, 5, 7), 2), ((3,), 2)])
def test_one_convolution_is_the_loop_over_sizes(sizes, stride):
    layer = SteerableConv2d(2, 3, 3, sizes, ORDERS, stride).double()
    x = torch.randn(2, 2, 14, 11, dtype=torch.float64)
    responses = []
    for size, kernel in zip(sizes, layer.filters(), strict=True):
        rim = (sizes[-1] - size) // 2
        inner = kernel[..., rim : rim + size, rim : rim + size]
        torch.testing.assert_close(kernel.abs().sum(), inner.abs().sum())
        responses.append(F.conv2d(x, inner, stride=stride, padding=size // 2))
    torch.testing.assert_close(layer(x), torch.stack(responses).amax(0))


def test_initial_weights_are_uniform_within_their_bound_and_constants_are_not_saved():
    layer = SteerableConv2d(20, 30, 3, (3,), (1.0,))
    bound = math.sqrt(2 / (9 * 20 * 30))
    assert layer.weight.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert list(layer.state_dict()) == ["weight"]
