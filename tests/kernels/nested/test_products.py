"""The nested activation as products has the values and gradients of the specification, for any shape and option."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.functional import InstanceNorm, LevelAffine, Levels, Pooling
from fourierscale.functional.nested import plan_levels
from fourierscale.kernels import products
from fourierscale.kernels.layout import frequency_first
from fourierscale.kernels.nested import one_grid
from fourierscale.kernels.nested.factors import make_factors
from fourierscale.kernels.nested.products import statistics
from fourierscale.kernels.nested.task import Task
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d
from fourierscale.testing import assert_scale_equivariant
from tests.kernels.twins import DTYPES, assert_twins, shared


@st.composite
def chains(draw, axes):
    steps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    resolutions = [draw(st.integers(2, 5)) + sum(steps[:i]) for i in range(1)]
    for step in steps:
        resolutions.append(resolutions[-1] + step)
    size = tuple(2 * draw(st.integers(0, 5)) + 1 for _ in range(axes))
    return resolutions, size


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda axes: st.tuples(st.just(axes), chains(axes))),
    st.sampled_from(sorted(kernels.ACTIVATIONS)),
    st.sampled_from([None, InstanceNorm, LevelAffine]),
    st.sampled_from([(1, "max"), (2, "max"), (3, "max"), (2, "average")]),
    st.sampled_from([("level", 1.0), ("common", 1.0), ("level", 1.5)]),
    DTYPES,
    st.integers(0, 99),
    st.sampled_from([1, 3, 128]),
    st.sampled_from([1, 999]),
)
def test_nested_activation(case, activation, norm, pooling, sampling, dtype, seed, share, shortest):
    axes, (resolutions, size) = case
    torch.manual_seed(seed)
    x = torch.randn(2, 3, *size, dtype=dtype)
    levels = Levels(resolutions)
    parameters = [torch.randn(len(levels), 3, dtype=dtype) for _ in range(2)] if norm else []

    def function(x, weight=None, bias=None):
        specified = kernels.get_backend() == "torch"
        apply = F.nested_activation if specified else kernels.nested_activation
        return apply(
            x,
            levels,
            kernels.ACTIVATIONS[activation].function if specified else activation,
            axes=axes,
            norm=norm(weight, bias) if norm else None,
            pool=Pooling(*pooling),
            grid=sampling[0],
            oversample=sampling[1],
        )

    with shared(share), pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_grid, "SHORTEST", shortest)  # levels on one grid from those before them, or one by one
        assert_twins(function, [x, *parameters])


def test_large_grids_take_products_where_the_specification_takes_ffts(monkeypatch):
    torch.manual_seed(0)
    x = torch.randn(1, 2, 251, 9, dtype=torch.float64)
    levels = Levels([(120, 5), (251, 9)])
    expected = F.nested_activation(x, levels, torch.relu)

    def refuse(*_, **__):
        raise AssertionError("an FFT")

    monkeypatch.setattr(torch.fft, "irfft", refuse)
    torch.testing.assert_close(kernels.nested_activation(x, levels, "relu"), expected)
    with pytest.raises(AssertionError, match="an FFT"):
        F.nested_activation(x, levels, torch.relu)
    monkeypatch.setattr(products, "PRODUCTS_UP_TO", {"cpu": 250})
    with pytest.raises(AssertionError, match="an FFT"):
        kernels.nested_activation(x, levels, "relu")


def test_variances_of_large_images_are_exact_to_rounding():
    """In one long product in float32 they were off by up to 4e-4, and differently for every image size."""
    torch.manual_seed(0)
    falling = 1 / torch.arange(1, 512)[:, None, None]
    x = (torch.randn(511, 511, 2) * falling * falling.movedim(0, 1))[:, :, None]
    task = Task("products", "relu", 0.0, Pooling(), tuple(plan_levels(Levels([192, 511]), (255, 255))))
    factors = make_factors(task, (511, 511), torch.float32, x.device)
    scale, _, _ = statistics(x, None, None, factors, task.eps)
    squares = x.double().square()
    squares[0, 0] = 0
    expected = torch.stack([squares[:n, :n].sum((0, 1, 2)).rsqrt() for n in (191, 511)])
    torch.testing.assert_close(scale.double(), expected, rtol=2e-6, atol=0)


def test_second_derivatives_go_through_the_fast_path():
    torch.manual_seed(0)
    activation = ScaleActivation2d(3, [4, 6, 8], "gelu").double()
    x = torch.randn(1, 3, 7, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(activation, (x,))


def test_results_are_stored_frequency_first_and_read_without_a_copy():
    x = torch.randn(2, 3, 9, 9)
    y = ScaleActivation2d(3, [4, 9])(x)
    assert frequency_first(y, 2).data_ptr() == y.data_ptr()
    assert frequency_first(x, 2).data_ptr() != x.data_ptr()


def test_equivariance_is_that_of_the_specification():
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        net = torch.nn.Sequential(
            LocalFourierConv2d(1, 8, 5, 28), ScaleActivation2d(8, range(8, 29)), LocalFourierConv2d(8, 4, 5, 28)
        ).to(dtype)
        x = torch.randn(1, 1, 27, 27, dtype=dtype)
        assert_scale_equivariant(net, x, range(8, 29), domain="coefficients")


def test_squares_that_overflow_make_their_levels_nan_and_no_others():
    coeffs = torch.randn(1, 2, 9, 9)
    coeffs[..., 6, 6] = 1e30
    seen = []
    for name in ("torch", "gemm"):
        with kernels.backend(name):
            seen.append(kernels.nested_activation(coeffs, [5, 9], "relu", norm=InstanceNorm(None, None)))
    torch.testing.assert_close(*seen, equal_nan=True)
    assert seen[0][..., :5, :5].isfinite().all()
    assert seen[0][..., 6, 6].isnan().all()
