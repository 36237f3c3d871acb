"""What people use, inside one nested map: exact maps, consistent vectors, one sentence where neither can be."""

import dataclasses
import warnings
from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fourierscale import Levels, downscale, equivariant
from fourierscale.testing import TOLERANCE, assert_scale_equivariant, relative_error
from tests.nn.small_models import MAPS, VECTORS, Patches, trained

LEVELS = (16, 24, 32)
SIZES = [(32, 32), (33, 41), (31, 24), (40, 30)]
SIGNS = {torch.float64: 1.0, torch.float32: 0.9999}
DTYPES = [torch.float32, torch.float64]


def same_signs(net, x, size):
    """The share of pixels with one sign in the small image's map and in the downscaled map of the large image."""
    small, large = net(downscale(x, size)), net(x)
    return float((small.sign() == downscale(large, tuple(small.shape[2:])).sign()).double().mean())


def levels_in(size, levels=LEVELS):
    return [(n,) * len(size) for n in levels if n <= min(size)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [0, 4])
@pytest.mark.parametrize("name", MAPS)
def test_maps_are_exact_at_every_level(name, steps, dtype):
    fixed = name.endswith("of one size")
    net = equivariant(MAPS[name]().to(dtype), LEVELS, above="nothing" if fixed else "own")
    net = trained(net, steps=steps)
    with torch.no_grad():
        for size in SIZES:
            x = torch.randn(2, 3, *size, dtype=dtype)
            assert net(x).shape == (2, 2, *size)
            assert_scale_equivariant(net, x, levels_in(size))
            for level in levels_in(size):
                assert same_signs(net, x, level) >= SIGNS[dtype]
    if not fixed:
        with pytest.raises(AssertionError):  # the model alone is not
            assert_scale_equivariant(net.model, torch.randn(1, 3, 32, 32, dtype=dtype), [16, 24])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [0, 4])
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_are_consistent_at_every_level(name, steps, dtype):
    net = trained(equivariant(VECTORS[name]().to(dtype), LEVELS), steps=steps)
    with torch.no_grad():
        for size in SIZES:
            x = torch.randn(2, 3, *size, dtype=dtype)
            for level, told in zip(levels_in(size), net.per_level(x), strict=False):
                assert relative_error(told, net(downscale(x, level))) <= TOLERANCE[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_unet_of_monai(axes, dtype):
    nets = pytest.importorskip("monai.networks.nets", exc_type=ImportError)
    model = nets.BasicUNet(axes, 1, 2, features=(4, 4, 6, 8, 8, 4)).to(dtype)
    # of volumes whose slices are twice as thick as their pixels, the levels name every axis
    levels = (32, 48, 64) if axes == 2 else Levels([(16, 32, 32), (24, 48, 48)])
    sizes = [(64, 64), (65, 51), (48, 70)] if axes == 2 else [(24, 48, 48), (25, 49, 50), (17, 39, 32)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*share a grid")  # multiples of 16
        net = equivariant(model, levels)
    for steps in (0, 3):
        if steps:
            optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
            net.train()
            for _ in range(steps):
                x = torch.randn(1, 1, *sizes[0], dtype=dtype)
                loss = sum(maps.square().mean() for maps in net.per_level(x))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        net.eval()
        with torch.no_grad():
            for size in sizes:
                x = torch.randn(1, 1, *size, dtype=dtype)
                below = [n if isinstance(n, tuple) else (n,) * axes for n in Levels(levels).resolutions]
                below = [level for level in below if all(m <= n for m, n in zip(level, size, strict=True))]
                assert_scale_equivariant(net, x, below)
                for level in below:
                    assert same_signs(net, x, level) >= SIGNS[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_resnet_of_transformers(dtype, steps):
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    stages = ["stage1", "stage2", "stage3"]
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 12, 16], depths=[1, 1, 1], layer_type="basic", num_labels=5
    )
    levels, size = (32, 48, 64), (70, 64)
    x = torch.randn(2, 3, *size, dtype=dtype)

    net = equivariant(transformers.ResNetForImageClassification(config).to(dtype), levels)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = sum(F.cross_entropy(told.logits, torch.tensor([0, 3])) for told in net.train().per_level(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        assert isinstance(net(x), transformers.utils.ModelOutput)
        for level, told in zip(levels, net.per_level(x), strict=False):
            assert relative_error(told.logits, net(downscale(x, level)).logits) <= TOLERANCE[dtype]

    config.out_features = stages
    with pytest.warns(UserWarning, match="become one"):  # the last map is sixteen times smaller than the image
        backbone = equivariant(transformers.ResNetBackbone(config).to(dtype).eval(), levels)
    with torch.no_grad():
        shapes = [tuple(maps.shape[2:]) for maps in backbone(x).feature_maps]
        assert shapes == [(18, 16), (9, 8), (5, 4)]
        for number in range(3):
            assert_scale_equivariant(lambda z, number=number: backbone(z).feature_maps[number], x, levels)
        # a map beside the means over it; five samples of 65 to 80 pixels are no whole rate of 65
        whole = equivariant(transformers.ResNetModel(config).to(dtype).eval(), (32, 64))
        assert whole.sizes.stride == 16
        assert_scale_equivariant(lambda z: whole(z).last_hidden_state, x, [32, 64])


class Function(nn.Module):
    """A convolution and what is done with its result."""

    def __init__(self, function, norm=None, channels=3):
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3, padding=1)
        self.norm, self.function = norm or nn.Identity(), function

    def forward(self, x):
        return self.function(self.norm(self.conv(x)).relu())


Pair = namedtuple("Pair", ["maps", "means"])


@dataclasses.dataclass
class Answer:
    maps: torch.Tensor


def images(size=32):
    return torch.randn(2, 3, size, size, dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: Pair(y, y.mean((2, 3))),
        lambda y: [y, F.avg_pool2d(y, 2)],
        lambda y: {"maps": y, "more": ({"mean": y.mean((2, 3))}, None, "a note", 3)},
        lambda y: (y, y.square().mean()),  # a scalar of the whole batch
    ],
    ids=["namedtuple", "list", "dictionary", "scalar"],
)
def test_what_holds_maps_and_vectors_is_what_the_model_gives(function):
    model = Function(function).double().eval()
    net, x = equivariant(model, LEVELS), images()
    given, plain = net(x), model(x)
    assert type(given) is type(plain)
    assert torch.utils._pytree.tree_structure(given) == torch.utils._pytree.tree_structure(plain)
    for number, tensor in enumerate(torch.utils._pytree.tree_leaves(plain)):
        if isinstance(tensor, torch.Tensor) and tensor.ndim == 4:
            assert_scale_equivariant(lambda z, n=number: torch.utils._pytree.tree_leaves(net(z))[n], x, [16, 24])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Answer, "an object of class Answer, which cannot be taken apart.*register a dataclass"),
        (lambda y: (y, Answer(y)), "an object of class Answer"),
        (lambda y: y.detach().numpy(), "ndarray"),
        (lambda y: y.argmax(1), "int64.*logits"),
        (lambda y: torch.fft.fft2(y), "complex128.*floating-point"),
        (lambda y: y[..., 2:-2, 2:-2], "pad inside the model"),
        (lambda y: F.interpolate(y, scale_factor=2), "bring its output to the image's size"),
        (lambda y: y[:, 0], "neither a map"),
        (lambda y: y.movedim(1, -1), "neither a map"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"stride": 8}])
