"""What is exported: plain operators with the values of the specification."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.functional import InstanceNorm, LevelAffine, Levels, Pooling
from fourierscale.kernels.layout import channel_first, frequency_first
from fourierscale.kernels.nested import plain
from fourierscale.kernels.nested.task import Task
from fourierscale.nn import LocalFourierConv1d, LocalFourierConv2d, ScaleActivation1d, ScaleActivation2d

odd = st.integers(0, 5).map(lambda k: 2 * k + 1)


@given(
    st.lists(st.integers(3, 12), min_size=1, max_size=4, unique=True).map(sorted),
    odd,
    odd,
    st.sampled_from(sorted(kernels.ACTIVATIONS)),
    st.sampled_from([None, InstanceNorm, LevelAffine]),
    st.sampled_from([(1, "max"), (2, "max"), (3, "average")]),
    st.sampled_from([("level", 1.0), ("common", 1.0), ("level", 1.5)]),
)
def test_nested_activation_is_that_of_the_specification(levels, rows, columns, name, norm, pooling, sampling):
    x = torch.randn(2, 3, rows, columns, dtype=torch.float64)
    affine = tuple(torch.randn(2, len(Levels(levels)), 3, dtype=torch.float64)) if norm else (None, None)
    pool, (grid, oversample) = Pooling(*pooling), sampling
    plan = F.plan_levels(
        Levels(levels), F.axis_bands((rows, columns)), pool=pool.window, grid=grid, oversample=oversample
    )
    expected = F.nested_activation(
        x,
        levels,
        kernels.ACTIVATIONS[name].function,
        norm=norm(*affine) if norm else None,
        pool=pool,
        grid=grid,
        oversample=oversample,
    )
    task = Task("plain", name, 1e-5 if norm is InstanceNorm else None, pool, tuple(plan), norm is LevelAffine)
    value = channel_first(plain.nested_activation(frequency_first(x, 2), *affine, task), x.shape[:-3])
    torch.testing.assert_close(value, expected)


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
