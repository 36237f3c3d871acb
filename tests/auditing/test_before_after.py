"""A model and the same inside one nested map, under every way to make images smaller; what is left of the gain."""

from __future__ import annotations

import io
import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fourierscale import downscale
from fourierscale.auditing import AuditError, audit, audit_nested, make_smaller
from fourierscale.auditing.page import build_both_page
from fourierscale.auditing.resizing import RESIZINGS
from fourierscale.cli import main
from fourierscale.models import Preprocessing, UNet, create_model
from fourierscale.nn import NestedModel
from fourierscale.testing import relative_error

LEVELS = (16, 24, 32)
MODEL = """
import torch
from torch import nn
from fourierscale.models import UNet

def unet():
    return UNet(3, 2, (4, 8))
"""


def classifier() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(24, 5)).eval()


@pytest.fixture
def x() -> torch.Tensor:
    smooth = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    return F.interpolate(smooth, (32, 32), mode="bicubic").clamp(0, 1)


@pytest.mark.parametrize("boundary", ["circular", "mirror"])
def test_maps_are_off_as_they_are_and_exact_inside(x, boundary):
    found = audit_nested(UNet(3, 2, (4, 8)).eval(), x, LEVELS, preprocessing=Preprocessing(boundary=boundary))
    assert found.after.resolutions == found.before.resolutions == (16, 24)
    assert found.after.kinds == RESIZINGS
    assert len(found.after.layers) == 1 < len(found.before.layers)
    assert found.after.broken is None is not found.before.broken
    assert found.worst("ideal")[1] <= 1e-11 < 1e-7 < found.worst("ideal")[0]
    assert f"UNet, off by {found.worst('ideal')[0]:.2g} as it is, is equivariant to" in found.sentences[0]
    for number, kind in enumerate(RESIZINGS[1:], 1):
        before, after = found.worst(kind)
        assert after > 1e-9
        assert (
            f"under {kind} downscaling its error is {before:.2g} before and {after:.2g} after"
            in found.sentences[number]
        )


def test_the_errors_are_those_of_the_definition(x):
    model = UNet(3, 2, (4, 8)).eval()
    found = audit_nested(model, x[:1], LEVELS, kinds=["area", "jpeg"])
    net = NestedModel(model, LEVELS)
    with torch.no_grad():
        for audited, function in ((found.before, model), (found.after, net)):
            for kind in ("area", "jpeg"):
                small = function(make_smaller(x[:1], 24, kind))
                error = relative_error(downscale(function(x[:1]), 23), downscale(small, 23))
                assert audited.layers[-1].errors[kind][24] == pytest.approx(error, rel=1e-3)


def test_vectors_are_compared_level_by_level(x):
    found = audit_nested(classifier(), x, LEVELS, kinds=["ideal", "bicubic"], labels=[0, 1, 2])
    assert found.after.layers[-1].form == "levels"
    assert found.after.layers[-1].shape == (3, 5)
    assert found.worst("ideal")[1] <= 1e-11 < found.worst("ideal")[0]
    assert "is consistent to" in found.sentences[0]
    assert found.after.accuracy is not None
    again = audit(NestedModel(classifier(), LEVELS), x, [16, 24], kinds=["ideal"])
    assert again.layers[-1].form == "levels"
    assert again.broken is None


@pytest.mark.parametrize("made", ["consistent", "exact"])
def test_what_is_made_of_a_plain_net_shows_no_layers_of_its_inside(x, made):
    model = create_model("resnet-stl10-small", made=made, widths=(4, 6), hidden=8, resolutions=LEVELS).eval()
    found = audit(model, x, [16, 24], kinds=["ideal"], shifts=())
    assert found.broken is None
    names = [layer.module for layer in found.layers]
    assert names == (["PerLevelClassifier"] if made == "consistent" else ["NestedModel", "ScaleHead"])


