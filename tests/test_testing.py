"""The test tools themselves: they reject what is not equivariant."""

import pytest
import torch
from torch import nn
from torch.nn import functional as TF

from fourierscale import downscale
from fourierscale.models import create_model
from fourierscale.nn import LocalFourierConv2d, NestedModel, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import (
    assert_scale_consistent,
    assert_scale_equivariant,
    consistency_error,
    equivariance_error,
    relative_error,
)


@pytest.fixture
def x():
    return torch.rand(2, 3, 28, 28)


def _circular_conv(x):
    taps = torch.linspace(-1, 1, 27).reshape(1, 3, 3, 3).to(x)
    return TF.conv2d(TF.pad(x, (1, 1, 1, 1), mode="circular"), taps)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: torch.relu(x - 0.5)),
        ("strided pool", lambda x: TF.max_pool2d(x, 2)),
        ("circular convolution at the wrong reference size", _circular_conv),
        ("batch norm of samples after relu", lambda x: TF.instance_norm(torch.relu(x - 0.5))),
        ("strided convolution", lambda x: _circular_conv(x)[..., ::2, ::2]),
    ],
)
def test_what_is_not_equivariant_is_rejected_by_name_size_and_error(name, function, x):
    with pytest.raises(AssertionError, match=rf"^{name} is not scale-equivariant .*\(2, 3, 28, 28\).*14x14: \d"):
        assert_scale_equivariant(function, x, [14], name=name)


def test_a_local_layer_with_a_fixed_reference_passes_where_a_plain_convolution_fails(x):
    layer = ScaleEquivariant(LocalFourierConv2d(3, 4, 3, reference_size=28))
    assert assert_scale_equivariant(layer, x, range(3, 28)) <= 1e-11


def test_a_layer_is_rejected_at_a_resolution_that_is_not_one_of_its_levels(x):
    layer = ScaleEquivariant(ScaleActivation2d(3, [8, 16, 28]))
    assert_scale_equivariant(layer, x, [8, 16])
    with pytest.raises(AssertionError, match="1 of 2 resolutions"):
        assert_scale_equivariant(layer, x, [8, 20])


def test_an_error_just_above_rounding_is_noticed(x):
    def almost(value):
        return value + 1e-4 * torch.relu(value - 0.5)

    with pytest.raises(AssertionError, match=r"^almost is not"):
        assert_scale_equivariant(almost, x, [13])


def test_nan_never_passes(x):
    with pytest.raises(AssertionError, match="nan"):
        assert_scale_equivariant(lambda value: value * float("nan"), x, [13])


def test_the_error_is_the_papers_formula(x):
    def g(value):
        return value.square()

    error = equivariance_error(g, x, 14)
    small, large = g(downscale(x, 14)).double(), downscale(g(x), 14).double()
    assert error == pytest.approx(float((small - large).square().sum() / small.square().sum()), rel=1e-4)


def test_other_kinds_of_downscaling_can_be_asked_for(x):
    layer = ScaleEquivariant(nn.Sequential(LocalFourierConv2d(3, 4, 3, 28), ScaleActivation2d(4, range(8, 29))))
    ideal = equivariance_error(layer, x, 14)
    gaussian = equivariance_error(layer, x, 14, kind="gaussian")
    assert ideal <= 1e-11 < 1e-4 < gaussian


def test_relative_error_of_equal_zeros_is_zero():
    assert relative_error(torch.zeros(3), torch.zeros(3)) == 0


def test_misuse_is_explained(x):
    with pytest.raises(ValueError, match="unknown domain"):
        equivariance_error(torch.relu, x, 14, domain="pixels")
    with pytest.raises(ValueError, match="no resolution"):
        assert_scale_equivariant(torch.relu, x, [])
    with pytest.raises(ValueError, match="is larger"):
        equivariance_error(lambda value: value[..., :4, :4] if value.shape[-1] == 28 else value, x, 14)


def _classifier():
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5))


def test_a_bare_classifier_is_not_consistent_and_one_answer_for_each_level_is(x):
    bare = _classifier()
    with pytest.raises(AssertionError, match=r"^Sequential is not scale-consistent .*2 of 2 resolutions \(14x14: \d"):
        assert_scale_consistent(bare, x, [14, 20])
    assert assert_scale_consistent(NestedModel(bare, [14, 20, 28]), x, [14, 20, 27]) <= 1e-11
    with pytest.raises(AssertionError, match=r"1 of 2 resolutions \(17x17"):  # its own band is no level of the image
        assert_scale_consistent(NestedModel(bare, [14, 20, 28]), x, [14, 17])


@pytest.mark.parametrize("made", ["consistent", "exact"])
def test_logits_of_levels_are_consistent_and_one_wrong_level_is_noticed(x, made):
    model = create_model("resnet-stl10-small", made=made, widths=(4, 6), hidden=8, resolutions=[16, 24, 28]).eval()
    assert assert_scale_consistent(model, x, [16, 24]) <= 1e-11

    def spoiled(images):
        logits = model(images)
        return torch.cat([logits[:, :1] * (1 + 1e-4 * (images.shape[-1] == 28)), logits[:, 1:]], 1)

    with pytest.raises(AssertionError, match="2 of 2 resolutions"):
        assert_scale_consistent(spoiled, x, [16, 24])
    assert consistency_error(spoiled, x, 16) > 1e-9


def test_maps_vectors_and_several_of_both_are_compared_level_by_level(x):
    class Both(nn.Module):
        def forward(self, x):
            return {"map": x.relu(), "vector": x.relu().mean((2, 3))}

    assert assert_scale_consistent(NestedModel(Both(), [14, 28]), x, [14]) <= 1e-11
    with pytest.raises(ValueError, match="expected one answer for each level"):
        consistency_error(lambda images: [images], x, 14)
    with pytest.raises(AssertionError, match="nan"):
        assert_scale_consistent(lambda images: [torch.full((2, 3), float("nan"))], x, [14])
