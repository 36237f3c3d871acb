"""What is exported: plain operators with the values of the specification."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fourierscale import functional as F
from fourierscale.functional import Levels
from fourierscale.functional.nested import ACTIVATIONS, plan_levels
from fourierscale.kernels import plain
from fourierscale.kernels.layers import channel_first, frequency_first
from fourierscale.kernels.plans import Options
from fourierscale.nn import LocalFourierConv1d, LocalFourierConv2d, ScaleActivation1d, ScaleActivation2d

odd = st.integers(0, 5).map(lambda k: 2 * k + 1)


def through(function, x, *arguments):
    return channel_first(function(frequency_first(x, 2), *arguments), x.shape[:-3])


@given(odd, odd, st.integers(1, 3), st.integers(0, 99))
def test_mixing_is_the_convolution_of_the_specification(rows, columns, batch, seed):
    torch.manual_seed(seed)
    x = torch.randn(batch, 3, rows, columns, dtype=torch.float64)
    spectrum = torch.randn(4, 3, rows, columns, dtype=torch.float64)
    torch.testing.assert_close(through(plain.fourier_conv, x, spectrum), F.fourier_conv(x, spectrum))


@given(
    st.lists(st.integers(3, 12), min_size=1, max_size=4, unique=True).map(sorted),
    odd,
    odd,
    st.sampled_from(sorted(ACTIVATIONS)),
    st.booleans(),
    st.sampled_from([(1, "max"), (2, "max"), (3, "average")]),
    st.sampled_from([("level", 1.0), ("common", 1.0), ("level", 1.5)]),
)
def test_nested_activation_is_that_of_the_specification(levels, rows, columns, name, norm, pooling, sampling):
    x = torch.randn(2, 3, rows, columns, dtype=torch.float64)
    affine = torch.randn(2, len(Levels(levels)), 3, dtype=torch.float64) if norm else (None, None)
    (pool, kind), (grid, oversample) = pooling, sampling
    plan = plan_levels(Levels(levels), F.bands((rows, columns)), pool=pool, grid=grid, oversample=oversample)
    expected = F.nested_activation(
        x,
        levels,
        ACTIVATIONS[name],
        weight=affine[0],
        bias=affine[1],
        norm=norm,
        pool=pool,
        pool_kind=kind,
        grid=grid,
        oversample=oversample,
    )
    value = through(plain.nested_activation, x, *affine, tuple(plan), Options(name, norm, 1e-5, pool, kind))
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("kind", ["max", "average"])
def test_pooling_of_the_head_is_that_of_the_specification(kind):
    x = torch.randn(2, 3, 9, 7, dtype=torch.float64)
    boxes = [(1, 1), (2, 2), (4, 3)]
    value = plain.level_pool(frequency_first(x, 2), boxes, 5, 2, kind)
    torch.testing.assert_close(value, F.level_pool(x, boxes, 5, 2, kind))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(
    ("conv", "activation"), [(LocalFourierConv2d, ScaleActivation2d), (LocalFourierConv1d, ScaleActivation1d)]
)
def test_programs_hold_operators_of_torch_alone_for_any_number_of_images(conv, activation, gradients):
    net = nn.Sequential(conv(2, 3, 3, 9, pointwise=True), activation(3, [5, 7, 9])).eval()
    x = torch.randn(3, 2, *(9,) * conv.axes)
    with torch.set_grad_enabled(gradients):  # without them a layer would keep its spectrum, which a program cannot
        program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False)
    assert "fourierscale" not in str(program.graph)
    for batch in (1, 3, 4):
        x = torch.randn(batch, 2, *(9,) * conv.axes)
        torch.testing.assert_close(program.module()(x), net(x), atol=1e-6, rtol=1e-5)
