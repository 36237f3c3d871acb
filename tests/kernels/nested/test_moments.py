"""Moments of a batch have the values and gradients of the specification."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.functional import grids
from tests.kernels.twins import DTYPES, assert_twins, operators


@given(st.integers(1, 3), st.sets(st.integers(0, 3), min_size=1, max_size=3), st.integers(1, 5), DTYPES)
def test_level_moments(axes, bands, images, dtype):
    torch.manual_seed(0)
    boxes = [(k,) * axes for k in sorted(bands)]
    x = torch.randn(images, 2, *grids(boxes[-1]), dtype=dtype) + 3

    def function(x):
        return torch.stack(kernels.level_moments(x, boxes))

    assert_twins(function, [x])


def test_the_operator_runs_and_has_a_second_derivative():
    x = torch.randn(3, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    boxes = [(1, 1), (2, 2)]
    (_, variance), ran = operators(lambda: kernels.level_moments(x, boxes))
    assert ran == {"power"}
    torch.testing.assert_close(variance, F.level_moments(x, boxes)[1])
    assert torch.autograd.gradgradcheck(lambda x: kernels.level_moments(x, boxes)[1], (x,))


def test_a_large_mean_does_not_spoil_the_variance():
    coeffs = torch.randn(4, 1, 9, 9)
    shifted = coeffs.clone()
    shifted[..., 0, 0] += 2.0**14
    a, b = (kernels.level_moments(c, [(1, 1), (4, 4)])[1] for c in (coeffs, shifted))
    torch.testing.assert_close(a, b, atol=0, rtol=1e-3)
