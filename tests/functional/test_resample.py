import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as TF

from fourierscale.functional import analyze, band, crop, downscale, synthesize, upscale
from tests import definitions


@given(st.integers(1, 40), st.data())
def test_crops_compose(n, data):
    a = data.draw(st.integers(1, n))
    b = data.draw(st.integers(1, a))
    coeffs = analyze(torch.randn(n, n, dtype=torch.float64))
    assert torch.equal(crop(crop(coeffs, a), b), crop(coeffs, b))


@given(st.integers(2, 30), st.data())
def test_ideal_downscaling_composes_exactly_at_odd_and_even_sizes(n, data):
    a, b = sorted(data.draw(st.lists(st.integers(1, n), min_size=2, max_size=2)), reverse=True)
    x = torch.randn(2, n, n + 3, dtype=torch.float64)
    twice = downscale(downscale(x, (a, a)), (b, b))
    torch.testing.assert_close(twice, downscale(x, (b, b)))


def test_ideal_downscaling_keeps_the_frequencies_of_the_papers_equation():
    x = torch.randn(9, dtype=torch.float64)
    small = definitions.idft(definitions.truncate(definitions.dft(x, (4,)), (2,)), (6,))
    torch.testing.assert_close(downscale(x, (6,)), small)


def test_gaussian_downscaling_weights_each_frequency_and_samples():
    x, std = torch.randn(11, dtype=torch.float64), (11 / 5 - 1) / 2
    spectrum = definitions.dft(x, (5,))
    blurred = {k: v * math.exp(-0.5 * (2 * math.pi * k[0] / 11 * std) ** 2) for k, v in spectrum.items()}
    torch.testing.assert_close(downscale(x, (5,), "gaussian"), definitions.idft(blurred, (5,)))
    assert not torch.allclose(downscale(x, (5,), "gaussian", std=0.1), downscale(x, (5,), "gaussian"))


def test_gaussian_downscaling_really_aliases():
    wave = torch.cos(2 * math.pi * 6 * torch.arange(16, dtype=torch.float64) / 16)
    assert downscale(wave, (8,), "ideal").abs().max() < 1e-12
    assert downscale(wave, (8,), "gaussian").abs().max() > 0.1


@pytest.mark.parametrize(
    ("n", "m"), [((28, 28), (14, 14)), ((28, 31), (13, 20)), ((9, 9), (9, 2)), ((96, 50), (1, 49))]
)
def test_bicubic_downscaling_is_torchs_antialiased_one(n, m):
    x = torch.randn(2, 3, *n, dtype=torch.float64)
    expected = TF.interpolate(x, size=m, mode="bicubic", antialias=True)
    torch.testing.assert_close(downscale(x, m, "bicubic"), expected)


@pytest.mark.parametrize("kind", ["ideal", "gaussian", "bicubic"])
@pytest.mark.parametrize("size", [(7,), (6, 5), (4, 1, 3)])
def test_every_kind_has_one_signature_keeps_constants_and_passes_gradcheck(kind, size):
    source = tuple(n + 3 for n in size)
    constant = torch.full((2, *source), 3.0, dtype=torch.float64)
    torch.testing.assert_close(downscale(constant, size, kind), torch.full((2, *size), 3.0, dtype=torch.float64))
    x = torch.randn(source, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: downscale(z, size, kind), x)


@given(st.integers(1, 20), st.integers(0, 20))
def test_downscaling_takes_upscaling_back(n, more):
    x = synthesize(torch.randn(2, 2 * band(n) + 1, dtype=torch.float64), (n,))
    torch.testing.assert_close(downscale(upscale(x, (n + more,)), (n,)), x)


def test_gradcheck_of_upscale_and_crop():
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: upscale(z, (6, 7)), x)
    c = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: crop(z, (4, 3)), c)
