"""Kernels as products of lines: what is such a product, and that nothing changes."""

from __future__ import annotations

import pytest
import torch

from fourierscale.lab.baselines.parts.disco_fit import disco_basis
from fourierscale.lab.baselines.parts.hermite import hermite_basis
from fourierscale.lab.baselines.parts.separable import lines_of
from fourierscale.lab.baselines.parts.steerable import ScaleConv2d
from fourierscale.models import create_model


def test_hermite_functions_of_basis_a_are_products_of_lines_and_others_are_not():
    basis = hermite_basis(7, (0.9, 1.27, 1.79), 9)
    rows, columns = lines_of(basis)
    for b in range(3):
        for a in range(3):
            torch.testing.assert_close(
                basis[3 * b + a], rows[:, a, :, None] * columns[:, b, None, :], rtol=0, atol=1e-13
            )
    assert lines_of(disco_basis(5, 3, (1.0, 1.41, 2.0))) is None
    assert lines_of(hermite_basis(15, (1.7, 2.45, 3.54, 5.1), 49, "B")) is None
    assert lines_of(basis[:8]) is None


@pytest.mark.parametrize(
    ("extent", "stride", "side"), [(1, 1, (12, 9)), (2, 1, (5, 6)), (1, 2, (11, 8)), (3, 3, (2, 7))]
)
def test_line_by_line_is_the_convolution_with_the_kernels(extent, stride, side):
    torch.manual_seed(0)
    layer = ScaleConv2d(4, 5, hermite_basis(7, (0.9, 1.27, 1.79), 9), extent, stride).double()
    assert layer.rows is not None
    x = torch.randn(2, 4, 3, *side, dtype=torch.float64, requires_grad=True)
    y = layer(x)
    kernels = layer.kernels()
    padded = torch.cat([x, x.new_zeros(2, 4, extent - 1, *side)], 2)
    for s in range(3):
        expected = sum(torch.conv2d(padded[:, :, s + e], kernels[:, :, e, s], None, stride, 3) for e in range(extent))
        # the functions and their lines are rounded to single precision, each by itself
        torch.testing.assert_close(y[:, :, s], expected + layer.bias[:, None, None], rtol=1e-5, atol=1e-5)
    upstream = torch.randn_like(y)
    got = torch.autograd.grad(y, (x, layer.weight), upstream)
    layer.rows = layer.columns = None
    expected = torch.autograd.grad(layer(x), (x, layer.weight), upstream)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_nothing_of_it_is_saved_with_the_weights():
    model = create_model("sesn-stl10", widths=(2, 4, 4, 4))
    assert not any(name.endswith(("rows", "columns", "basis")) for name in model.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        assert model.eval()(torch.rand(1, 3, 48, 48)).isfinite().all()
