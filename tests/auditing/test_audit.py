"""The audit: its numbers are the slow definition's, ours pass at every layer, a CNN and bad input do not."""

from __future__ import annotations

import json
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as TF

import fourierscale
from fourierscale import downscale
from fourierscale.auditing import AuditError, audit
from fourierscale.auditing.compare import compare_outputs
from fourierscale.auditing.shifts import shift_coefficients, shift_image
from fourierscale.functional import Levels, analyze, synthesize
from fourierscale.models import Preprocessing, create_model
from fourierscale.nn import (
    LocalFourierConv2d,
    ScaleActivation2d,
    ScaleEquivariant,
    ScaleResidual,
    ToCoefficients,
    ToImage,
)


def small_cnn(channels: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(5, 3),
    )


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(3, 1, 16, 16)


@torch.no_grad()
def _slow(function, x, r):
    """The definition, image by image and frequency by frequency, with complex Fourier series."""
    total = 0.0
    for image in x:
        small = function(downscale(image[None].double(), r))[0]
        large = function(image[None].double())[0]
        m, n = small.shape[-1], large.shape[-1]
        top = (m - 1) // 2
        a, b = torch.fft.fft2(large) / n**2, torch.fft.fft2(small) / m**2
        difference = norm = 0.0
        for channel in range(len(small)):
            for u in range(-top, top + 1):
                for v in range(-top, top + 1):
                    difference += abs(complex(a[channel, u, v] - b[channel, u, v])) ** 2
                    norm += abs(complex(b[channel, u, v])) ** 2
        total += difference / norm
    return total / len(x)


@pytest.mark.parametrize("r", [9, 10])
def test_the_error_of_a_layer_is_its_definition(x, r):
    layer = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2, ceil_mode=True)).double()
    found = audit(layer, x, [r], kinds=["ideal"], shifts=())
    for depth, one in enumerate(found.layers, 1):
        assert one.errors["ideal"][r] == pytest.approx(_slow(layer[:depth], x, r), rel=1e-8)


def test_the_rings_of_a_layer_add_up_to_its_error(x):
    found = audit(small_cnn(), x, [7, 12], kinds=["gaussian"], shifts=())
    errors = {layer.number: layer.errors["gaussian"] for layer in found.layers}
    assert {rings.layer for rings in found.rings} == {1, 2, 3, 4, 5, 6}
    for rings in found.rings:
        assert sum(rings.difference) == pytest.approx(errors[rings.layer][rings.resolution], rel=1e-9)
        assert sum(rings.energy) == pytest.approx(1)
        first = rings.errors[0]
        assert first == pytest.approx(rings.difference[0] / rings.energy[0])


@pytest.mark.parametrize(
    "options",
    [
        {"pool": (1, 2), "head": "temperature"},
        {"residual": True, "stem": 4, "pool": 1, "head": "cumulative"},
        {"boundary": "mirror", "pool": (1, 2), "head": "plain"},
    ],
    ids=["pooled", "residual", "mirrored"],
)
def test_ours_is_equivariant_at_every_layer_and_resolution(x, options):
    model = create_model("scalenet-tiny", widths=(4, 6), resolutions=range(6, 17), hidden=8, **options).eval()
    found = audit(model, x, range(6, 17), kinds=["ideal"])
    assert found.resolutions == tuple(range(6, 16))
    assert found.layers[-1].name == "head"
    for layer in found.layers:
        assert set(layer.errors["ideal"]) == set(found.resolutions)
        assert max(layer.errors["ideal"].values()) <= 1e-11
        assert not layer.note
    assert found.broken is None
    assert f"through all {len(found.layers)} layers" in found.finding
    assert bool(found.shift) == (options.get("boundary") is None)  # mirrored images cannot be moved round


