"""Any model inside one nested map: exact, or consistent, whatever the model is."""

import copy
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import fourierscale
from fourierscale import Levels
from fourierscale.functional import analyze, axis_bands, crop, downscale, synthesize
from fourierscale.models import UNet
from fourierscale.nn import NestedModel
from fourierscale.nn.input_sizes import InputSizes, find_input_sizes
from fourierscale.nn.level_norms import LevelIndex, LevelNorm, give_levels_norms
from fourierscale.testing import assert_scale_equivariant

LEVELS = (12, 17, 24)


class Maps(nn.Module):
    """A convolutional net with everything that is not equivariant: zero padding, strides, batch norm, attention."""

    def __init__(self, axes=2, rate=1):
        super().__init__()
        conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[axes]
        norm = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[axes]
        self.body = nn.Sequential(conv(2, 6, 3, stride=rate, padding=1), norm(6), nn.GELU(), conv(6, 3, 3, padding=1))

    def forward(self, x):
        y = self.body(x)
        return y + y.flatten(2).mean(-1).softmax(1).view(*y.shape[:2], *[1] * (y.ndim - 2))


def settled(model, axes=2):
    """With running statistics that are not those of a new norm."""
    model.train()
    for _ in range(3):
        model(torch.randn(4, 2, *(16,) * axes, dtype=next(model.parameters()).dtype) * 2 + 1)
    return model.eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("boundary", ["circular", "mirror"])
@pytest.mark.parametrize("size", [(24, 24), (25, 31), (17, 24), (30, 19)])
def test_maps_commute_with_downscaling_to_every_level(dtype, boundary, size):
    net = NestedModel(settled(Maps().to(dtype)), LEVELS, boundary=boundary)
    below = [(n, n) for n in LEVELS if n <= min(size)]
    assert_scale_equivariant(net, torch.randn(2, 2, *size, dtype=dtype), below, boundary=boundary)
    with pytest.raises(AssertionError):
        assert_scale_equivariant(net.model, torch.randn(2, 2, *size, dtype=dtype), below, boundary=boundary)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("rate", [1, 2])