def test_a_model_of_a_stride_or_of_one_size_is_wrapped_too():
    x = torch.rand(2, 3, 100, 100)

    class Strided(nn.Module):
        def forward(self, x):
            return F.interpolate(F.max_pool2d(x, 32), scale_factor=32) + x.square()

    with pytest.warns(UserWarning, match="some levels share a grid"):
        found = audit_nested(Strided(), x, (40, 64, 96), kinds=["ideal"])
    assert (found.before.size, found.before.resolutions, found.after.resolutions) == (96, (64,), (40, 64))
    assert found.worst("ideal")[1] <= 1e-11 < found.worst("ideal")[0]

    class OneSize(nn.Module):
        def forward(self, x):
            assert x.shape[-1] == 32
            return x.square()

    found = audit_nested(OneSize(), x[..., :32, :32], LEVELS, kinds=["ideal"])
    assert (found.before.enlarge, found.after.enlarge) == ("zero", None)
    assert found.after.broken is None is not found.before.broken
    function = audit_nested(torch.square, x[..., :32, :32], LEVELS, kinds=["ideal"])
    assert function.after.broken is None
    with pytest.raises(AuditError, match=r"no level of .* is below the images' 32 pixels"):
        audit_nested(nn.ReLU(), x[..., :32, :32], (40, 64))
    with pytest.raises(AuditError, match="on a canvas"):
        audit_nested(nn.ReLU(), x, LEVELS, preprocessing=Preprocessing(boundary="canvas"))


def test_images_are_made_smaller_as_people_do_it(x):
    from PIL import Image

    assert torch.allclose(make_smaller(x, 16, "area"), x.reshape(3, 3, 16, 2, 16, 2).mean((3, 5)))
    small = make_smaller(x, 16, "jpeg")
    assert 1e-6 < relative_error(small, downscale(x, 16, "bicubic")) < 0.1
    pixels = (255 * downscale(x[:1], 16, "bicubic").clamp(0, 1)).round().byte()[0].movedim(0, -1).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75)
    expected = torch.tensor(list(Image.open(file).tobytes())).reshape(16, 16, 3).movedim(-1, 0) / 255
    assert torch.allclose(small[0], expected)
    assert make_smaller(x[:, :1].double(), 16, "jpeg").dtype == torch.float64
    for kind in ("ideal", "gaussian", "bicubic"):
        assert torch.equal(make_smaller(x, 16, kind), downscale(x, 16, kind))
    with pytest.raises(AuditError, match="expected grey or colour pixels from 0 to 1"):
        make_smaller(9 * x, 16, "jpeg")
    with pytest.raises(AuditError, match="got 2 channels"):
        make_smaller(x[:, :2], 16, "jpeg")


def test_the_command_writes_both_on_one_page(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    options = ["--nested", "16,24,32", "--size", "32", "--images", "2", "--kinds", "ideal,jpeg", "--out", "here"]
    assert main(["audit", "mine:unet", *options]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "downscaling 16 px 24 px ideal bare" in told
    assert "unet, off by" in told
    assert "inside one nested map of Levels([16, 24, 32])." in told
    assert "under jpeg downscaling its error is" in told
    data = json.loads((tmp_path / "here" / "audit.json").read_text())
    assert data["after"]["layers"][0]["errors"]["ideal"]["16"] <= 1e-11
    assert (tmp_path / "here" / "audit.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "here" / "audit.html").read_text()
    assert "Before and after" in page
    assert "What is left of the gain" in page
    assert main(["audit", "mine:unet", "--nested", "a", "--size", "32"]) == 2
    assert "--nested: expected numbers" in capsys.readouterr().err


def test_the_page_says_where_the_bare_model_cannot_be_compared():
    class Strided(nn.Module):
        def forward(self, x):
            return F.interpolate(F.max_pool2d(x, 32), scale_factor=32) + x

    found = audit_nested(Strided(), torch.rand(2, 3, 96, 96), (20, 64, 96), kinds=["ideal"])
    assert "not taken" in build_both_page(found)
    apart = audit_nested(Strided(), torch.rand(2, 3, 96, 96), (20, 50, 96), kinds=["ideal"])
    assert "no resolution at which both can be compared" in apart.finding