def test_maps_of_samples_are_compared_with_the_boundary_of_the_model(x):
    boundary = "mirror"
    levels = Levels(range(6, 17)).periods(boundary)
    block = ToCoefficients(boundary=boundary), ScaleActivation2d(1, levels), ToImage(boundary=boundary)
    found = audit(nn.Sequential(*block), x, [6, 9, 11], kinds=["ideal"])
    assert found.layers[-1].form == "image"
    assert found.broken is None
    assert (
        audit(nn.Sequential(*block), x, [6, 9, 11], kinds=["ideal"], preprocessing=Preprocessing()).broken is not None
    )


def test_layers_of_ours_are_known_by_their_form(x):
    block = nn.Sequential(LocalFourierConv2d(1, 4, 3, 16), nn.Dropout(), ScaleActivation2d(4, range(6, 17)))
    wrapped = nn.Sequential(ScaleEquivariant(ScaleResidual(block, LocalFourierConv2d(1, 4, 1, 16))), nn.Conv2d(4, 2, 1))
    found = audit(wrapped, x, [6, 11], kinds=["ideal"], shifts=())
    forms = [(layer.module, layer.form) for layer in found.layers]
    assert forms == [
        ("ToCoefficients", "coefficients"),
        ("LocalFourierConv2d", "coefficients"),
        ("ScaleActivation2d", "coefficients"),
        ("LocalFourierConv2d", "coefficients"),
        ("ScaleResidual", "coefficients"),
        ("ScaleEquivariant", "image"),
        ("Conv2d", "image"),
    ]
    assert found.broken is None


def test_a_cnn_breaks_at_its_first_layer_and_the_sentence_says_where(x):
    found = audit(small_cnn(), x, [8, 12], kinds=["ideal"])
    assert found.broken is found.layers[0]
    assert min(layer.worst("ideal")[0] for layer in found.layers) > 1e-4
    error, resolution = found.layers[0].worst("ideal")
    assert f"breaks first at layer 1 of 8 (Conv2d 0): error {error:.2g} at {resolution} px" in found.finding
    # a ReLU that works in place has an error of its own: what came before it was copied in time
    assert found.layers[0].errors["ideal"] != found.layers[1].errors["ideal"]


def test_a_break_behind_exact_layers_is_found_where_it_is(x):
    net = nn.Sequential(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 2, 1, bias=False), nn.ReLU(), nn.Conv2d(2, 2, 1))
    found = audit(net.double(), x - 0.5, [5, 9], kinds=["ideal"], shifts=())
    assert (found.broken.number, found.broken.module) == (3, "ReLU")
    assert found.dtype == "float64"
    assert max(found.layers[1].errors["ideal"].values()) < 1e-25


def test_maps_whose_sizes_have_no_ratio_are_compared_at_the_size_of_the_small_one():
    large, small = torch.rand(2, 3, 13, 13), torch.rand(2, 3, 5, 5)
    rows = compare_outputs(large, small, "image", 0.5)
    a, b = analyze(downscale(large.double(), 5)), analyze(small.double())
    expected = (a - b).square().sum((1, 2, 3)) / b.square().sum((1, 2, 3))
    assert torch.allclose(rows.difference.sum(1), expected)
    assert (
        compare_outputs(small, large, "image", 0.5, None) == "(3, 5, 5) at the full size, (3, 13, 13) at a smaller one"
    )
    assert isinstance(compare_outputs(torch.rand(2, 7), torch.rand(2, 8), "vector", 0.5, None), str)


def test_vectors_levels_and_maps_of_the_mean_alone_are_compared_entry_by_entry():
    a, b = torch.rand(2, 3, 2, 2), torch.rand(2, 3, 2, 2)
    expected = (a - b).double().square().sum((1, 2, 3)) / b.double().square().sum((1, 2, 3))
    for form in ("image", "vector"):
        rows = compare_outputs(a, b, form, 0.5, "zero")
        assert torch.allclose(rows.difference[:, 0], expected)
    levels = torch.rand(2, 5, 10)
    assert compare_outputs(levels, levels[:, :3], "levels", 0.5).difference.sum() == 0


