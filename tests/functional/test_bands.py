import pytest
import torch

from fourierscale.functional import as_size, axis_bands, band, grid, grids
from fourierscale.functional.bands import coefficient_bands, frequencies
from tests.definitions import half


@pytest.mark.parametrize("n", range(1, 40))
def test_band_is_the_highest_frequency_strictly_below_nyquist(n):
    assert band(n) == half(n)


@pytest.mark.parametrize("k", range(20))
def test_smallest_grid_holds_its_band_and_no_smaller_one_does(k):
    assert band(grid(k)) == k
    assert k == 0 or band(grid(k) - 1) < k


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_pooled_size_has_the_pooled_band_at_every_resolution(window):
    assert all(band(-(-n // window)) == band(n) // window for n in range(1, 200))


def test_boxes_have_one_entry_per_axis():
    assert axis_bands((28, 33, 1)) == (13, 16, 0)
    assert grids((13, 0)) == (27, 1)
    assert as_size(5) == (5, 5)
    assert as_size((5,)) == (5,)


def test_frequencies_follow_the_order_of_the_coefficients():
    assert frequencies(5, torch.float32, torch.device("cpu")).tolist() == [0, 1, 1, 2, 2]


def test_coefficient_bands_notices_an_even_image():
    assert coefficient_bands(torch.zeros(2, 5, 7), 2) == (2, 3)
    with pytest.raises(ValueError, match="odd number of entries"):
        coefficient_bands(torch.zeros(2, 4, 7), 2)
