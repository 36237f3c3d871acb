"""DISCO: its nets double, pool and lift as their authors' do."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fourierscale.lab.baselines.disco import DoublingConv2d, PixelMean, build_disco_mnist, build_disco_stl10
from fourierscale.lab.baselines.parts.disco_fit import SHIPPED, disco_basis
from fourierscale.lab.baselines.parts.steerable import LiftingConv2d


def test_the_digits_net_doubles_its_images_and_pools_as_its_authors_do():
    net = build_disco_mnist(widths=(2, 3, 4)).eval()
    sizes = []
    for part in (*net.convs, *net.norms):
        part.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape[2:])))
    x = torch.rand(2, 1, 28, 28)
    assert net(x).shape == (2, 10)
    assert sizes == [(4, 4 * 28, 28), (4, 28, 28), (4, 28, 28), (4, 14, 14), (4, 14, 14), (2, 2)]
    assert net.features(x).shape == (2, 4, 14, 14)
    first = LiftingConv2d(1, 2, disco_basis(*SHIPPED["disco-basis-mnist"], "B", 1.9, 1.5, 4))
    first.load_state_dict(net.convs[0].state_dict())
    y = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
    for stage, conv in enumerate((first, net.convs[1])):
        y = net.norms[stage](F.avg_pool3d(torch.relu(conv(y)), (1, 2, 2)))
    y = torch.relu(net.convs[2](y).amax(2))
    y = net.norms[2](F.avg_pool2d(F.max_pool2d(y, 7, 1), 2, 4))
    torch.testing.assert_close(net(x), net.head(y))


def test_the_residual_net_pools_instead_of_striding_and_lifts_again():
    net = build_disco_stl10(widths=(2, 4, 4, 6)).eval()
    assert all(m.stride == 1 for m in net.modules() if type(m).__name__ in ("LiftingConv2d", "ScaleConv2d"))
    assert all(m.stride == (1, 1, 1) for m in net.modules() if isinstance(m, nn.Conv3d))
    names = [type(m).__name__ for m in net.modules()]
    assert names.count("LiftingConv2d") == 3
    assert names.count("ScaleConv2d") == 10
    assert net.features(torch.rand(1, 3, 16, 16)).shape == (1, 6, 4, 4)


@pytest.mark.parametrize("size", [1, 3, 5, 7, 9, 13, 15])
def test_a_convolution_of_doubled_images_needs_no_doubling(size):
    torch.manual_seed(size)
    basis, x = torch.randn(4, 3, size, size, dtype=torch.float64), torch.randn(2, 2, 5, 6, dtype=torch.float64)
    conv, twin = DoublingConv2d(2, 3, basis).double(), LiftingConv2d(2, 3, basis).double()
    twin.load_state_dict(conv.state_dict())
    images = [x.clone().requires_grad_() for _ in range(2)]
    ours, theirs = conv(images[0]), twin(F.interpolate(images[1], scale_factor=2))
    means = PixelMean()(ours.square()), F.avg_pool3d(theirs.square(), (1, 2, 2))
    torch.testing.assert_close(*means, rtol=1e-6, atol=1e-6)
    ours = torch.unflatten(ours, 3, (2, 2, 5)).permute(0, 1, 2, 5, 3, 6, 4).reshape(theirs.shape)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    gradient = torch.randn_like(ours)
    grads = [
        torch.autograd.grad(y, (image, *module.parameters()), gradient)
        for y, image, module in ((ours, images[0], conv), (theirs, images[1], twin))
    ]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
