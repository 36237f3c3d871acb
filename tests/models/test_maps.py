"""Models that give maps: exact or bare, by name, saved and loaded."""

import pytest
import torch
from torch import nn

from fourierscale.functional import analyze, crop, downscale
from fourierscale.models import MapModel, UNet, create_model, load_model, model_info, register_factory, save_model
from fourierscale.models.maps import as_map_model
from fourierscale.testing import assert_scale_equivariant, equivariance_error

SIZES = (8, 12, 16)


def _unet(**options):
    torch.manual_seed(0)
    return create_model("unet", widths=(4, 6), resolutions=SIZES, **options).eval()


@pytest.mark.parametrize("boundary", ["circular", "mirror"])
def test_maps_inside_the_nested_map_are_exact(boundary):
    model = _unet(boundary=boundary).double()
    x = torch.rand(2, 3, 16, 16).double()
    levels = model.per_level(x)
    assert [tuple(maps.shape) for maps in levels] == [(2, 2, n, n) for n in SIZES]
    for n, maps in zip(SIZES, levels, strict=True):
        small = model(downscale(x, n, boundary=boundary))
        torch.testing.assert_close(small, maps)
        torch.testing.assert_close(downscale(model(x), n, boundary=boundary), maps)
    if boundary == "circular":
        assert_scale_equivariant(model, x, [8, 12])


def test_a_bare_model_is_asked_at_each_size_and_is_not_exact():
    model = _unet(exact=False)
    x = torch.rand(1, 3, 16, 16)
    for n, maps in zip(SIZES, model.per_level(x), strict=True):
        torch.testing.assert_close(maps, model(downscale(x, n) if n < 16 else x))
    assert equivariance_error(model, x, 8) > 1e-7
    assert model.levels is None
    assert model.level_names(12) == ["8", "12"]


@pytest.mark.parametrize("exact", [True, False])
def test_a_map_on_any_grid_has_the_coefficients_of_the_map(exact):
    model = _unet(exact=exact)
    x = torch.rand(1, 3, 16, 16)
    fine = model.at(x, (40, 33))
    assert fine.shape == (1, 2, 40, 33)
    torch.testing.assert_close(crop(analyze(fine), 16), analyze(model(x)), rtol=1e-4, atol=1e-5)


def test_an_operator_has_nothing_above_its_highest_level():
    model = create_model("fno", modes=3, width=4, depth=2, resolutions=(8, 16)).double().eval()
    x = torch.randn(1, 1, 64, 64).double()
    top = analyze(model(x))
    assert top[..., 15:, :].abs().max() < 1e-12
    torch.testing.assert_close(crop(top, 16), analyze(model(downscale(x, 16))))


def test_the_scale_of_the_answer_is_saved_with_the_weights(tmp_path):
    model = _unet()
    model.scale.fill_(3.0)
    save_model(model, tmp_path, {"model": "unet", "overrides": {"widths": [4, 6], "resolutions": list(SIZES)}})
    again = load_model(tmp_path)
    x = torch.rand(1, 3, 16, 16)
    assert torch.equal(again(x), model(x))
    bare = create_model("unet", widths=(4, 6), resolutions=SIZES, exact=False).eval()
    assert bare.state_dict().keys() == model.state_dict().keys()  # a net has the same weights inside and outside


def test_a_net_of_ones_own_is_known_once_it_is_registered_and_not_before(tmp_path):
    info = {"model": "test.nets:wide", "overrides": {"in_channels": 1, "classes": 4, "resolutions": [8, 16]}}
    with pytest.raises(ValueError, match="unknown model"):
        create_model("test.nets:wide")
    register_factory("test.nets:wide", lambda **options: nn.Conv2d(options["in_channels"], options["classes"], 3, 1, 1))
    model = create_model(info["model"], **info["overrides"])
    save_model(model, tmp_path, info)
    x = torch.rand(1, 1, 16, 16)
    assert torch.equal(load_model(tmp_path)(x), model.eval()(x))
    assert model_info("test.nets:wide").recipe == "segmentation"
    register_factory("test.nets:none", lambda: 3)
    with pytest.raises(TypeError, match=r"expected a function that builds a torch\.nn\.Module"):
        create_model("test.nets:none")


def test_a_classifier_is_no_model_of_maps():
    with pytest.raises(TypeError, match="expected a model that gives maps"):
        as_map_model(create_model("scalenet-tiny"))
    assert isinstance(as_map_model(_unet()), MapModel)


def test_the_stride_of_a_net_with_smaller_maps_is_found():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1))
    model = MapModel(net, (8, 16, 32), outputs=2).eval().double()
    x = torch.rand(1, 3, 32, 32).double()
    assert model(x).shape == (1, 2, 16, 16)
    torch.testing.assert_close(model(downscale(x, 16)), downscale(model(x), 8))


def test_the_unet_takes_odd_sizes():
    assert UNet(1, 3, (4, 6, 8))(torch.rand(1, 1, 17, 22)).shape == (1, 3, 17, 22)
