"""Every layer commutes with downscaling at every resolution, in float32 and float64, with random weights."""

import pytest
import torch
from torch import nn

from fourierscale import Levels
from fourierscale.functional import analyze, axis_bands, crop, downscale, grids
from fourierscale.nn import (
    FourierConv1d,
    FourierConv2d,
    FourierConv3d,
    LocalFourierConv1d,
    LocalFourierConv2d,
    LocalFourierConv3d,
    ScaleActivation1d,
    ScaleActivation2d,
    ScaleActivation3d,
    ScaleDropout,
    ScaleEquivariant,
    ScaleMerge1d,
    ScaleMerge2d,
    ScaleMerge3d,
    ScalePool1d,
    ScalePool2d,
    ScalePool3d,
    ScaleResidual,
    ToCoefficients,
    ToImage,
)
from fourierscale.testing import TOLERANCE, assert_scale_equivariant

LOCAL = {1: LocalFourierConv1d, 2: LocalFourierConv2d, 3: LocalFourierConv3d}
GLOBAL = {1: FourierConv1d, 2: FourierConv2d, 3: FourierConv3d}
ACTIVATION = {1: ScaleActivation1d, 2: ScaleActivation2d, 3: ScaleActivation3d}
MERGE = {1: ScaleMerge1d, 2: ScaleMerge2d, 3: ScaleMerge3d}
POOL = {1: ScalePool1d, 2: ScalePool2d, 3: ScalePool3d}
CHANNELS = 2