def test_models_in_any_number_of_axes_that_pool_or_do_not(axes, rate):
    net = NestedModel(settled(Maps(axes, rate).double(), axes), (8, 13))
    assert net.rate == rate
    x = torch.randn(2, 2, *(13, 14, 15)[:axes], dtype=torch.float64)
    assert net(x).shape[2:] == tuple(-(-n // rate) for n in x.shape[2:])
    assert_scale_equivariant(net, x, [(8,) * axes, (13,) * axes])


def test_the_definition_level_by_level():
    model = settled(Maps().double())
    net = NestedModel(model, (8, 12, 16))
    x = torch.randn(1, 2, 15, 15, dtype=torch.float64)
    expected = torch.zeros(1, 3, 15, 15, dtype=torch.float64)
    for n in (16, 12, 8):  # fine to coarse: each coarser level overwrites its corner; 15 and 16 samples have one band
        k = 2 * axis_bands((n,))[0] + 1
        image = synthesize(crop(analyze(x), min(n, 15)), n)
        expected[..., :k, :k] = analyze(model(image))[..., :k, :k]
    assert torch.allclose(net(x), synthesize(expected, 15), atol=1e-12)


@given(sizes=st.lists(st.integers(4, 20), min_size=2, max_size=2), low=st.integers(4, 10), step=st.integers(1, 7))
def test_any_levels_and_sizes(sizes, low, step):
    net = NestedModel(Maps().double().eval(), (low, low + step, low + 2 * step), stride=1)
    below = [(n, n) for n in (low, low + step) if n <= min(sizes)]
    if below:
        assert_scale_equivariant(net, torch.randn(1, 2, *sizes, dtype=torch.float64), below)


def test_levels_by_their_short_side_keep_the_ratio():
    net = NestedModel(settled(Maps().double()), Levels.by_short_side([8, 12, 16]))
    x = torch.randn(1, 2, 16, 24, dtype=torch.float64)
    assert_scale_equivariant(net, x, [(8, 12), (12, 18)])
    assert_scale_equivariant(net, x.mT, [(12, 8), (18, 12)])
    square = NestedModel(net.model, [8, 12, 16])
    with pytest.raises(AssertionError):
        assert_scale_equivariant(square, x, [(8, 12)])


def test_independent_axes():
    net = NestedModel(settled(Maps().double()), Levels.independent([8, 16], [10, 16]))
    assert_scale_equivariant(net, torch.randn(1, 2, 16, 16, dtype=torch.float64), [(8, 16), (16, 10), (8, 10)])


def test_every_level_says_what_the_downscaled_image_is_told():
    for net in (NestedModel(UNet(2, 3, (4, 8)).double().eval(), LEVELS), classifier(LEVELS)):
        x = torch.randn(2, 2, 24, 24, dtype=torch.float64)
        levels = net.per_level(x)
        assert len(levels) == 3
        for level, n in zip(levels, LEVELS, strict=True):
            assert torch.allclose(level, net(downscale(x, n)), atol=1e-12)
        assert torch.equal(levels[-1], net(x))
        assert torch.equal(net.per_level(x, [0])[0], levels[0])


def classifier(levels, **options):
    model = nn.Sequential(nn.Conv2d(2, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    return NestedModel(model.double(), levels, **options)


def test_the_top_answer_of_a_classifier_costs_one_pass():
    net, calls = classifier(LEVELS), []
    net.model.register_forward_hook(lambda *_: calls.append(1))
    net(torch.randn(2, 2, 24, 24, dtype=torch.float64))
    assert len(calls) == 1
    net.per_level(torch.randn(2, 2, 24, 24, dtype=torch.float64))
    assert len(calls) == 4


def test_one_temperature_for_each_level():
    net, plain = classifier(LEVELS, temperature=True), classifier(LEVELS)
    plain.load_state_dict(net.model.state_dict())
    x = torch.randn(2, 2, 24, 24, dtype=torch.float64)
    assert torch.equal(net(x), plain(x))
    with torch.no_grad():
        net.log_scales[1] = 1.0
    assert torch.allclose(net.per_level(x)[1], plain.per_level(x)[1] * torch.e)
    assert torch.equal(net.per_level(x)[2], plain.per_level(x)[2])


def test_maps_on_any_grid_and_as_coefficients():
    model = settled(Maps().double())
    net, raw = NestedModel(model, LEVELS), NestedModel(model, LEVELS, domain="coefficients")
    x = torch.randn(1, 2, 24, 24, dtype=torch.float64)
    assert torch.allclose(net.at(x, 24), net(x))
    assert torch.allclose(downscale(net.at(x, (48, 30)), (24, 24)), net(x))
    assert torch.allclose(synthesize(raw(x), 24), net(x))


def test_sides_need_not_divide_by_the_models_stride():
    class Strided(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Conv2d(1, 4, 8, 8), nn.ConvTranspose2d(4, 1, 8, 8)

        def forward(self, x):
            return self.up(self.down(x)) + x

    model = Strided().double().eval()
    with pytest.raises(RuntimeError):
        model(torch.randn(1, 1, 20, 20, dtype=torch.float64))
    net = NestedModel(model, (16, 32))
    assert net.sizes == InputSizes(8)
    for n in (20, 31, 33):
        assert_scale_equivariant(net, torch.randn(1, 1, n, n, dtype=torch.float64), [16])


def test_images_with_one_band_share_a_grid_and_small_ones_take_that_of_the_lowest_level():
    net = NestedModel(Maps(), (16, 24))
    assert net.passes((23, 23)) == net.passes((24, 24))
    assert [one.grid for one in net.passes((9, 9))] == [(16, 16)]
    assert [one.grid for one in net.passes((20, 21))] == [(16, 16), (20, 22)]
    assert [one.row for one in net.passes((20, 20))] == [0, 1]


def test_a_warning_where_levels_share_a_grid_or_a_band():
    with pytest.warns(UserWarning, match="share a grid"):
        NestedModel(Maps(), (48, 56, 64), stride=32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        NestedModel(Maps(rate=4), (10, 11, 16))
    assert any("become one" in str(one.message) for one in said)


def test_above_the_highest_level():
    model = settled(Maps().double())
    own, nothing = NestedModel(model, (12, 16)), NestedModel(model, (12, 16), above="nothing")
    x = torch.randn(1, 2, 24, 24, dtype=torch.float64)
    assert_scale_equivariant(own, x, [12, 16])
    assert_scale_equivariant(nothing, x, [12, 16])
    assert torch.allclose(nothing(x), nothing.at(downscale(x, 16), 24))
    assert len(own.passes((24, 24))) == 3
    assert len(nothing.passes((24, 24))) == 2


def test_a_model_of_one_size():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.place = nn.Parameter(torch.randn(1, 2, 32, 32))

        def forward(self, x):
            return (x + self.place).tanh()

    net = NestedModel(Fixed().double(), (16, 24, 32), only=32, above="nothing")
    x = torch.randn(1, 2, 40, 40, dtype=torch.float64)
    assert_scale_equivariant(net, x, [16, 24, 32])
    found = NestedModel(Fixed().double(), (16, 24, 32))
    found(x[..., :32, :32])
    assert str(found.sizes) == "32 x 32 alone"
    with pytest.raises(ValueError, match="above='nothing'"):
        found(x)


def test_the_models_weights_load_and_save_unchanged():
    model = settled(Maps())
    net = NestedModel(copy.deepcopy(model), LEVELS, temperature=True)
    state = net.state_dict()
    assert {*state} == {*model.state_dict(), "log_scales"}
    net.load_state_dict(model.state_dict() | {"log_scales": torch.ones(3)})
    model.load_state_dict({name: value for name, value in net.state_dict().items() if name != "log_scales"})
    outer = nn.Sequential(nn.Identity(), NestedModel(Maps(), LEVELS))
    assert "1.body.0.weight" in outer.state_dict()
    outer.load_state_dict(outer.state_dict())
    with pytest.raises(RuntimeError, match="Unexpected"):
        net.load_state_dict(state | {"other": torch.ones(1)})


def test_norms_for_each_level():
    model = settled(Maps().double())
    state = model.state_dict()
    net = NestedModel(model, LEVELS, norms="level")
    assert isinstance(net.model.body[1], LevelNorm)
    x = torch.randn(4, 2, 24, 24, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        copy.deepcopy(net).load_state_dict({name: value.flatten()[:1] for name, value in state.items()})
    net.load_state_dict(state)  # into every level
    shared = NestedModel(settled(Maps().double()), LEVELS)
    shared.load_state_dict(state)
    assert torch.allclose(net.eval()(x), shared.eval()(x))
    net.train()(x)
    means = net.state_dict()["body.1.running_mean"]
    assert means.shape == (3, 6)
    assert not torch.equal(means[0], means[2])
    assert net.state_dict()["body.1.num_batches_tracked"].tolist() == [4, 4, 4]
    assert_scale_equivariant(net.eval(), x, [12, 17])


def test_a_level_norm_is_the_batch_norm_of_its_level():
    own, norm, level = nn.BatchNorm2d(3), nn.BatchNorm2d(3), LevelIndex()
    per_level = give_levels_norms(norm, 2, level)
    level.now = 1
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5)
        assert torch.equal(own(x), per_level(x))
    assert torch.equal(per_level.running_var[1], own.running_var)
    assert torch.equal(per_level.running_var[0], torch.ones(3))
    with pytest.raises(ValueError, match="running statistics"):
        give_levels_norms(nn.SyncBatchNorm(3), 2, level)


def test_shared_statistics_are_updated_once_for_each_level_coarse_to_fine():
    net, seen = NestedModel(Maps(), LEVELS).train(), []
    net.model.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[-1]))
    before = int(net.model.body[1].num_batches_tracked)
    net(torch.randn(2, 2, 24, 24))
    assert seen == [12, 18, 24]
    assert int(net.model.body[1].num_batches_tracked) == before + 3


def test_computing_levels_again_gives_the_same_gradients_and_statistics():
    for norms in ("shared", "level"):
        one, other = (NestedModel(Maps(), LEVELS, norms=norms, checkpoint=again) for again in (False, True))
        other.load_state_dict(one.state_dict())
        x = torch.randn(2, 2, 24, 24)
        for net in (one, other):
            net.train()(x).square().sum().backward()
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, atol=1e-5)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.allclose(a, b)


def test_levels_on_one_grid_run_as_one_pass_in_evaluation_alone():
    model, shapes = settled(Maps()), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = NestedModel(model, (48, 56, 64), stride=64)
    model.register_forward_hook(lambda module, inputs, output: shapes.append(len(inputs[0])))
    x = torch.randn(2, 2, 64, 64)
    together = net(x)
    assert shapes == [6]
    net.train()(x)
    assert shapes == [6, 2, 2, 2]
    assert_scale_equivariant(net.eval(), x, [48, 56])
    assert together.shape == x[:, :1].expand(-1, 3, -1, -1).shape


def test_tuples_lists_and_dictionaries_are_taken_apart_and_put_together():
    class Many(nn.Module):
        def __init__(self):
            super().__init__()
            self.maps, self.note = Maps(), "as it is"

        def forward(self, x):
            y = self.maps(x)
            return {"maps": [y, F.avg_pool2d(y, 2)], "vector": y.mean((2, 3)), "note": self.note, "none": None}

    net = NestedModel(settled(Many().double()), (12, 16, 24))
    x = torch.randn(2, 2, 24, 24, dtype=torch.float64)
    found = net(x)
    assert found["note"] == "as it is"
    assert found["none"] is None
    assert found["maps"][1].shape == (2, 3, 12, 12)
    for pick in (lambda y: y["maps"][0], lambda y: y["maps"][1]):
        assert_scale_equivariant(lambda image, pick=pick: pick(net(image)), x, [12, 16])
    for level, n in zip(net.per_level(x), (12, 16, 24), strict=True):
        assert torch.allclose(level["vector"], net(downscale(x, n))["vector"])


class Odd(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.argmax(1), "return what it takes the largest of"),
        (lambda x: F.conv2d(x, torch.ones(1, 2, 5, 5)), "pad inside the model"),
        (lambda x: F.interpolate(x, scale_factor=2), "neither a map"),
        (lambda x: x.flatten(2).mT, "tokens"),
        (lambda x: "nothing", "gives no tensor"),
    ],
)
def test_outputs_that_nothing_can_be_nested_around_get_a_sentence(function, said):
    with pytest.raises(ValueError, match=said):
        NestedModel(Odd(function), LEVELS)(torch.randn(1, 2, 24, 24))


@pytest.mark.parametrize(
    ("function", "said"),
    [(lambda x: x.softmax(1), "probabilities"), (lambda x: x + torch.rand_like(x), "another answer")],
)
def test_what_can_only_be_exact_in_part_is_said(function, said):
    with pytest.warns(UserWarning, match=said):
        NestedModel(Odd(function), LEVELS)(torch.randn(1, 2, 24, 24))


def test_arguments_that_cannot_be():
    for options, said in (
        ({"boundary": "canvas"}, "canvas"),
        ({"above": "all"}, "above"),
        ({"norms": "none"}, "norms"),
        ({"stride": 2, "only": 8}, "one of them"),
    ):
        with pytest.raises(ValueError, match=said):
            NestedModel(Maps(), LEVELS, **options)
    with pytest.raises(TypeError, match="Module"):
        NestedModel(lambda x: x, LEVELS)
    with pytest.raises(ValueError, match="none of the sizes"):
        NestedModel(Odd(lambda x: x.reshape(7)), LEVELS)(torch.randn(1, 2, 24, 24))
    with pytest.raises(ValueError, match="1 to 3 dimensions"):
        NestedModel(nn.Linear(3, 3), LEVELS)(torch.randn(4, 3))


def test_transforms_stay_in_single_precision_under_autocast():
    net = NestedModel(settled(Maps()), LEVELS)
    with torch.autocast("cpu", torch.bfloat16):
        assert net(torch.randn(1, 2, 24, 24)).dtype is torch.float32
    assert net.bfloat16()(torch.randn(1, 2, 24, 24, dtype=torch.bfloat16)).dtype is torch.bfloat16


@pytest.mark.filterwarnings("ignore")
def test_compiles_with_the_same_values():
    net = NestedModel(settled(Maps()), LEVELS)
    x = torch.randn(1, 2, 24, 24)
    assert torch.allclose(torch.compile(net)(x), net(x), atol=1e-5)


def test_gradients_reach_the_model_and_the_image():
    net = NestedModel(nn.Conv2d(2, 1, 3, padding=1).double(), (5, 8))
    x = torch.randn(1, 2, 8, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(net, (x,))


def test_copies_are_apart():
    net = NestedModel(settled(Maps()), LEVELS, norms="level")
    other = copy.deepcopy(net)
    other.train()(torch.randn(2, 2, 24, 24))
    assert other._level is not net._level
    assert not torch.equal(other.model.body[1].running_mean, net.model.body[1].running_mean)
    x = torch.randn(2, 2, 24, 24)
    assert torch.equal(copy.deepcopy(net)(x), net(x))


def test_the_short_name():
    net = fourierscale.equivariant(Maps(), levels=LEVELS, above="nothing")
    assert isinstance(net, NestedModel)
    assert net.above == "nothing"


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 32, 3, 14])
def test_the_stride_of_a_model_is_found(stride):
    model = Odd(lambda x: F.avg_pool2d(x, stride).repeat_interleave(stride, -1).repeat_interleave(stride, -2) + x)
    assert find_input_sizes(model, torch.zeros(1, 1, 65, 65)) == InputSizes(stride)
