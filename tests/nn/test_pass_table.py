"""What a nested model costs: its table says what is really run."""

import warnings

import pytest
import torch
from torch import nn

from fourierscale.models import UNet, create_model, model_cost
from fourierscale.nn import NestedModel


def maps():
    return nn.Conv2d(3, 4, 3, padding=1)


def vectors():
    return nn.Sequential(maps(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize(
    ("levels", "stride", "passes"),
    [
        ((6, 12, 24, 48, 96, 192), None, 1.333),
        ((48, 68, 96), None, 1.7517),
        (range(48, 97, 8), None, 4.132),
        ((48, 68, 96), 32, 2.444),
        ((64, 96, 192), 32, 1.361),
    ],
)
def test_passes_in_passes_of_the_highest_level(levels, stride, passes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # levels that share a grid
        table = NestedModel(maps(), levels, stride=stride).summary(max(levels))
    assert table.answer == pytest.approx(passes, abs=1e-3)
    assert table.answer == table.every_level
    assert table.rows[-1].share == 1


@pytest.mark.parametrize("size", [96, 80, 33, (50, 96), 130])
@pytest.mark.parametrize("make", [maps, vectors, lambda: UNet(3, 2, (4, 8))])
def test_the_grids_are_those_that_the_model_really_gets(make, size):
    seen = []
    model = make()
    net = NestedModel(model, (48, 68, 96)).eval()
    model.register_forward_pre_hook(lambda module, given: seen.append(tuple(given[0].shape[2:])))
    table = net.summary(size)
    sides = (size, size) if isinstance(size, int) else size
    x = torch.rand(1, 3, *sides)
    net(x)
    assert seen == [row.grid for row in table.rows if row.answers]
    seen.clear()
    net.per_level(x)
    assert seen == [row.grid for row in table.rows]
    assert table.rows[-1].level == sides


def test_of_levels_that_write_one_band_one_runs():
    with pytest.warns(UserWarning, match="become one"):
        net = NestedModel(nn.Sequential(maps(), nn.AvgPool2d(16)), (48, 68, 96), stride=16)
    table = net.summary(96)
    assert [row.answers for row in table.rows] == [True, True, False]
    assert table.answer == pytest.approx((48**2 + 80**2) / 96**2)
    assert table.every_level == pytest.approx(table.answer + 1)


def test_it_prints_as_a_table():
    text = str(NestedModel(vectors(), (48, 96)).summary(96)).splitlines()
    assert text == [
        "level    grid     passes",
        "48 x 48  48 x 48    0.25",
        "96 x 96  96 x 96    1.00",
        "1.00 passes of the highest level for the answer, 1.25 for every level",
    ]
    assert "3 x 32 x 32" not in str(NestedModel(nn.Conv3d(1, 1, 1), (16, 32)).summary(32))
    assert "32 x 32 x 32" in str(NestedModel(nn.Conv3d(1, 1, 1), (16, 32)).summary(32))


def test_the_cost_of_what_is_made_of_a_plain_net():
    bare, exact = (model_cost("resnet-stl10-small", made=made) for made in ("bare", "exact"))
    levels = create_model("resnet-stl10-small", made="exact", widths=(4, 8)).net.summary(96)
    assert exact.flops / bare.flops == pytest.approx(levels.answer, rel=0.02)
    assert exact.parameters == bare.parameters + 7  # a temperature for each level
