"""The pooling of the head as products has the values and gradients of the specification."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.kernels.pool import operator
from tests.kernels.twins import DTYPES, assert_twins, shared


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True),
    st.integers(1, 7),
    st.integers(1, 3),
    st.sampled_from(["max", "average", "both"]),
    DTYPES,
    st.sampled_from([1, 128]),
)
def test_pooling_of_the_head(bands, window, cells, kind, dtype, share):
    bands = sorted(bands)
    torch.manual_seed(0)
    x = torch.randn(2, 3, 2 * bands[-1] + 1, 2 * bands[-1] + 1, dtype=dtype)
    boxes = [(k, k) for k in bands]
    if kind != "average" and bands[-1] == 0 and window > 1:
        return  # a constant: equal samples, of which any one may be the largest
    if kind != "average":
        boxes = [box for box in boxes if box != (0, 0)] or boxes
    with shared(share):
        assert_twins(lambda x: kernels.level_pool(x, boxes, window, cells, kind), [x])
        trained = kernels.level_pool(x.requires_grad_(), boxes, window, cells, kind)
        with torch.no_grad():  # where no maxima have to be found again
            assert torch.equal(kernels.level_pool(x, boxes, window, cells, kind), trained)


def test_pooling_of_levels_that_are_no_chain():
    boxes = [(1, 4), (3, 2), (3, 2), (4, 4)]  # the last one holds all of them
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)

    def function(x):
        apply = F.level_pool if kernels.get_backend() == "torch" else kernels.level_pool
        return apply(x, boxes, 3, 2, "max")

    assert_twins(function, [x])


def test_fused_kernels_are_for_levels_that_are_a_chain(monkeypatch):
    asked = []
    monkeypatch.setattr(operator, "implementation", lambda x, *, fused, plain: asked.append(fused) or "gemm")
    x = torch.randn(1, 2, 9, 9)
    for boxes in ([(1, 1), (4, 4)], [(1, 4), (3, 2), (4, 4)]):
        kernels.level_pool(x, boxes, 3, 2)
    assert asked == [True, False]


def test_large_grids_take_products_where_the_specification_takes_ffts(monkeypatch):
    torch.manual_seed(0)
    x, boxes = torch.randn(1, 2, 251, 9, dtype=torch.float64), [(60, 2), (125, 4)]
    expected = F.level_pool(x, boxes, 126, 2)

    def refuse(*_, **__):
        raise AssertionError("an FFT")

    monkeypatch.setattr(torch.fft, "irfft", refuse)
    torch.testing.assert_close(kernels.level_pool(x, boxes, 126, 2), expected)
    with pytest.raises(AssertionError, match="an FFT"):
        F.level_pool(x, boxes, 126, 2)


def test_second_derivatives_go_through_the_fast_path():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: kernels.level_pool(x, [(1, 1), (2, 2)], 3, 2) ** 2, (x,))