def test_what_cannot_be_nested_gets_one_sentence(function, said, options):
    with pytest.raises(ValueError, match=said) as error:
        equivariant(Function(function).double(), LEVELS, **options)(images())
    assert "\n" not in str(error.value)


def test_a_dataclass_that_torch_knows_is_taken_apart():
    @dataclasses.dataclass
    class Known:
        maps: torch.Tensor

    torch.export.register_dataclass(Known)
    net = equivariant(Function(Known).double().eval(), LEVELS)
    assert isinstance(net(images()), Known)
    assert_scale_equivariant(lambda z: net(z).maps, images(), [16, 24])


def test_statistics_of_the_batch_do_not_mix_levels_that_share_a_grid():
    model = Function(nn.Identity(), nn.BatchNorm2d(4, track_running_stats=False)).double().eval()
    with pytest.warns(UserWarning, match="share a grid"):
        net = equivariant(model, (24, 32), stride=32)
    assert_scale_equivariant(net, images(), [24])
    passes = []
    model.register_forward_hook(lambda module, inputs, output: passes.append(len(inputs[0])))
    net(images())
    assert passes == [2, 2]


class Counting(nn.Module):
    """It adds up what it has seen, in evaluation too."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += x.detach().mean()
        return self.conv(x) + self.seen


def test_a_state_is_said_and_left_alone_by_the_tries():
    model = Counting().double()
    with pytest.warns(UserWarning, match="another answer") as said:
        equivariant(model, LEVELS)
    assert said[0].filename == __file__
    assert float(model.seen) == 0.0


def test_models_made_in_inference_mode():
    with torch.inference_mode():
        net = equivariant(MAPS["U-Net"]().double().eval(), LEVELS)
        assert_scale_equivariant(net, images(), [16, 24])


def test_what_is_kept_from_call_to_call_in_the_images_size_gets_a_sentence():
    class Previous(Function):
        def forward(self, x):
            y = self.conv(x)
            self.last, last = y, getattr(self, "last", 0.0)
            return y + last

    with pytest.raises(ValueError, match="keep nothing between calls"):
        equivariant(Previous(None).double(), LEVELS, stride=16)(images())


def test_the_first_convolution_need_not_see_the_image():
    class Gray(Function):
        """Sees one channel, the mean of those that it is given, and its gradient."""

        def forward(self, x):
            x = x.mean(1, keepdim=True)
            return super().forward(torch.cat([x, x - x.roll(1, -1)], 1))

    for options in ({}, {"stride": 8}):
        net = equivariant(Gray(nn.Identity(), channels=2).double().eval(), LEVELS, **options)
        assert_scale_equivariant(net, images(), [16, 24])


def test_a_lowest_level_that_is_too_small_is_said():
    model = nn.Sequential(nn.Conv2d(3, 4, 16, 16), nn.InstanceNorm2d(4), nn.ConvTranspose2d(4, 1, 16, 16)).double()
    with pytest.raises(
        ValueError, match=r"lowest level is too small.*\(16, 16\) samples there \(Expected more than 1 spatial element"
    ):
        equivariant(model, LEVELS)(images())
    with pytest.warns(UserWarning, match="share a grid"):
        net = equivariant(model.eval(), LEVELS, stride=32)
    assert_scale_equivariant(net, images(), [16, 24])


def test_a_convolution_that_is_not_made_yet():
    model = nn.Sequential(nn.LazyConv2d(4, 3, padding=1), nn.ReLU()).double().eval()
    assert_scale_equivariant(equivariant(model, LEVELS), images(), [16, 24])


def test_a_model_of_one_size_that_pools_to_one_cell():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.randn(1, 3, 32, 32))

        def forward(self, x):
            return (x * self.places).mean((2, 3), keepdim=True)

    net = equivariant(Pooled(), LEVELS, only=32)
    assert [vector.shape for vector in net.per_level(images().float())] == [(2, 3, 1, 1)] * 3


def test_positions_up_to_a_highest_size():
    class Placed(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.randn(1, 3, 40, 40))

        def forward(self, x):
            return (x + self.places[..., : x.shape[2], : x.shape[3]]).tanh()

    net = equivariant(Placed().double(), LEVELS, stride=8, above="nothing")
    assert_scale_equivariant(net, images(48), [16, 24, 32])


def test_half_precision_levels_that_share_a_grid_still_go_together():
    with pytest.warns(UserWarning, match="share a grid"):
        net = equivariant(Patches().eval().bfloat16(), (24, 32), stride=32)
    assert not net._mixes
