"""Convolutions by their spectra: the numbers of ``conv2d``, whatever the shapes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourierscale.lab.baselines.parts import same_conv
from fourierscale.lab.baselines.parts.same_conv import same_conv2d, spectrum_pays
from fourierscale.models import create_model


@settings(max_examples=40, deadline=None)
@given(
    sides=st.tuples(st.integers(1, 17), st.integers(1, 17)),
    half=st.integers(4, 8),
    channels=st.tuples(st.integers(2, 4), st.integers(1, 5)),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_conv2d(sides, half, channels, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs, outputs = channels
    x = torch.randn(3, inputs, *sides, dtype=torch.float64, generator=generator)
    size = 2 * half + 1
    kernels = torch.randn(outputs, inputs, size, size, dtype=torch.float64, generator=generator)
    images = x.repeat(400, 1, 1, 1)  # so many that the spectrum pays
    assert spectrum_pays(images, kernels)
    ours = [t.clone().requires_grad_() for t in (x, kernels)]
    theirs = [t.clone().requires_grad_() for t in (x, kernels)]
    y = same_conv2d(ours[0].repeat(400, 1, 1, 1), ours[1])[:3]
    expected = torch.conv2d(*theirs, padding=half)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)
    upstream = torch.randn(expected.shape, dtype=torch.float64, generator=generator)
    y.backward(upstream)
    expected.backward(upstream)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-9)


def test_spectra_have_second_derivatives():
    torch.manual_seed(0)
    x = torch.randn(2, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    kernels = torch.randn(3, 2, 9, 9, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradgradcheck(same_conv._by_spectrum, (x, kernels), fast_mode=True)


def test_small_work_strides_gaps_and_small_kernels_stay_convolutions(monkeypatch):
    monkeypatch.setattr(same_conv, "_by_spectrum", lambda *_: pytest.fail("a spectrum"))
    for images, size, stride, dilation in ((2, 15, 1, 1), (400, 7, 1, 1), (400, 15, 2, 1), (400, 9, 1, 2)):
        x, kernels = torch.rand(images, 2, 8, 8), torch.rand(3, 2, size, size)
        y = same_conv2d(x, kernels, stride, dilation)
        assert torch.equal(y, torch.conv2d(x, kernels, None, stride, size // 2 * dilation, dilation))


def test_a_traced_graph_and_shapes_alone_stay_convolutions(monkeypatch):
    monkeypatch.setattr(same_conv, "_by_spectrum", lambda *_: pytest.fail("a spectrum"))
    kernels = torch.rand(3, 2, 15, 15)
    assert same_conv2d(torch.empty(400, 2, 8, 8, device="meta"), kernels.to("meta")).shape == (400, 3, 8, 8)
    seen = torch.export.export(
        _Conv(kernels), (torch.rand(400, 2, 8, 8),), dynamic_shapes=({0: torch.export.Dim("b")},)
    )
    assert seen.module()(torch.rand(3, 2, 8, 8)).shape == (3, 3, 8, 8)


class _Conv(torch.nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.kernels = torch.nn.Parameter(kernels)

    def forward(self, x):
        return same_conv2d(x, self.kernels)


def test_under_autocast_the_spectrum_is_single_precision_and_the_result_is_not():
    x, kernels = torch.rand(400, 2, 6, 6), torch.randn(3, 2, 9, 9)
    with torch.autocast("cpu", torch.bfloat16):
        y = same_conv2d(x.bfloat16(), kernels)
    assert y.dtype is torch.bfloat16
    expected = torch.conv2d(x.bfloat16().float(), kernels, padding=4)
    torch.testing.assert_close(y.float(), expected, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("name", ["sesn-mnist", "sesn-vector-mnist", "ss-cnn-mnist", "disco-mnist"])
def test_a_net_is_the_same_function_either_way(name, monkeypatch):
    torch.manual_seed(0)
    overrides = {"widths": (2, 3, 4), "hidden": 8}
    model = create_model(name, **overrides).double().eval()
    x = torch.rand(2, 1, 28, 28, dtype=torch.float64)
    expected = model(x)
    calls: list[int] = []
    by_spectrum = same_conv._by_spectrum
    monkeypatch.setattr(same_conv, "PRODUCTS", 0)
    monkeypatch.setattr(same_conv, "_by_spectrum", lambda *a: calls.append(1) or by_spectrum(*a))
    torch.testing.assert_close(model(x), expected, rtol=1e-9, atol=1e-9)
    # the first stage has one channel, which is no product; the others are one convolution each, or one for each scale
    assert len(calls) == {"sesn-vector-mnist": 6, "disco-mnist": 8}.get(name, 2)
