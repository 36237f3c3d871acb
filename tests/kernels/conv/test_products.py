"""Fourier layers as products have the values and gradients of the specification."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourierscale import kernels
from fourierscale.kernels.conv import butterflies, operator, products
from fourierscale.kernels.conv.samples import choose_way
from fourierscale.nn import FourierConv1d, LocalFourierConv2d, LocalFourierConv3d
from tests.kernels.twins import DTYPES, assert_twins


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([64, 2**20]),
    st.sampled_from([64, 2**20]),
    DTYPES,
    st.sampled_from(["spectrum", "samples"]),
)
def test_local_convolution(axes, in_channels, out_channels, piece, features, dtype, way):
    size, taps = tuple(2 * k + 1 for k, _ in axes), tuple(n for _, n in axes)
    reference = tuple(max(n + 1, t) for n, t in zip(size, taps, strict=True))
    torch.manual_seed(0)
    x = torch.randn(2, in_channels, *size, dtype=dtype)
    weight = torch.randn(out_channels, in_channels, *taps, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "choose_way", lambda *_: way if len(axes) == 2 else "spectrum")
        patch.setitem(products.SPECTRUM_AT_ONCE, "cpu", piece)  # one piece, and many
        patch.setitem(products.FEATURES_AT_ONCE, "cpu", features)
        assert_twins(lambda x, w: kernels.local_conv(x, lambda: w, reference), [x, weight])


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_one_tap_is_one_matrix_for_all_frequencies(axes):
    x = torch.randn(2, 3, *(5,) * axes)
    weight = torch.randn(4, 3, *(1,) * axes)
    assert choose_way(x, weight.shape, (5,) * axes, kept=False) == "pointwise"
    assert_twins(lambda x, w: kernels.local_conv(x, lambda: w, (5,) * axes), [x, weight])


def test_few_images_with_many_channels_are_convolved_on_samples_and_many_by_the_spectrum():
    """As measured: (images, taps, reference, band of the input) to what was faster, with 128 and 256 channels."""
    shape = (256, 128, 5, 5)
    assert choose_way(torch.empty(1, 128, 47, 47), shape, (48, 48), kept=True) == "samples"
    assert choose_way(torch.empty(16, 128, 47, 47), shape, (48, 48), kept=True) == "spectrum"
    assert choose_way(torch.empty(1, 128, 49, 49), shape, (48, 48), kept=True) == "spectrum"  # not on that grid
    assert choose_way(torch.empty(1, 128, 47, device="meta"), (256, 128, 5), (48,), kept=True) == "spectrum"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), DTYPES)
def test_spectrum_convolution(bands, dtype):
    size = tuple(2 * k + 1 for k in bands)
    torch.manual_seed(0)
    x, spectrum = torch.randn(2, 3, *size, dtype=dtype), torch.randn(4, 3, *size, dtype=dtype)
    assert_twins(kernels.spectrum_conv, [x, spectrum])


def test_second_derivatives_go_through_the_fast_path():
    torch.manual_seed(0)
    conv = LocalFourierConv2d(2, 3, 3, 8, pointwise=True).double()
    x = torch.randn(1, 2, 7, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: conv(x) ** 2, (x,))
    spread = torch.randn(3, 5, 1, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: butterflies.gather(butterflies.spread(x) ** 2), (spread,))


@pytest.mark.parametrize(
    "layer", [LocalFourierConv2d(2, 3, (3, 5), 9), LocalFourierConv3d(2, 3, 2, 5), FourierConv1d(2, 3, 9)]
)
def test_layers_reach_the_operators(layer):
    axes = layer.axes
    x = torch.randn(4, 2, *(5,) * axes)
    y = layer(x)
    stored_frequency_first = y.permute(*range(2, y.ndim), 0, 1)
    assert stored_frequency_first.is_contiguous()
    with kernels.backend("torch"):
        torch.testing.assert_close(layer(x), y, atol=1e-5, rtol=1e-4)
