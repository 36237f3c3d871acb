import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale.functional import analyze, axis_bands, crop, grids, synthesize, transform
from tests import definitions

SIZES = [(1,), (2,), (7,), (8,), (5, 4), (1, 6), (3, 4, 5)]


@pytest.fixture(params=["matrix", "fft"])
def route(request, monkeypatch):
    """Both ways of transforming, at any size."""
    monkeypatch.setattr(transform, "FFT_FROM", {"cpu": 1 if request.param == "fft" else 10**9})
    return request.param


@pytest.mark.parametrize("size", SIZES)
def test_analysis_is_the_mean_with_each_basis_function(size, route):
    x = torch.randn(size, dtype=torch.float64)
    torch.testing.assert_close(analyze(x, len(size)), definitions.coefficients(x))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("larger", [0, 1, 4])
def test_synthesis_is_the_sum_of_basis_functions(size, larger, route):
    coeffs = torch.randn(grids(axis_bands(size)), dtype=torch.float64)
    target = tuple(n + larger for n in size)
    torch.testing.assert_close(synthesize(coeffs, target), definitions.samples(coeffs, target))


def test_synthesis_on_too_small_a_grid_aliases_like_sampling(route):
    coeffs = torch.randn(9, 7, dtype=torch.float64)
    torch.testing.assert_close(synthesize(coeffs, (4, 3)), definitions.samples(coeffs, (4, 3)))


def test_spectrum_agrees_with_the_papers_dft(route):
    x = torch.randn(5, 6, dtype=torch.float64)
    band_limited = synthesize(analyze(x), (5, 6))
    ours, paper = definitions.spectrum_of(analyze(x)), definitions.dft(band_limited, (2, 2))
    assert all(abs(ours[k] - paper[k]) < 1e-12 for k in paper)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(0, 5))
def test_round_trip_and_parseval_and_mean(size, larger):
    axes = len(size)
    coeffs = torch.randn(2, *grids(axis_bands(size)), dtype=torch.float64)
    grid = tuple(n + larger for n in grids(axis_bands(size)))
    x = synthesize(coeffs, grid)
    torch.testing.assert_close(analyze(x, axes, tuple(coeffs.shape[1:])), coeffs)
    torch.testing.assert_close(x.square().flatten(1).mean(1), coeffs.square().flatten(1).sum(1))
    torch.testing.assert_close(x.flatten(1).mean(1), coeffs.flatten(1)[:, 0])


@given(st.lists(st.integers(1, 10), min_size=1, max_size=3))
def test_synthesis_is_the_adjoint_of_analysis_up_to_the_grid_size(size):
    axes = len(size)
    x, c = torch.randn(size, dtype=torch.float64), torch.randn(grids(axis_bands(size)), dtype=torch.float64)
    left = (analyze(x, axes) * c).sum() * x.numel()
    torch.testing.assert_close(left, (x * synthesize(c, size)).sum())


def test_matrix_and_fft_give_the_same_coefficients_and_gradients(monkeypatch):
    x = torch.randn(2, 20, 21, dtype=torch.float64, requires_grad=True)
    results = []
    for limit in (1, 10**9):
        monkeypatch.setattr(transform, "FFT_FROM", {"cpu": limit})
        c = analyze(x)
        y = synthesize(c[..., :9, :11], (20, 33))
        results += [(c, y, torch.autograd.grad(y.square().sum(), x)[0])]
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_large_grids_take_the_fft():
    limit = transform.FFT_FROM["cpu"]
    assert transform.uses_fft(limit, torch.zeros(1))
    assert not transform.uses_fft(limit - 1, torch.zeros(1))


def test_half_precision_survives_the_fft(route):
    x = torch.randn(1, 1, 12, 12)
    assert analyze(x.bfloat16()).dtype is torch.bfloat16
    torch.testing.assert_close(analyze(x.bfloat16()).float(), analyze(x), atol=0.05, rtol=0.05)


def test_analysis_to_a_smaller_band_is_analysis_and_crop():
    x = torch.randn(2, 13, 16, dtype=torch.float64)
    torch.testing.assert_close(analyze(x, 2, (6, 9)), crop(analyze(x), (6, 9)))
    with pytest.raises(ValueError, match="does not hold the band"):
        analyze(x, 2, (15, 9))


@pytest.mark.parametrize("size", [(6,), (5, 4), (3, 4, 3)])
def test_gradcheck_of_the_transforms(size, route):
    x = torch.randn(size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: analyze(z, len(size)), x)
    c = torch.randn(grids(axis_bands(size)), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: synthesize(z, tuple(n + 2 for n in size)), c)