def _randomise(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def _residual(d, n, r):
    body = nn.Sequential(LOCAL[d](CHANNELS, 3, 3, n, bias=False), ACTIVATION[d](3, r, pool=2))
    return ScaleResidual(body, LOCAL[d](CHANNELS, 3, 1, n), axes=d)


def _stack(d, n, r):
    """Four deep, pooled twice."""
    half, quarter = Levels(r).pooled(2), Levels(r).pooled(4)
    return nn.Sequential(
        LOCAL[d](CHANNELS, 3, 3, n, bias=False, pointwise=True),  # a bias in front of a norm has no effect
        ACTIVATION[d](3, r, pool=2),
        LOCAL[d](3, 3, 3, -(-n // 2), bias=False),
        ACTIVATION[d](3, half, "gelu", grid="common"),
        LOCAL[d](3, 3, 2, -(-n // 2)),
        ACTIVATION[d](3, half, "silu", norm="none"),
        POOL[d](2, half, "average"),
        LOCAL[d](3, 3, 3, -(-n // 4), bias=False),
        ACTIVATION[d](3, quarter, oversample=1.5),
        LOCAL[d](3, 3, 1, -(-n // 4)),
    )


class _Decoder(nn.Module):
    """Down and up again: pooled, filtered, and merged with what it was before."""

    def __init__(self, d, n, r, rate, **options):
        super().__init__()
        self.down = ACTIVATION[d](CHANNELS, r, pool=rate)
        self.low = LOCAL[d](CHANNELS, CHANNELS, 3, -(-n // rate), bias=False)
        self.merge = MERGE[d](CHANNELS, r, rate, **options)

    def forward(self, coeffs):
        return self.merge(coeffs, self.low(self.down(coeffs)))


LAYERS = {
    "local": lambda d, n, r: LOCAL[d](CHANNELS, 3, 3, n),
    "local, even taps, pointwise": lambda d, n, r: LOCAL[d](CHANNELS, 3, 2, n, pointwise=True),
    "local, small reference": lambda d, n, r: LOCAL[d](CHANNELS, 3, 3, 5, bias=False),
    "global": lambda d, n, r: GLOBAL[d](CHANNELS, 3, n, pointwise=True),
    "relu": lambda d, n, r: ACTIVATION[d](CHANNELS, r),
    "gelu, no norm": lambda d, n, r: ACTIVATION[d](CHANNELS, r, "gelu", norm="none"),
    "silu, common grid": lambda d, n, r: ACTIVATION[d](CHANNELS, r, "silu", grid="common"),
    "tanh, oversampled": lambda d, n, r: ACTIVATION[d](CHANNELS, r, "tanh", oversample=1.5),
    "leaky relu, pooled": lambda d, n, r: ACTIVATION[d](CHANNELS, r, "leaky_relu", pool=2),
    "identity, pooled by 3": lambda d, n, r: ACTIVATION[d](CHANNELS, r, "identity", pool=3, pool_kind="average"),
    "a callable": lambda d, n, r: ACTIVATION[d](CHANNELS, r, torch.sin),
    "every level": lambda d, n, r: ACTIVATION[d](CHANNELS, "all"),
    "max pool": lambda d, n, r: POOL[d](2, r),
    "average pool by 3": lambda d, n, r: POOL[d](3, r, "average", oversample=2),
    "max pool, common grid": lambda d, n, r: POOL[d](2, r, grid="common"),
    "dropout": lambda d, n, r: ScaleDropout(axes=d).eval(),
    "residual": _residual,
    "merge": lambda d, n, r: _Decoder(d, n, r, 2),
    "merge by 3, common grid": lambda d, n, r: _Decoder(d, n, r, 3, activation="gelu", grid="common", norm="none"),
    "stack": _stack,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("n", [27, 28, 33])
def test_layer_commutes_with_cropping_to_every_resolution(name, n, dtype):
    layer = _randomise(LAYERS[name](2, n, range(3, n + 1))).to(dtype)
    coeffs = analyze(torch.randn(2, CHANNELS, n, n, dtype=dtype))
    assert_scale_equivariant(layer, coeffs, range(3, n + 1), domain="coefficients", name=name)


def _compared(n):
    """All resolutions of a small image; of a large one every third, odd and even in turn, and its neighbour."""
    return range(3, n + 1) if n <= 48 else sorted({*range(3, n, 3), n - 1, n})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("n", [48, 97])
def test_layer_commutes_with_cropping_at_larger_sizes(name, n, dtype):
    layer = _randomise(LAYERS[name](2, n, range(3, n + 1))).to(dtype)
    coeffs = analyze(torch.randn(1, CHANNELS, n, n, dtype=dtype))
    with torch.inference_mode():
        assert_scale_equivariant(layer, coeffs, _compared(n), domain="coefficients", name=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("n", [27, 28, 33, 48, 97])
def test_layer_commutes_with_cropping_on_one_axis(name, n, dtype):
    layer = _randomise(LAYERS[name](1, n, range(3, n + 1))).to(dtype)
    coeffs = analyze(torch.randn(2, CHANNELS, n, dtype=dtype), 1)
    resolutions = [(m,) for m in _compared(n)]
    assert_scale_equivariant(layer, coeffs, resolutions, domain="coefficients", name=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("n", [9, 12])
def test_layer_commutes_with_cropping_on_three_axes(name, n, dtype):
    layer = _randomise(LAYERS[name](3, n, range(3, n + 1))).to(dtype)
    coeffs = analyze(torch.randn(1, CHANNELS, n, n, n, dtype=dtype), 3)
    resolutions = [(m,) * 3 for m in range(3, n + 1)]
    assert_scale_equivariant(layer, coeffs, resolutions, domain="coefficients", name=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "every level"])
def test_layer_commutes_with_cropping_to_non_square_pairs(name, dtype):
    chain = [(9, 13), (10, 14), (16, 22), (20, 29), (28, 40)]
    layer = _randomise(LAYERS[name](2, 40, chain)).to(dtype)
    coeffs = analyze(torch.randn(1, CHANNELS, 28, 40, dtype=dtype))
    assert_scale_equivariant(layer, coeffs, chain, domain="coefficients", name=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [27, 28, 33])
def test_images_commute_with_ideal_downscaling_through_the_whole_block(n, dtype):
    block = ScaleEquivariant(_randomise(_stack(2, n, range(3, n + 1))).to(dtype), pool=4)
    x = torch.randn(2, CHANNELS, n, n, dtype=dtype)
    assert_scale_equivariant(block, x, range(3, n + 1))
    small = block(downscale(x, 14))
    assert small.shape == (2, 3, 4, 4)


def test_images_of_even_size_commute_with_every_smaller_even_and_odd_size():
    resolutions = range(8, 29)
    net = nn.Sequential(LocalFourierConv2d(1, 4, 5, 28), ScaleActivation2d(4, resolutions))
    block = ScaleEquivariant(net).double()
    error = assert_scale_equivariant(block, torch.rand(4, 1, 28, 28).double(), resolutions)
    assert error <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_equivariant_to_its_own_tolerance(dtype):
    net = nn.Sequential(LocalFourierConv2d(3, 8, 5, 28), ScaleActivation2d(8, range(8, 29)))
    block = ScaleEquivariant(nn.Sequential(net, LocalFourierConv2d(8, 8, 5, 28))).to(dtype)
    assert_scale_equivariant(block, torch.randn(4, 3, 28, 28).to(dtype), [8, 13, 20, 27])


def test_dropout_drops_whole_channels_and_commutes_with_cropping():
    layer = ScaleDropout(0.5)
    coeffs = torch.randn(8, 16, 9, 9)
    torch.manual_seed(3)
    whole = layer(coeffs)
    torch.manual_seed(3)
    assert torch.equal(layer(crop(coeffs, 5)), crop(whole, 5))
    kept = whole.flatten(2).abs().sum(-1) > 0
    assert 0 < kept.float().mean() < 1
    torch.testing.assert_close(whole[kept], 2 * coeffs[kept])
    assert torch.equal(layer.eval()(coeffs), coeffs)


def test_the_door_and_the_exit_undo_each_other():
    coeffs = torch.randn(2, 3, 9, 13)
    torch.testing.assert_close(ToCoefficients()(ToImage()(coeffs)), coeffs)
    assert ToImage((16, 20))(coeffs).shape == (2, 3, 16, 20)
    assert ToImage(axes=1)(torch.randn(2, 7)).shape == (2, 7)


def test_parameters_are_real_and_the_state_dict_holds_nothing_else():
    n = 12
    net = nn.ModuleList(make(2, n, range(3, n + 1)) for make in LAYERS.values())
    for layer in net:
        layer(torch.randn(1, CHANNELS, 11, 11))
    state = net.state_dict()
    assert state.keys() == dict(net.named_parameters()).keys()
    assert all(value.dtype is torch.float32 for value in state.values())


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_loads_the_state_of_its_twin(name):
    layers = [_randomise(LAYERS[name](2, 12, range(3, 13))) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    coeffs = torch.randn(1, CHANNELS, 11, 11)
    assert torch.equal(layers[0](coeffs), layers[1](coeffs))
    assert str(layers[0])


@pytest.mark.parametrize("name", LAYERS)
def test_every_parameter_and_the_input_get_a_gradient(name):
    layer = _randomise(LAYERS[name](2, 12, range(3, 13)))
    coeffs = torch.randn(2, CHANNELS, 11, 11, requires_grad=True)
    layer(coeffs).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in [coeffs, *layer.parameters()])


def test_global_and_local_layers_agree_when_given_the_same_kernel():
    local, free = LocalFourierConv2d(2, 3, 3, 12).double(), FourierConv2d(2, 3, 12).double()
    with torch.no_grad():
        free.weight.copy_(local.spectrum((12, 12)))
        free.bias.copy_(local.bias)
    coeffs = torch.randn(2, 2, *grids(axis_bands((12, 12))), dtype=torch.float64)
    torch.testing.assert_close(local(coeffs), free(coeffs))


def test_initial_outputs_have_the_scale_of_torchs_convolution():
    x = torch.randn(64, 8, 16, 16)
    reference = nn.Conv2d(8, 32, 5, padding=2, padding_mode="circular")(x).var()
    for layer in (LocalFourierConv2d(8, 32, 5, 16), FourierConv2d(8, 32, 16)):
        ratio = ScaleEquivariant(layer)(x).var() / reference
        assert 0.6 < ratio < 1.6
