import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourierscale import Levels
from fourierscale.functional import axis_bands


def test_the_papers_resolutions_are_eleven_levels():
    levels = Levels(range(8, 29))
    assert levels.bands == tuple((k,) for k in range(3, 14))
    assert len(levels) == 11


def test_an_input_has_the_levels_that_fit_and_its_own_band():
    levels = Levels([8, 16, 32])
    assert levels.of_input((15, 15)) == ((3, 3), (7, 7), (15, 15))
    assert levels.of_input((9, 9)) == ((3, 3), (7, 7), (9, 9))  # between two levels
    assert levels.of_input((2, 2)) == ((2, 2),)  # below the lowest
    assert levels.of_input((20, 20)) == ((3, 3), (7, 7), (15, 15), (20, 20))  # above the highest
    assert levels.of_input((7, 12)) == ((3, 3), (7, 7), (7, 12))  # square levels, input that is not


def test_a_band_uses_its_own_level_or_the_next_or_the_highest():
    levels = Levels([8, 16, 32])
    assert [levels.index((k, k)) for k in (0, 3, 4, 7, 8, 15, 16, 99)] == [0, 0, 1, 1, 2, 2, 2, 2]


def test_all_means_every_band():
    levels = Levels("all")
    assert levels.of_input((2, 3)) == ((0, 0), (1, 1), (2, 2), (2, 3))
    assert levels.is_open
    assert len(levels) == 1
    assert levels.index((5, 5)) == 0


def test_independent_axes_have_every_combination():
    levels = Levels.independent([3, 7], range(3, 8))
    assert levels.of_input((3, 2)) == ((1, 1), (1, 2), (3, 1), (3, 2))
    assert len(levels) == 6
    assert [levels.index(b) for b in levels.bands] == list(range(6))


def test_geometric_sets_grow_by_a_constant_ratio_and_merge_repeats():
    assert Levels.geometric(2, 5, 9).resolutions == (2, 3, 4, 5)
    assert Levels.geometric((8, 12), (32, 48), 3).resolutions == ((8, 12), (16, 24), (32, 48))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8, unique=True), st.integers(1, 4), st.integers(1, 70))
def test_levels_of_a_crop_are_the_levels_of_the_whole_below_it(resolutions, axes, n):
    levels = Levels(sorted(resolutions))
    whole = levels.of_input(axis_bands((n,) * axes))
    for r in [r for r in resolutions if r <= n]:
        box = axis_bands((r,) * axes)
        assert levels.of_input(box) == whole[: whole.index(box) + 1]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8, unique=True), st.integers(1, 4))
def test_pooled_levels_have_the_pooled_bands(resolutions, window):
    levels = Levels(sorted(resolutions))
    assert [b[0] for b in levels.pooled(window).bands] == sorted({b[0] // window for b in levels.bands})


def test_level_sets_compare_print_and_pickle():
    for levels in (Levels([8, 12]), Levels("all"), Levels.independent([3, 5], [7]), Levels([(4, 6), (8, 12)])):
        assert pickle.loads(pickle.dumps(levels)) == levels
        assert Levels(levels) == levels
        assert hash(Levels(levels)) == hash(levels)
        assert "Levels" in repr(levels)
    assert Levels([8, 12]) != Levels([8, 13])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one resolution"),
        ([8, 7], "must increase, got 8 before 7"),
        ([8, 8], "drop repeats"),
        ([(4, 6), (8, 5)], "must increase"),
        ([0, 4], "at least 1 sample"),
        ([4, (5, 6)], "same number of axes"),
        ("some", "'all'"),
    ],
)
def test_a_wrong_level_set_is_refused_in_one_sentence(bad, message):
    with pytest.raises(ValueError, match=message):
        Levels(bad)


def test_other_mistakes_with_levels_name_the_remedy():
    with pytest.raises(TypeError, match="list or range"):
        Levels([1.5])
    with pytest.raises(TypeError, match="list or range"):
        Levels(28)
    with pytest.raises(ValueError, match="at least 2 steps"):
        Levels.geometric(8, 28, 1)
    with pytest.raises(ValueError, match="above the lowest"):
        Levels.geometric(28, 8, 3)
    with pytest.raises(ValueError, match="no highest resolution"):
        _ = Levels("all").highest
    with pytest.raises(ValueError, match="name 2 axes"):
        Levels([(4, 6)]).of_input((2, 2, 2))
    with pytest.raises(ValueError, match="for 2 axes"):
        Levels.independent([3], [3]).of_input((2, 2, 2))
    with pytest.raises(ValueError, match="one set of resolutions per axis"):
        Levels.independent()
