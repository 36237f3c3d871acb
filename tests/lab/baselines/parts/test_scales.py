"""Features with scales: what is done at every scale, and that nothing is copied or turned around in memory for it."""

import pytest
import torch
from torch import nn

from fourierscale.lab.baselines import si_convnet
from fourierscale.lab.baselines.parts import same_conv, steerable
from fourierscale.lab.baselines.parts.scales import (
    MeanPool2d,
    ScaleBatchNorm2d,
    ScaleMaxPool2d,
    each_map,
    each_scale,
    max_over_scales,
    split_scales,
    stack_scales,
)
from fourierscale.lab.baselines.parts.steerable import PointwiseScaleConv2d
from fourierscale.lab.baselines.si_convnet import ScaleInvariantConv2d
from tests.lab.baselines.small_baselines import small_model


def images(count=3, channels_last=False):
    parts = [torch.randn(2, 5, 6, 4, dtype=torch.float64) for _ in range(count)]
    return [part.contiguous(memory_format=torch.channels_last) for part in parts] if channels_last else parts


def lies_channels_last(x):
    return x.stride(1) == 1


@pytest.mark.parametrize("channels_last", [False, True])
def test_scales_are_stacked_read_and_reduced_as_their_definitions_say(channels_last):
    parts = images(channels_last=channels_last)
    features = stack_scales(parts)
    torch.testing.assert_close(features, torch.stack(parts, 2), rtol=0, atol=0)
    torch.testing.assert_close(max_over_scales(features), torch.stack(parts).amax(0), rtol=0, atol=0)
    torch.testing.assert_close(split_scales(features), parts, rtol=0, atol=0)
    pairs = [torch.cat(parts[:2], 1), torch.cat(parts[1:], 1)]
    torch.testing.assert_close(split_scales(features, 2), pairs, rtol=0, atol=0)
    for pool, expected in ((ScaleMaxPool2d(2), nn.MaxPool3d((1, 2, 2))), (nn.AvgPool2d(2), nn.AvgPool3d((1, 2, 2)))):
        torch.testing.assert_close(each_scale(pool, features), expected(features), rtol=1e-12, atol=0)


@pytest.mark.parametrize("channels_last", [False, True])
def test_nothing_is_copied_and_channels_stay_where_they_are(channels_last):
    features = stack_scales(images(channels_last=channels_last))
    assert split_scales(features)[1].data_ptr() == features[:, :, 1].data_ptr()
    seen = []
    each_scale(lambda x: seen.append(x) or x, features)
    assert seen[0].data_ptr() == features.data_ptr()
    whole = [features, features.relu(), ScaleBatchNorm2d(5).double()(features), ScaleMaxPool2d(2)(features)]
    for x in (*whole, max_over_scales(features)):
        assert lies_channels_last(x) == channels_last


@pytest.mark.parametrize("channels_last", [False, True])
def test_gradients_of_scales_come_back_as_the_features_lie(channels_last):
    features, factors = stack_scales(images(channels_last=channels_last)).requires_grad_(), images(3, channels_last)
    total = sum((factor * part).sum() for factor, part in zip(factors, split_scales(features), strict=True))
    (gradient,) = torch.autograd.grad(total, features)
    torch.testing.assert_close(gradient, torch.stack(factors, 2), rtol=0, atol=0)
    assert gradient.stride() == features.stride()


def test_a_pointwise_convolution_is_a_matrix_at_every_sample_of_every_scale(monkeypatch):
    conv, features = PointwiseScaleConv2d(5, 3, stride=2).double(), stack_scales(images())
    expected = torch.einsum("oc,bcshw->boshw", conv.weight.flatten(1), features[..., ::2, ::2])
    torch.testing.assert_close(conv(features), expected)
    monkeypatch.setattr(steerable, "halved", lambda x: True)
    torch.testing.assert_close(conv(features), expected)
    assert not lies_channels_last(conv(features))


def test_the_norm_has_one_mean_and_one_variance_for_all_scales():
    features = stack_scales(images())
    ours, expected = ScaleBatchNorm2d(5).double(), nn.BatchNorm3d(5).double()
    torch.testing.assert_close(ours(features), expected(features))
    for mine, theirs in zip(ours.state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(ours.eval()(features), expected.eval()(features))


def test_resizing_does_not_care_how_images_lie_in_memory():
    conv = ScaleInvariantConv2d(3, 4, 3, (0.5, 1.0, 2.0), stride=2).double()
    x = torch.randn(2, 3, 12, 10, dtype=torch.float64)
    turned = conv(x.contiguous(memory_format=torch.channels_last))
    assert lies_channels_last(turned)
    assert not lies_channels_last(conv(x))
    torch.testing.assert_close(turned, conv(x))


@pytest.mark.parametrize("name", ["sesn-stl10", "disco-stl10", "dss-stl10", "si-convnet-stl10", "ss-cnn-stl10"])
def test_the_layout_for_tensor_cores_gives_the_same_numbers(name, monkeypatch):
    torch.manual_seed(0)
    net = small_model(name).double().eval()
    x = torch.randn(2, 3, 24, 24, dtype=torch.float64)
    expected = net(x)
    for module in (same_conv, si_convnet, steerable):
        monkeypatch.setattr(module, "halved", lambda x: True)
    torch.testing.assert_close(net(x), expected)


@pytest.mark.parametrize("lies", ["scale by scale", "as images"])
def test_a_pool_reads_features_as_they_lie(lies):
    features = stack_scales(images())
    features = features if lies == "scale by scale" else features.contiguous()
    seen = []
    pooled = each_map(lambda x: nn.functional.max_pool2d(seen.append(x) or x, 2), features)
    assert seen[0].data_ptr() == features.data_ptr()
    assert torch.equal(pooled, nn.functional.max_pool3d(features, (1, 2, 2)))
    assert torch.equal(each_map(nn.MaxPool2d(2), features[:, :, 0]), pooled[:, :, 0])


@pytest.mark.parametrize(("sides", "window"), [((6, 4), 2), ((6, 9), 3), ((5, 4), 2)])
def test_means_of_windows_are_those_of_torch_with_their_gradients(sides, window):
    x = torch.randn(2, 3, *sides, dtype=torch.float64, requires_grad=True)
    ours, theirs = MeanPool2d(window)(x), nn.AvgPool2d(window)(x)
    assert torch.equal(ours, theirs)
    (gradient,) = torch.autograd.grad(ours, x, torch.ones_like(ours).cumsum(-1))
    (expected,) = torch.autograd.grad(theirs, x, torch.ones_like(ours).cumsum(-1))
    torch.testing.assert_close(gradient, expected)
    torch.autograd.gradgradcheck(MeanPool2d(window), (x,))
    with torch.no_grad():
        assert torch.equal(MeanPool2d(window)(x), theirs)
