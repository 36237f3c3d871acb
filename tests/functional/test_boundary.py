"""What lies beyond the image's edge: the mirror is exact, the canvas is what it says, circular stays what it was."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fourierscale import create_model, kernels, load_pretrained
from fourierscale.data import ScaledDataset
from fourierscale.functional import (
    Levels,
    analyze,
    axis_bands,
    band,
    clear_constants,
    crop,
    downscale,
    extend,
    grid,
    grids,
    level_pool,
    period,
    synthesize,
    transform,
    upscale,
)
from fourierscale.functional.bands import inside
from fourierscale.models import Preprocessing, ScaleClassifier, ScaleHead, ScaleNet, pretrained_info
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScalePool2d, ToCoefficients, ToImage
from fourierscale.testing import TOLERANCE, assert_scale_equivariant, equivariance_error, relative_error
from fourierscale.training import ConfigError, EvalConfig, evaluate, train
from fourierscale.training.datamodule import load_splits, model_boundary
from tests import definitions
from tests.training.small_runs import small_config, small_splits, write_digits

SIZES = [(1,), (2,), (7,), (8,), (5, 4), (1, 6), (3, 4, 5)]
BOUNDARIES = ["circular", "mirror", "canvas:0.5:edge", "canvas:0.3", "canvas:1:fade"]


@pytest.fixture(params=["matrix", "fft"])
def route(request, monkeypatch):
    monkeypatch.setattr(transform, "FFT_FROM", {"cpu": 1 if request.param == "fft" else 10**9})
    return request.param


def cosine_transform(x):
    """DCT-II by its definition, cosine k at entry 2k - 1, zero at every sine."""
    shape = tuple(2 * n - 1 for n in x.shape)
    result = torch.zeros(shape, dtype=torch.float64)
    for k in itertools.product(*(range(n) for n in x.shape)):
        total = 0.0
        for j in itertools.product(*(range(n) for n in x.shape)):
            waves = (
                math.cos(math.pi * ki * (ji + 0.5) / n) * (math.sqrt(2) if ki else 1)
                for ki, ji, n in zip(k, j, x.shape, strict=True)
            )
            total += x[j].item() * math.prod(waves)
        result[tuple(max(2 * ki - 1, 0) for ki in k)] = total / math.prod(x.shape)
    return result


@pytest.mark.parametrize("size", SIZES)
def test_analysis_with_a_mirror_is_the_cosine_transform(size, route):
    x = torch.randn(size, dtype=torch.float64)
    torch.testing.assert_close(analyze(x, len(size), boundary="mirror"), cosine_transform(x))


@pytest.mark.parametrize("size", SIZES)
def test_analysis_with_a_mirror_is_that_of_the_mirrored_image_half_a_sample_further(size, route):
    """The doubled image has a period of its own; the axis of symmetry is at zero after a shift by half a sample."""
    x = torch.randn(size, dtype=torch.float64)
    doubled = analyze(extend(x, "mirror", len(size)), len(size))
    for axis, n in enumerate(size, start=-len(size)):
        c = doubled.movedim(axis, -1)
        t = math.pi * torch.arange(1, n, dtype=torch.float64) / (2 * n)
        cos, sin = c[..., 1::2], c[..., 2::2]
        pairs = torch.stack([cos * t.cos() - sin * t.sin(), cos * t.sin() + sin * t.cos()], -1).flatten(-2)
        doubled = torch.cat([c[..., :1], pairs], -1).movedim(-1, axis)
    torch.testing.assert_close(analyze(x, len(size), boundary="mirror"), doubled)


@pytest.mark.parametrize("boundary", ["canvas:0.5:edge", "canvas:0.3", "canvas:1:fade"])
@pytest.mark.parametrize("size", [(7,), (5, 4), (1, 6)])
def test_analysis_on_a_canvas_is_that_of_the_extended_image(size, boundary, route):
    x = torch.randn(2, *size, dtype=torch.float64)
    whole = extend(x, boundary, len(size))
    assert tuple(whole.shape[1:]) == tuple(period(n, boundary) for n in size)
    torch.testing.assert_close(analyze(x, len(size), boundary=boundary), analyze(whole, len(size)))
    coeffs = analyze(whole, len(size))
    image = synthesize(coeffs, tuple(whole.shape[1:]))[(..., *(slice(n) for n in size))]
    torch.testing.assert_close(synthesize(coeffs, size, boundary), image)


def test_a_canvas_is_filled_smoothly_from_edge_to_edge():
    x = torch.tensor([4.0, 0.0, 0.0, 8.0], dtype=torch.float64)
    edge, fade, zero = (extend(x, f"canvas:2:{fill}", 1)[4:] for fill in ("edge", "fade", "zero"))
    assert (edge.diff() < 0).all()
    assert 8 > edge[0] > 7.5
    assert 4 < edge[-1] < 4.5
    assert fade[:4].diff().max() < 0
    assert fade[4:].diff().min() > 0
    assert zero.abs().max() == 0
    np.testing.assert_array_equal(extend(x, "mirror", 1), np.pad(x, (0, 4), "symmetric"))
    assert torch.equal(extend(x, "circular", 1), x)


@pytest.mark.parametrize("size", [(7,), (4, 5), (1, 6)])
def test_synthesis_with_a_mirror_samples_any_coefficients_at_half_samples(size, route):
    """Features are not even: their sines count too."""
    coeffs = torch.randn(tuple(2 * n - 1 for n in size), dtype=torch.float64)
    target = tuple(n + 3 for n in size)
    x = torch.zeros(target, dtype=torch.float64)
    for j in itertools.product(*(range(n) for n in target)):
        for i in itertools.product(*(range(n) for n in coeffs.shape)):
            angles = (math.pi * (ji + 0.5) / n for ji, n in zip(j, target, strict=True))
            x[j] += coeffs[i] * math.prod(definitions.basis(ii, t) for ii, t in zip(i, angles, strict=True))
    torch.testing.assert_close(synthesize(coeffs, target, "mirror"), x)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(0, 5))
def test_a_mirror_drops_nothing_and_keeps_mean_and_energy(size, larger):
    axes, x = len(size), torch.randn(2, *size, dtype=torch.float64)
    coeffs = analyze(x, axes, boundary="mirror")
    torch.testing.assert_close(synthesize(coeffs, size, "mirror"), x)
    fine = tuple(n + larger for n in size)
    torch.testing.assert_close(downscale(upscale(x, fine, "mirror"), size, boundary="mirror"), x)
    torch.testing.assert_close(x.square().flatten(1).mean(1), coeffs.square().flatten(1).sum(1))
    torch.testing.assert_close(x.flatten(1).mean(1), coeffs.flatten(1)[:, 0])


@given(st.integers(2, 30), st.data())
def test_downscaling_with_a_mirror_composes_exactly(n, data):
    a, b = sorted(data.draw(st.lists(st.integers(1, n), min_size=2, max_size=2)), reverse=True)
    x = torch.randn(2, n, n + 3, dtype=torch.float64)
    twice = downscale(downscale(x, (a, a), boundary="mirror"), b, boundary="mirror")
    torch.testing.assert_close(twice, downscale(x, b, boundary="mirror"))
    coeffs = analyze(x, boundary="mirror")
    torch.testing.assert_close(crop(coeffs, b, "mirror"), analyze(twice, boundary="mirror"))


def test_a_mirror_has_no_jump_at_the_edge():
    """A ramp rings where its ends meet; its mirror image has no ends."""
    ramp = torch.arange(32, dtype=torch.float64)
    ideal = (torch.arange(16, dtype=torch.float64) + 0.5) * 2 - 0.5  # mirrored samples lie at half-pixel centres
    assert (downscale(ramp, (16,), boundary="mirror") - ideal).abs().max() < 0.5
    assert (downscale(ramp, (16,)) - torch.arange(0, 32, 2)).abs().max() > 5


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("kind", ["ideal", "gaussian", "bicubic"])
def test_every_kind_takes_every_boundary_and_keeps_constants(boundary, kind):
    constant = torch.full((1, 9, 12), 3.0, dtype=torch.float64)
    small = downscale(constant, (4, 7), kind, boundary=boundary)
    if boundary in ("circular", "mirror", "canvas:0.5:edge") or kind == "bicubic":
        torch.testing.assert_close(small, torch.full((1, 4, 7), 3.0, dtype=torch.float64))
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: downscale(z, (4, 3), kind, boundary=boundary), x)


def test_gaussian_downscaling_with_a_mirror_is_that_of_the_mirrored_image():
    x = torch.randn(12, 12, dtype=torch.float64)
    both = downscale(extend(x, "mirror"), 24, "gaussian", std=0.8)
    torch.testing.assert_close(downscale(x, 12, "gaussian", std=0.8, boundary="mirror"), both[:12, :12])


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_rule_of_bands_has_an_inverse(boundary):
    for n in range(1, 60):
        k = band(n, boundary)
        assert k == definitions.half(period(n, boundary))
        assert band(grid(k, boundary), boundary) >= k
        assert grid(k, boundary) == 1 or band(grid(k, boundary) - 1, boundary) < k
        assert abs(inside(period(n, boundary), boundary) - n) <= 1
    assert axis_bands((5, 8), boundary) == (band(5, boundary), band(8, boundary))


@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_pooling_behind_a_mirror_has_the_pooled_band(window):
    assert all(band(-(-n // window), "mirror") == band(n, "mirror") // window for n in range(1, 100))
    pooled = Levels(range(3, 30)).periods("mirror").pooled(window).bands
    assert pooled == Levels(range(3, 30)).pooled(window).periods("mirror").bands


def test_a_layer_behind_a_mirror_is_a_convolution_with_symmetric_padding():
    layer = LocalFourierConv2d(2, 3, 5, reference_size=(2 * 9, 2 * 12)).double()
    x = torch.randn(1, 2, 9, 12, dtype=torch.float64)
    padded = torch.from_numpy(np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), "symmetric"))
    expected = nn.functional.conv2d(padded, layer.weight, layer.bias)
    torch.testing.assert_close(synthesize(layer(analyze(x, boundary="mirror")), (9, 12), "mirror"), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_layers_commute_with_the_mirrors_downscaling(dtype, engine):
    levels = Levels([(5, 6), (8, 9), (9, 13), (12, 14)]).periods("mirror")
    layers = {
        "conv": LocalFourierConv2d(2, 3, 5, (24, 28)),
        "activation": ScaleActivation2d(2, levels),
        "common": ScaleActivation2d(2, levels, grid="common", pool=2),
        "pool": ScalePool2d(3, levels),
    }
    x = analyze(torch.randn(2, 2, 12, 14, dtype=dtype), boundary="mirror")
    for name, layer in layers.items():
        with kernels.backend(engine):
            sizes = [(5, 6), (8, 9), (9, 13)]
            assert_scale_equivariant(layer.to(dtype), x, sizes, domain="coefficients", boundary="mirror", name=name)


NETS = {
    "plain": {"widths": (6, 8), "pool": 1},
    "pooled": {"widths": (6, 8), "pool": (2, 1), "head": "cumulative"},
    "residual": {"widths": (6, 8), "pool": (2, 2), "residual": True, "stem": 4, "head": "average"},
    "common": {"widths": (6,), "pool": 1, "grid": "common", "head": "temperature", "head_pool": "average"},
    "global": {"widths": (6,), "pool": 2, "local": False, "cells": 3},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", NETS.values(), ids=NETS)
def test_nets_are_exact_with_a_mirror_on_features_and_logits(options, dtype):
    model = create_model("scalenet-tiny", resolutions=range(9, 20), boundary="mirror", **options).to(dtype).eval()
    x = upscale(torch.rand(2, 1, 8, 8, dtype=dtype), 19, "mirror")
    with torch.no_grad():
        features, logits, own = model.features(x), model(x), model.level_bands((19, 19))
        for r in (9, 12, 13, 18):
            small = downscale(x, r, boundary="mirror")
            of_small, levels = model.features(small), model.level_bands((r, r))
            assert own[: len(levels)] == levels
            assert model(small).shape[1] == len(levels)
            shrunk = features[..., : of_small.shape[-2], : of_small.shape[-1]]
            assert relative_error(shrunk, of_small) <= TOLERANCE[dtype]
            assert relative_error(logits[:, len(levels) - 1], model(small)[:, -1]) <= TOLERANCE[dtype]


def test_a_net_is_exact_with_its_own_downscaling_alone():
    x = upscale(torch.rand(2, 1, 10, 10), 19, "mirror")
    model = create_model("scalenet-tiny", widths=(6, 8), resolutions=range(9, 20), boundary="mirror").eval()
    with torch.no_grad():
        of_small = model.features(downscale(x, 12))
        shrunk = model.features(x)[..., : of_small.shape[-2], : of_small.shape[-1]]
    assert relative_error(shrunk, of_small) > 1e-4


def test_images_that_are_not_square_are_exact_with_a_mirror():
    net = ScaleNet(1, [4, 6], [(7, 10), (8, 13), (12, 15)], pool=[1, 2], boundary="mirror").double()
    head = ScaleHead(6, 3, net.out_levels, "cumulative", 8, boundary="mirror").double()
    model = ScaleClassifier(net, head).eval()
    x = torch.rand(2, 1, 12, 15, dtype=torch.float64)
    with torch.no_grad():
        logits = model(x)
        for level, size in enumerate([(7, 10), (8, 13)]):
            small = model(downscale(x, size, boundary="mirror"))
            assert relative_error(logits[:, level], small[:, -1]) <= TOLERANCE[torch.float64]


def test_the_head_sees_the_image_and_not_its_mirror_image():
    coeffs = analyze(torch.rand(1, 2, 8, 8, dtype=torch.float64), boundary="mirror")
    cells = level_pool(coeffs, [(7, 7)], 4, 2, "max", "mirror").view(2, 2, 2)
    image = synthesize(coeffs, 8, "mirror")[0]
    torch.testing.assert_close(cells, image.view(2, 2, 4, 2, 4).amax((2, 4)))
    net = ScaleNet(1, [2], range(8, 17), boundary="mirror")
    assert ScaleHead(2, 3, net.out_levels, boundary="mirror").window == 8


@settings(max_examples=15)
@given(st.sampled_from(BOUNDARIES), st.sampled_from(["max", "average"]), st.integers(1, 3), st.integers(1, 4))
def test_fast_pooling_of_the_head_agrees_with_the_specification(boundary, kind, cells, window):
    results = []
    x = torch.randn(2, 3, 9, 11, dtype=torch.float64)
    for engine in ("torch", "auto"):
        coeffs = x.clone().requires_grad_()
        with kernels.backend(engine):
            value = kernels.level_pool(coeffs, [(1, 2), (4, 5)], window, cells, kind, boundary)
        weight = torch.linspace(-1, 1, value.numel(), dtype=value.dtype).view_as(value)
        results.append((value, *torch.autograd.grad(value, coeffs, weight)))
    for reference, value in zip(*results, strict=True):
        torch.testing.assert_close(value, reference)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_fast_paths_of_a_net_agree_with_the_specification(boundary):
    model = create_model("scalenet-tiny", widths=(4, 6), resolutions=range(9, 20), boundary=boundary, dropout=0.0)
    x, gradients = torch.rand(2, 1, 17, 17), []
    for engine in ("torch", "auto"):
        model.zero_grad()
        with kernels.backend(engine):
            model(x).square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert relative_error(gradients[1], gradients[0]) < 1e-9


def test_a_canvas_is_close_never_exact_and_worse_where_sizes_are_not_in_proportion():
    j = torch.arange(32, dtype=torch.float64) / 32
    x = 0.3 + j[:, None] + 0.2 * torch.cos(5 * j) + torch.sin(3 * j[:, None] * j)

    def error(boundary, r):
        small = analyze(downscale(x, r, boundary=boundary), boundary=boundary)
        return relative_error(crop(analyze(x, boundary=boundary), r, boundary), small)

    for boundary in ("canvas:0.125", "canvas:0.125:edge", "canvas:1:fade"):
        assert TOLERANCE[torch.float64] < error(boundary, 16) < 0.02
    assert error("canvas:0.125", 20) > 2 * error("canvas:0.125", 16)  # 22.5 samples become 23
    assert error("mirror", 16) <= TOLERANCE[torch.float64]


def test_the_door_and_the_exit_take_a_boundary():
    x = torch.randn(2, 3, 6, 7)
    door, exit_ = ToCoefficients(boundary="mirror"), ToImage(boundary="mirror")
    torch.testing.assert_close(exit_(door(x)), x)
    torch.testing.assert_close(ToImage((9, 9), boundary="mirror")(door(x)), upscale(x, 9, "mirror"))
    assert "boundary='mirror'" in repr(door)
    assert equivariance_error(lambda z: 2 * z, x, (4, 5), boundary="mirror") <= TOLERANCE[torch.float32]


def test_constants_are_kept_apart_by_boundary():
    like = torch.float32, torch.device("cpu")
    ours = {b: transform.analysis_matrix(6, 2, b, *like) for b in BOUNDARIES}
    for a, b in itertools.combinations(BOUNDARIES, 2):
        assert not torch.equal(ours[a], ours[b])
    assert transform.analysis_matrix(6, 2, "mirror", *like) is ours["mirror"]
    torch.testing.assert_close(ours["circular"], transform.analysis_matrix(6, 2, *like))


def test_weights_and_descriptions_from_before_boundaries_load_as_circular():
    info = pretrained_info("scalenet-mnist")
    assert "boundary" not in info["overrides"]
    model = load_pretrained("scalenet-mnist")
    assert model.net.boundary == model.head.boundary == "circular"


@pytest.mark.parametrize("wrong", ["mirrored", "canvas:x", "canvas:-1", "canvas:0.5:grey", "", "mirror:2"])
@pytest.mark.parametrize(
    "use",
    [
        lambda b: analyze(torch.ones(4, 4), boundary=b),
        lambda b: downscale(torch.ones(4, 4), 2, boundary=b),
        lambda b: ScaleNet(1, [2], [4, 8], boundary=b),
        lambda b: ToCoefficients(boundary=b),
        lambda b: ScaledDataset(
            np.zeros((2, 1, 8, 8), np.uint8), [0, 1], [4, 8], preprocessing=Preprocessing(boundary=b)
        ),
    ],
)
def test_an_unknown_boundary_is_refused_with_the_choices(wrong, use):
    with pytest.raises(ValueError, match=r"unknown boundary .*: choose circular, mirror or canvas"):
        use(wrong)


def test_a_net_and_a_head_of_two_boundaries_are_refused():
    net = ScaleNet(1, [2], [4, 8], boundary="mirror")
    with pytest.raises(ValueError, match="give both the same"):
        ScaleClassifier(net, ScaleHead(2, 3, net.out_levels))


def test_a_dataset_downscales_with_its_boundary():
    images = np.random.default_rng(0).integers(0, 256, (4, 1, 12, 12), dtype=np.uint8)
    dataset = ScaledDataset(images, [0, 1, 0, 1], [9], preprocessing=Preprocessing(boundary="mirror"))
    expected = downscale(torch.from_numpy(images[:1]).float() / 255, 9, boundary="mirror")
    torch.testing.assert_close(dataset[0][0], expected[0])


def test_images_are_downscaled_with_the_boundary_of_the_model(tmp_path):
    write_digits(tmp_path)
    settings = [f"data.data_dir={tmp_path}", "data.offline=true"]
    mirrored = small_config(*settings, "model.overrides.boundary=mirror")
    assert load_splits(mirrored).protocol.boundary == load_splits(mirrored).test.preprocessing.boundary == "mirror"
    assert load_splits(mirrored.replaced(["data.boundary=circular"])).train.preprocessing.boundary == "circular"
    assert load_splits(small_config(*settings)).val.preprocessing.boundary == "circular"
    assert model_boundary(small_config("model.name=cnn-mnist")) is None
    with pytest.raises(ConfigError, match="unknown boundary 'mirored'"):
        load_splits(small_config(*settings, "model.overrides.boundary=mirored"))


def test_a_mirrored_net_trains_and_is_measured_exact(tmp_path):
    splits = small_splits(boundary="mirror")
    config = small_config("model.overrides.boundary=mirror", "train.epochs=1")
    metrics = train(config, tmp_path / "run", splits=splits)
    assert metrics["equi_err"] < TOLERANCE[torch.float32]
    assert metrics["levels_from_one_pass"]
    circular = create_model("scalenet-tiny", widths=(4, 6), hidden=8, classes=3, resolutions=[8, 10, 12])
    assert evaluate(circular, splits, EvalConfig(sample=12))["equi_err"] > 1e-4


def test_a_mirrored_net_exports_to_plain_products():
    model = create_model("scalenet-tiny", widths=(4,), pool=1, resolutions=[8, 12], boundary="mirror").eval()
    x = torch.rand(2, 1, 12, 12)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), model(x), atol=1e-5, rtol=1e-4)
    assert not any("fft" in str(node.target) for node in program.graph.nodes)
    assert grids(axis_bands((12, 12), "mirror")) == (23, 23)


@pytest.mark.filterwarnings("ignore")  # the compiler's own parts warn of their own deprecations
def test_a_net_compiles_to_one_graph_with_a_canvas():
    model = create_model("scalenet-tiny", widths=(4,), pool=1, resolutions=[8, 12], boundary="canvas").eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="aot_eager")
    x = torch.rand(2, 1, 12, 12)
    torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


def test_constants_of_boundaries_that_look_alike_are_kept_apart():
    x = torch.rand(1, 1, 28, 28, dtype=torch.float64)
    alone = analyze(x, size=8, boundary="canvas:2")
    clear_constants()
    analyze(x, size=20, boundary="canvas:.2")
    assert torch.equal(analyze(x, size=8, boundary="canvas:2"), alone)
