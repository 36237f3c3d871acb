"""Shifts: exact where the grid is shared, and better with more samples where it is not."""

import itertools

import pytest
import torch

from fourierscale.functional import analyze, synthesize
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import TOLERANCE, relative_error


def _shifted(x, fraction):
    """Shift an image by a fraction of its side, exactly, by interpolating its trigonometric polynomial."""
    n, fine = x.shape[-1], 8 * x.shape[-1]
    moved = torch.roll(synthesize(analyze(x), fine), (round(fraction * fine),) * 2, (-2, -1))
    return moved[..., ::8, ::8].reshape(*x.shape[:-2], n, n)


@pytest.mark.parametrize("n", [27, 28])
def test_an_integer_shift_is_exact_on_the_common_grid(n):
    net = torch.nn.Sequential(
        LocalFourierConv2d(2, 4, 5, n),
        ScaleActivation2d(4, range(8, n + 1), grid="common"),
        LocalFourierConv2d(4, 4, 3, n),
        ScaleActivation2d(4, range(8, n + 1), grid="common"),
    )
    block = ScaleEquivariant(net).double()
    x = torch.randn(2, 2, n, n, dtype=torch.float64)
    moved = block(torch.roll(x, (3, -5), (-2, -1)))
    expected = torch.roll(block(x), (3, -5), (-2, -1))
    assert relative_error(moved, expected) <= TOLERANCE[torch.float64]


def test_an_integer_shift_is_exact_for_a_single_level_on_its_own_grid():
    block = ScaleEquivariant(ScaleActivation2d(2, [27])).double()
    x = torch.randn(2, 2, 27, 27, dtype=torch.float64)
    moved, expected = block(torch.roll(x, 4, -1)), torch.roll(block(x), 4, -1)
    assert relative_error(moved, expected) <= TOLERANCE[torch.float64]


def test_the_error_of_a_half_sample_shift_falls_as_oversampling_grows():
    n = 27
    x = synthesize(analyze(torch.randn(4, 3, n, n, dtype=torch.float64)), n)
    errors = []
    for oversample in (1, 2, 3, 4):
        block = ScaleEquivariant(ScaleActivation2d(3, range(8, n + 1), oversample=oversample)).double()
        errors.append(relative_error(block(_shifted(x, 0.5 / n)), _shifted(block(x), 0.5 / n)))
    # Measured: 2.4e-01, 2.9e-03, 3.2e-04, 6.4e-05. ReLU is not band-limited, so the error falls but is never zero.
    assert 0.1 < errors[0] < 0.4
    assert all(later < earlier / 4 for earlier, later in itertools.pairwise(errors))
    assert errors[-1] < 1e-4


def test_a_half_sample_shift_is_exact_on_a_common_grid_of_twice_the_samples():
    n = 27
    x = synthesize(analyze(torch.randn(4, 3, n, n, dtype=torch.float64)), n)
    block = ScaleEquivariant(ScaleActivation2d(3, range(8, n + 1), grid="common", oversample=2)).double()
    assert relative_error(block(_shifted(x, 0.5 / n)), _shifted(block(x), 0.5 / n)) <= TOLERANCE[torch.float64]


def test_a_smooth_activation_needs_less_oversampling():
    n = 27
    x = 0.5 * synthesize(analyze(torch.randn(4, 3, n, n, dtype=torch.float64)), n)
    errors = {}
    for activation in ("relu", "gelu"):
        block = ScaleEquivariant(ScaleActivation2d(3, range(8, n + 1), activation, oversample=3)).double()
        errors[activation] = relative_error(block(_shifted(x, 0.5 / n)), _shifted(block(x), 0.5 / n))
    assert errors["gelu"] < errors["relu"] / 10
