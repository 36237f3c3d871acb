import itertools

import pytest
import torch
from torch.nn import functional as TF

from fourierscale.functional import (
    analyze,
    axis_bands,
    band,
    crop,
    delta_spectrum,
    fourier_conv,
    grids,
    local_spectrum,
    local_spectrum_from_dft,
    synthesize,
)
from fourierscale.nn import LocalFourierConv1d, LocalFourierConv2d, LocalFourierConv3d
from tests import definitions

CONVS = {1: (LocalFourierConv1d, TF.conv1d), 2: (LocalFourierConv2d, TF.conv2d), 3: (LocalFourierConv3d, TF.conv3d)}


@pytest.mark.parametrize(("size", "kernel"), [((7,), (3,)), ((8,), (4,)), ((5, 6), (3, 2)), ((4, 3, 5), (3, 1, 2))])
def test_convolution_is_a_product_with_the_kernels_dft_at_each_frequency(size, kernel):
    x = torch.randn(2, *size, dtype=torch.float64)
    taps = torch.randn(1, 2, *kernel, dtype=torch.float64)
    y = fourier_conv(analyze(x, len(size)), local_spectrum(taps, size))
    ours = definitions.spectrum_of(y[0])
    box = axis_bands(size)
    inputs = [definitions.dft(x[c], box) for c in range(2)]
    kernels = [definitions.kernel_spectrum(taps[0, c], size, box) for c in range(2)]
    for p in itertools.product(*(definitions.frequencies(k) for k in box)):
        assert abs(ours[p] - sum(k[p] * v[p] for k, v in zip(kernels, inputs, strict=True))) < 1e-11


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n", [9, 10])
def test_at_its_reference_size_the_layer_is_torchs_circular_convolution(axes, taps, n):
    layer_class, conv = CONVS[axes]
    layer = layer_class(2, 3, taps, reference_size=n).double()
    x = synthesize(analyze(torch.randn(2, 2, *(n,) * axes, dtype=torch.float64), axes), (n,) * axes)
    left = (taps - 1) // 2
    padded = TF.pad(x, (left, taps - 1 - left) * axes, mode="circular")
    expected = conv(padded, layer.weight, layer.bias)
    if n % 2 == 0:  # torch keeps the Nyquist bin of an even grid, which band-limited input leaves empty
        expected = synthesize(analyze(expected, axes), (n,) * axes)
    torch.testing.assert_close(synthesize(layer(analyze(x, axes)), (n,) * axes), expected)


@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(("reference", "size"), [(7, 7), (8, 8), (12, 5), (9, 15)])
def test_the_papers_closed_form_is_the_spectrum_of_the_taps(taps, reference, size):
    kernel = torch.randn(2, 3, taps, taps, dtype=torch.float64)
    kernel_dft = torch.fft.fftn(kernel, dim=(-2, -1), norm="forward")
    torch.testing.assert_close(
        local_spectrum_from_dft(kernel_dft, reference, size), local_spectrum(kernel, reference, size)
    )


def test_the_closed_form_is_the_papers_sum_up_to_its_factor_and_centring():
    taps, reference = torch.randn(5, dtype=torch.float64), 12
    kernel_dft = torch.fft.fft(taps, norm="forward")
    spectrum = local_spectrum_from_dft(kernel_dft, (reference,))
    for p in range(1, band(reference) + 1):
        paper = definitions.paper_kernel_spectrum(kernel_dft, reference, p)
        centred = complex(spectrum[2 * p - 1], -spectrum[2 * p])
        phase = torch.exp(torch.tensor(2j * torch.pi * p * (5 // 2) / reference)).item()
        assert abs(paper * reference * phase - centred) < 1e-6


def test_the_imaginary_half_of_a_free_complex_kernel_is_dead():
    kernel_dft = torch.randn(1, 1, 3, 3, dtype=torch.complex128)
    taps = torch.fft.ifftn(kernel_dft, dim=(-2, -1), norm="forward").real
    torch.testing.assert_close(local_spectrum_from_dft(kernel_dft, 8), local_spectrum(taps, 8))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolution_is_linear_in_both_and_an_impulse_changes_nothing(axes):
    size = (7,) * axes
    x, z = torch.randn(2, 2, *size, dtype=torch.float64)
    a, b = (local_spectrum(torch.randn(3, 2, *(3,) * axes, dtype=torch.float64), size) for _ in range(2))
    torch.testing.assert_close(fourier_conv(x + 2 * z, a), fourier_conv(x, a) + 2 * fourier_conv(z, a))
    torch.testing.assert_close(fourier_conv(x, a - 3 * b), fourier_conv(x, a) - 3 * fourier_conv(x, b))
    impulse = delta_spectrum(torch.eye(2, dtype=torch.float64), size)
    torch.testing.assert_close(fourier_conv(x, impulse), x)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_transposed_kernel_turned_round_is_the_adjoint(axes):
    size = (5,) * axes
    taps = torch.randn(3, 2, *(3,) * axes, dtype=torch.float64)
    turned = taps.flip(tuple(range(2, 2 + axes))).transpose(0, 1)
    x, y = torch.randn(2, *size, dtype=torch.float64), torch.randn(3, *size, dtype=torch.float64)
    left = (fourier_conv(x, local_spectrum(taps, size)) * y).sum()
    torch.testing.assert_close(left, (x * fourier_conv(y, local_spectrum(turned, size))).sum())


def test_frequencies_beyond_the_input_are_ignored():
    spectrum = local_spectrum(torch.randn(2, 2, 3, 3, dtype=torch.float64), 11)
    x = torch.randn(1, 2, 11, 11, dtype=torch.float64)
    torch.testing.assert_close(fourier_conv(crop(x, 6), spectrum), crop(fourier_conv(x, spectrum), 6))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gradcheck_of_convolution_and_spectra(axes):
    taps = torch.randn(2, 2, *(2,) * axes, dtype=torch.float64, requires_grad=True)
    x = torch.randn(1, 2, *grids((1,) * axes), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c, k: fourier_conv(c, local_spectrum(k, (4,) * axes)), (x, taps))
    dft = torch.randn(1, 1, *(2,) * axes, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: local_spectrum_from_dft(k, (4,) * axes), dft)
    weight = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: delta_spectrum(w, (4,) * axes), weight)
