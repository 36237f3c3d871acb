"""The two frames: sizes, parameters, scale axes and features."""

import pytest
import torch
from torch import nn

from fourierscale.lab.baselines.parts.frames import MnistFrame, Place, WideResNet, conv1x1, conv3x3, max_over_scales


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


class TwoScales(nn.Module):
    """The image and its negative, each convolved: something with a scale axis."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1)

    def forward(self, x):
        scales = x.unbind(2) if x.ndim == 5 else (x, -x)
        return torch.stack([self.conv(s) for s in scales], 2)


def test_the_digits_frame_is_the_table_of_its_layers():
    frame = MnistFrame(lambda i, o, stage: nn.Conv2d(i, o, 7, padding=3))
    layers = sum(i * o * 49 + o + 2 * o for i, o in [(1, 32), (32, 63), (63, 95)])
    assert count(frame) == layers + 380 * 256 + 2 * 256 + 256 * 10 + 10 == 494_549
    frame.eval()
    x = torch.rand(2, 1, 28, 28)
    y = x
    for stage, size in enumerate((28, 14, 7)):
        assert y.shape[-1] == size
        y = torch.relu(frame.convs[stage](y))
        if stage == 2:
            torch.testing.assert_close(frame.features(x), y)
        y = frame.norms[stage](frame.pools[stage](y))
    assert y.shape == (2, 95, 2, 2)
    torch.testing.assert_close(frame(x), frame.head(y))


@pytest.mark.parametrize("keep", [(False, False, False), (True, True, False), (True, True, True)])
def test_a_scale_axis_ends_where_it_is_asked_to(keep):
    frame = MnistFrame(lambda i, o, stage: TwoScales(i, o), widths=(2, 3, 4), keep_scales=keep).eval()
    seen = []
    for norm in frame.norms:
        norm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].ndim))
    x = torch.rand(3, 1, 28, 28)
    assert frame(x).shape == (3, 10)
    assert seen == [5 if k else 4 for k in keep]
    assert frame.features(x).shape == (3, 4, 7, 7)


def test_a_pool_treats_scales_as_so_many_images():
    keep = (True, True, True)
    frame = MnistFrame(lambda i, o, stage: TwoScales(i, o), widths=(2, 3, 4), keep_scales=keep).eval()
    y = torch.relu(frame.convs[0](torch.rand(3, 1, 28, 28)))
    seen = []
    frame.norms[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    frame.convs[0].register_forward_hook(lambda module, inputs, output: y)
    frame(torch.rand(3, 1, 28, 28))
    torch.testing.assert_close(seen[0], nn.functional.max_pool3d(y, (1, 2, 2)))


def test_the_wide_residual_net_has_its_parameters_and_init():
    with torch.device("meta"):
        assert count(WideResNet()) == 10_961_370
    net = WideResNet(widths=(8, 32, 32, 64))
    weight = net.blocks[5].convs[1].weight
    assert weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)
    assert [block.shortcut is None for block in net.blocks] == [False, True, False, True, False, True]


@pytest.mark.parametrize("size", [48, 57, 96])
def test_the_wide_residual_net_strides_twice(size):
    net = WideResNet(widths=(2, 4, 4, 6)).eval()
    features = net.features(torch.rand(1, 3, size, size))
    assert features.shape == (1, 6, -(-size // 4), -(-size // 4))
    assert net(torch.rand(1, 3, size, size)).shape == (1, 10)


def test_the_wide_residual_net_carries_scales_and_tells_each_place():
    places = []

    def conv(inputs, outputs, stride, place):
        places.append((place.group, place.block, place.layer, stride))
        return TwoScales(inputs, outputs, stride)

    def shortcut(inputs, outputs, stride, place):
        assert place == Place(place.group)
        assert place.entry
        return nn.Conv3d(inputs, outputs, 1, (1, stride, stride))

    net = WideResNet(widths=(2, 4, 4, 6), conv=conv, shortcut=shortcut).eval()
    assert places[0] == (0, 0, 0, 1)
    assert places[1:5] == [(1, 0, 0, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 1)]
    assert [stride for *_, stride in places[5:]] == [2, 1, 1, 1, 2, 1, 1, 1]
    x = torch.rand(2, 3, 16, 16)
    assert net.features(x).shape == (2, 6, 4, 4)
    assert net(x).shape == (2, 10)


@pytest.mark.parametrize("first", [False, True])
def test_the_last_norm_and_the_maximum_over_scales_come_in_the_order_asked_for(first):
    def shortcut(inputs, outputs, stride, place):
        return nn.Conv3d(inputs, outputs, 1, (1, stride, stride))

    net = WideResNet(
        widths=(2, 4, 4, 6),
        conv=lambda i, o, stride, place: TwoScales(i, o, stride),
        shortcut=shortcut,
        max_before_norm=first,
    ).eval()
    net.norm.weight.data.fill_(-1.0)  # so that the order matters
    x = torch.rand(2, 3, 16, 16)
    last = net.blocks(net.stem(x))
    expected = torch.relu(net.norm(last.amax(2))) if first else torch.relu(net.norm(last)).amax(2)
    torch.testing.assert_close(net.features(x), expected)


def test_a_block_follows_its_definition():
    net = WideResNet(widths=(2, 4, 4, 6)).eval()
    x = torch.rand(2, 2, 8, 8)
    first, second = net.blocks[0], net.blocks[1]
    active = torch.relu(first.norms[0](x))
    y = first.convs[1](torch.relu(first.norms[1](first.convs[0](active)))) + first.shortcut(active)
    torch.testing.assert_close(first(x), y)
    z = second.convs[1](torch.relu(second.norms[1](second.convs[0](torch.relu(second.norms[0](y)))))) + y
    torch.testing.assert_close(second(y), z)


def test_wrong_images_and_wrong_stages_are_explained():
    frame = MnistFrame(lambda i, o, stage: conv3x3(i, o, 1, Place(0)), widths=(2, 3, 4))
    with pytest.raises(ValueError, match=r"\(batch, 1, 28, 28\), got \(2, 1, 20, 20\).*enlarge_to"):
        frame(torch.rand(2, 1, 20, 20))
    with pytest.raises(ValueError, match="three stages"):
        MnistFrame(lambda i, o, stage: conv1x1(i, o, 1, Place(0)), widths=(2, 3))
    with pytest.raises(ValueError, match=r"\(batch, 3, height, width\)"):
        WideResNet(widths=(2, 4, 4, 6))(torch.rand(2, 1, 20, 20))
    with pytest.raises(ValueError, match="three groups"):
        WideResNet(widths=(2, 4, 4))
    x = torch.rand(1, 2, 3, 3)
    assert max_over_scales(x) is x