def test_an_image_without_features_is_no_division_by_zero():
    zero, one = torch.zeros(2, 3), torch.ones(2, 3)
    assert compare_outputs(zero, zero, "vector", 0.5).difference.sum() == 0
    assert compare_outputs(one, zero, "vector", 0.5).difference.tolist() == [[1.0], [1.0]]


def test_a_net_of_one_size_gets_its_images_fitted(x):
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(2 * 20 * 20, 3))
    prepare = Preprocessing(mean=(0.5,), std=(2.0,), enlarge="zero", enlarge_size=20)
    found = audit(net, x, [8, 12], kinds=["ideal"], preprocessing=prepare)
    assert found.layers[0].shape == (2, 20, 20)
    with torch.no_grad():
        full, small = ((TF.pad(v, (p, p, p, p)) - 0.5) / 2 for v, p in ((x, 2), (downscale(x, 8), 6)))
        a, b = net(full).double(), net(small).double()
    expected = ((a - b).square().sum(1) / b.square().sum(1)).mean()
    assert found.layers[-1].errors["ideal"][8] == pytest.approx(float(expected), rel=1e-5)
    with pytest.raises(AuditError, match="set enlarge in the preprocessing for a model of one input size"):
        audit(net, x, [8])


def test_a_shift_moves_coefficients_as_it_moves_samples(x):
    assert torch.allclose(shift_image(downscale(x, 15), 3.0), downscale(x, 15).roll((3, 3), (-2, -1)), atol=1e-5)
    twice = shift_coefficients(shift_coefficients(analyze(x), 0.5 / 16), 0.5 / 16)
    assert torch.allclose(synthesize(twice, 16), shift_image(x, 1.0), atol=1e-5)


def test_shift_errors_know_what_moves_with_the_image():
    x = torch.rand(2, 1, 16, 16)
    circular = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.AvgPool2d(2))
    found = audit(circular, x, [8], kinds=["ideal"], shifts=(1, 2, 0.5))
    error = {(shift.layer, shift.pixels): shift.error for shift in found.shift}
    assert max(error[1, 1.0], error[1, 0.5], error[2, 1.0], error[3, 2.0]) < 1e-11
    assert min(error[2, 0.5], error[3, 1.0]) > 1e-5
    cut = audit(nn.Conv2d(1, 3, 3), TF.pad(torch.rand(2, 1, 8, 8), (4, 4, 4, 4)), [8], kinds=["ideal"], shifts=[1])
    assert cut.shift[0].error < 1e-2  # one pixel is one sample although the map has lost its border


def test_answers_are_compared_with_those_at_the_full_size(x):
    class Answers(nn.Module):
        def forward(self, images):
            return torch.tensor([[0.0, 2.0]]).expand(len(images), 2) * (1 if images.shape[-1] == 16 else -1)

    found = audit(Answers(), x, [8], labels=[1, 1, 0], kinds=["ideal"], shifts=())
    (row,) = found.logits
    p = math.exp(2) / (1 + math.exp(2))
    assert (row.agreement, row.ordered) == (0.0, 1.0)
    assert row.kl == pytest.approx(p * 2 - (1 - p) * 2)
    assert row.accuracy == pytest.approx(1 / 3)
    assert row.scale_con == pytest.approx(2 / 3)
    assert found.accuracy == pytest.approx(2 / 3)


def test_the_model_is_left_as_it_was(x):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.ReLU())
    model[2].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    audit(model, x, [8], kinds=["ideal"])
    assert [module.training for module in model] == [True, True, False, True]
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_batches_change_nothing(x):
    model = small_cnn().double()
    one, many = (audit(model, x, [8], kinds=["bicubic"], batch_size=size) for size in (1, 3))
    for a, b in zip(one.layers, many.layers, strict=True):
        assert a.errors["bicubic"][8] == pytest.approx(b.errors["bicubic"][8], rel=1e-6)
    assert one.logits[0].kl == pytest.approx(many.logits[0].kl, rel=1e-6)


