import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale.functional import area_average, downscale


def _slow(x, m, mirror=False):
    """One axis: each sample is filled with many points; the mean of those in the cell around each place."""
    n, fine = len(x), 240
    points = [(j + (i + 0.5) / fine - 0.5, float(x[j])) for j in range(n) for i in range(fine)]
    found = []
    for i in range(m):
        middle = (i + 0.5) * n / m - 0.5 if mirror else i * n / m
        inside = [value for place, value in points if abs(place - middle) < n / (2 * m)]
        found.append(sum(inside) / len(inside))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize(("n", "m"), [(6, 3), (9, 6), (8, 5), (7, 7), (5, 1)])
def test_it_is_the_mean_around_each_place(n, m, mirror):
    x = torch.randn(n, dtype=torch.float64)
    found = area_average(x, [m], "mirror" if mirror else "circular")
    torch.testing.assert_close(found, _slow(x, m, mirror), atol=2e-2, rtol=0)


@pytest.mark.parametrize("m", [24, 34, 48, 95])
def test_a_smooth_image_stays_where_ideal_downscaling_puts_it(m):
    """An area around pixel centres would be half a small pixel less half a large one away."""
    n = 96
    line = torch.arange(n, dtype=torch.float64)
    blob = torch.exp(-((line - 51) ** 2) / 200)
    centre = (torch.arange(m) * (n / m) * area_average(blob, [m])).sum() / area_average(blob, [m]).sum()
    ideal = downscale(blob, [m])
    assert float(centre) == pytest.approx(float((torch.arange(m) * (n / m) * ideal).sum() / ideal.sum()), abs=1e-3)
    usual = torch.nn.functional.interpolate(blob[None, None], size=m, mode="area")[0, 0]
    moved = (torch.arange(m) * (n / m) * usual).sum() / usual.sum()
    assert float(moved - centre) == pytest.approx(0.5 - n / m / 2, abs=0.05)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_shares_stay_shares(a, b, c, d, mirror):
    size, target = (max(a, b), max(c, d)), (min(a, b), min(c, d))
    shares = torch.rand(2, 3, *size, dtype=torch.float64).softmax(1)
    found = area_average(shares, target, "mirror" if mirror else "circular")
    assert found.shape == (2, 3, *target)
    assert bool((found >= 0).all())
    torch.testing.assert_close(found.sum(1), torch.ones(2, *target, dtype=torch.float64))


def test_two_axes_are_one_after_the_other_and_every_sample_counts():
    x = torch.randn(5, 6, dtype=torch.float64)
    by_hand = torch.stack([area_average(row, [4]) for row in x])
    by_hand = torch.stack([area_average(column, [3]) for column in by_hand.mT]).mT
    torch.testing.assert_close(area_average(x, (3, 4)), by_hand)
    for index in itertools.product(range(5), range(6)):
        one = torch.zeros(5, 6)
        one[index] = 1
        assert area_average(one, (3, 4)).sum() > 0
    assert torch.autograd.gradcheck(lambda t: area_average(t, (3, 4)), x.requires_grad_())


def test_it_only_shrinks():
    with pytest.raises(ValueError, match="the target is to be smaller"):
        area_average(torch.zeros(4, 4), 5)
