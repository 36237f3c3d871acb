"""The exact residual net: exact on trained weights for every size, however many of its stages are exact."""

import copy

import onnx
import pytest
import torch
from torch import nn

from fourierscale import create_model, downscale
from fourierscale.export import OnnxClassifier, export_onnx
from fourierscale.functional import crop
from fourierscale.models import LayerConfig, Preprocessing, ScaleClassifier, ScaleHead, ScaleResNet
from fourierscale.testing import TOLERANCE, relative_error

RESOLUTIONS = range(48, 97, 8)


def trained(model, resolutions, steps=6):
    """After a few steps on noise, so that statistics and parameters are not what they were drawn."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    sizes = [*resolutions]
    for step in range(steps):
        n = sizes[-1 - step % len(sizes)]
        logits = model(torch.randn(4, 3, n, n))
        loss = nn.functional.cross_entropy(logits[:, -1], torch.arange(4) % 3) + logits.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.double().eval()


@pytest.fixture(scope="module")
def photographs():
    torch.manual_seed(0)
    options = {"widths": (2, 3, 4), "blocks": (2, 1, 1), "classes": 3, "hidden": 8}
    return trained(create_model("scaleresnet-stl10", **options), RESOLUTIONS, 8)


@pytest.mark.parametrize("n", range(48, 97))
def test_trained_weights_are_exact_for_inputs_of_every_size_at_every_level_below(photographs, n):
    x = torch.randn(1, 3, n, n, dtype=torch.float64)
    with torch.inference_mode():
        logits, features = photographs(x), photographs.features(x)
        for r in (r for r in RESOLUTIONS if r < n):
            small = downscale(x, r)
            own = photographs.features(small)
            assert relative_error(crop(features, tuple(own.shape[-2:])), own) <= TOLERANCE[torch.float64]
            answer = photographs(small)
            assert relative_error(logits[:, : answer.shape[1]], answer) <= TOLERANCE[torch.float64]


def test_single_precision_is_exact_too(photographs):
    model, x = copy.deepcopy(photographs).float(), torch.randn(2, 3, 96, 96)
    with torch.inference_mode():
        features = model.features(x)
        for r in RESOLUTIONS:
            own = model.features(downscale(x, r))
            assert relative_error(crop(features, tuple(own.shape[-2:])), own) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("size", [(64, 96), (95, 57), (48, 73), (49, 96)])
def test_images_that_are_not_square_are_exact_at_square_levels(photographs, size):
    x = torch.randn(1, 3, *size, dtype=torch.float64)
    with torch.inference_mode():
        logits = photographs(x)
        for r in (r for r in RESOLUTIONS if r <= min(size)):
            answer = photographs(downscale(x, (r, r)))
            assert relative_error(logits[:, : answer.shape[1]], answer) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("exact", [0, 1, 2])
@pytest.mark.parametrize("boundary", ["circular", "mirror"])
def test_however_many_stages_are_exact_logits_are(exact, boundary):
    torch.manual_seed(0)
    options = {"widths": (2, 3, 4), "blocks": 1, "classes": 3, "hidden": 8, "resolutions": range(16, 33, 8)}
    model = trained(create_model("scaleresnet-stl10", exact_stages=exact, boundary=boundary, **options), (16, 24, 32))
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    with torch.inference_mode():
        logits, features = model(x), model.features(x)
        for r in (16, 24):
            small = downscale(x, r, boundary=boundary)
            answer, own = model(small), model.features(small)
            assert relative_error(logits[:, : answer.shape[1]], answer) <= TOLERANCE[torch.float64]
            assert relative_error(crop(features, tuple(own.shape[-2:])), own) <= TOLERANCE[torch.float64]


def test_it_has_the_parameters_of_the_plain_net_and_its_head():
    widths, hidden = (64, 128, 256), 256
    taps, norms, channels = 3 * 64 * 9, 2 * widths[-1], 64
    for width in widths:
        taps += 9 * channels * width + 3 * 9 * width**2 + (channels * width if channels != width else 0)
        norms, channels = norms + 2 * (channels + 3 * width), width
    pooled = 2 * 4 * widths[-1]
    head = 2 * pooled + pooled * hidden + hidden + 2 * hidden + hidden * 10 + 10 + len(RESOLUTIONS)
    for exact in range(4):
        model = create_model("scaleresnet-stl10", exact_stages=exact)
        assert sum(p.numel() for p in model.parameters()) == taps + norms + head


def test_options_of_norms_reach_the_layers():
    model = create_model("scaleresnet-stl10-small", norm_per_level=True, norm_synchronised=True, exact_stages=1)
    norms = [part.batch_norm for part in model.modules() if getattr(part, "batch_norm", None) is not None]
    assert len(norms) == 13
    assert all(norm.weight.shape[0] == 7 and norm.options.synchronised for norm in norms)


def test_another_norm_and_grid_are_exact_too():
    torch.manual_seed(0)
    layers = LayerConfig(norm="instance", grid="level", activation="gelu", pointwise=False)
    net = ScaleResNet(3, [3, 4], [12, 16, 20], blocks=1, exact_stages=1, layers=layers)
    head = ScaleHead(3, 3, net.out_levels, "average", 8, stages=net.parted(), pool_kind="both")
    model = trained(ScaleClassifier(net, head), (12, 16, 20))
    x = torch.randn(2, 3, 20, 20, dtype=torch.float64)
    for r in (12, 16):
        answer = model(downscale(x, r))
        assert relative_error(model(x)[:, : answer.shape[1]], answer) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("exact", [1, 2])
def test_a_file_has_the_norms_folded_into_constants(exact, tmp_path):
    torch.manual_seed(0)
    options = {"widths": (2, 3), "blocks": 1, "classes": 3, "hidden": 8, "resolutions": (12, 16)}
    model = trained(create_model("scaleresnet-stl10", exact_stages=exact, **options), (12, 16)).float()
    model.preprocessing = Preprocessing(mean=(0.4,) * 3, std=(0.2,) * 3, classes=("a", "b", "c"))
    report = export_onnx(model, tmp_path / "net.onnx", [12, 16], raw=True, batches=())
    assert report.difference < 1e-4
    names = {tensor.name for tensor in onnx.load(report.path).graph.initializer}
    assert names
    assert not any("running" in name for name in names)
    x = torch.rand(2, 3, 16, 16)
    file = OnnxClassifier(tmp_path / "net.onnx")
    with torch.no_grad():
        torch.testing.assert_close(file(x), model(model.preprocessing(x)), atol=1e-4, rtol=0)


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="exact_stages must be from 0 to 2"):
        ScaleResNet(3, [4, 8], [12, 16], exact_stages=3)
    with pytest.raises(ValueError, match="one per stage"):
        ScaleResNet(3, [4, 8], [12, 16], blocks=(1, 2, 3))
    with pytest.raises(ValueError, match="channels of each stage"):
        ScaleResNet(3, [], [12, 16])