def test_a_module_called_twice_is_two_layers_and_depth_leaves_inner_ones_out(x):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Identity())
            self.relu = nn.ReLU()

        def forward(self, images):
            return self.relu(self.body(self.relu(self.body(images)))) * 2

    found = audit(Twice(), x, [8], kinds=["ideal"], shifts=())
    assert [layer.name for layer in found.layers] == ["body.0", "relu", "body.0 (2)", "relu (2)", "output"]
    shallow = audit(Twice(), x, [8], kinds=["ideal"], shifts=(), depth=1)
    assert [layer.name for layer in shallow.layers] == ["relu", "relu (2)", "output"]


def test_a_compiled_module_shows_its_layers_and_a_scripted_one_its_output(x):
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh()).eval()
    expected = audit(model, x, [8], kinds=["ideal"])
    compiled = audit(torch.compile(model, backend="eager"), x, [8], kinds=["ideal"])
    assert [layer.name for layer in compiled.layers] == [layer.name for layer in expected.layers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.trace(model, x)
    side = torch.export.Dim("side", min=4, max=64)
    exported = torch.export.export(model, (x,), dynamic_shapes=({2: side, 3: side},)).module()
    for one in (scripted, exported):
        found = audit(one, x, [8], kinds=["ideal"])
        assert [layer.name for layer in found.layers] == ["output"]
        assert found.layers[0].errors["ideal"][8] == pytest.approx(expected.layers[-1].errors["ideal"][8], rel=1e-3)


def test_the_package_offers_it_without_importing_it():
    assert fourierscale.audit is audit
    with pytest.raises(AttributeError, match="no attribute 'audti'"):
        _ = fourierscale.audti


def test_json_holds_everything_and_reads_back(x):
    found = audit(small_cnn(), x, [8, 12], labels=[0, 1, 2])
    told = json.loads(found.to_json())
    assert told["finding"] == found.finding
    assert told["layers"][2]["errors"]["gaussian"]["12"] == found.layers[2].errors["gaussian"][12]
    assert len(told["logits"]) == 3 * 2
    assert {shift["pixels"] for shift in told["shift"]} == {1.0, 0.5}


def _nan(images):
    return images * float("nan")


MISTAKES = {
    "nan": (_nan, {}, "not finite for images of 16 x 16"),
    "no tensor": (lambda images: {"logits": images}, {}, "the model gives dict"),
    "whole numbers": (lambda images: images.flatten(1).long(), {}, "the model gives torch.int64"),
    "not one entry per image": (lambda images: images.sum((0,)), {}, r"of shape \(1, 16, 16\)"),
    "wrong channels": (small_cnn(3), {}, "give the channels it was made for"),
    "not a model": (3, {}, "got int"),
    "no resolution": (small_cnn(), {"resolutions": [16]}, "from 1 to 15"),
    "larger resolution": (small_cnn(), {"resolutions": [8, 20]}, "from 1 to 15"),
    "unknown kind": (small_cnn(), {"kinds": ["cubic"]}, "choose one of ideal, gaussian, bicubic"),
    "size too small": (
        small_cnn(),
        {"preprocessing": Preprocessing(enlarge="zero", enlarge_size=10)},
        "downscale them first",
    ),
    "few labels": (small_cnn(), {"labels": [1]}, "expected 3 labels"),
    "labels of other classes": (small_cnn(), {"labels": [1, 2, 7]}, "the largest label is 7, the model gives 3"),
    "bytes": (small_cnn(), {"images": torch.zeros(1, 1, 8, 8, dtype=torch.uint8)}, r"images.float\(\) / 255"),
    "not square": (small_cnn(), {"images": torch.rand(1, 1, 8, 9)}, "crop or pad"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_sentence(name, x):
    model, options, message = MISTAKES[name]
    given = {"images": x, "resolutions": [8]} | options
    with pytest.raises(AuditError, match=message) as caught:
        audit(model, **given)
    assert "\n" not in str(caught.value)
