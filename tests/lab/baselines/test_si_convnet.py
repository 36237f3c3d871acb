"""SI-ConvNet's layer: its definition as a loop over scales, and what it claims."""

import pytest
import torch
from torch.nn import functional as F

from fourierscale.lab.baselines.si_convnet import ScaleInvariantConv2d, resize_matrix
from fourierscale.models import model_info

MNIST_SCALES = model_info("si-convnet-mnist").default("scales")
STL10_SCALES = model_info("si-convnet-stl10").default("scales")


def resize(x, scale):
    """Bilinear with aligned corners; then a centred crop or zeros."""
    n, m = x.shape[-1], max(1, int(x.shape[-1] * scale))
    x = F.interpolate(x, size=(m, m), mode="bilinear", align_corners=True)
    before = (n - m) // 2
    return F.pad(x, (before, n - m - before, before, n - m - before))


def slow(layer, x):
    responses = []
    for scale in layer.scales:
        y = F.conv2d(resize(x, scale), layer.weight, layer.bias, layer.stride, layer.padding)
        responses.append(resize(y, 1 / scale))
    return torch.stack(responses).amax(0)


@pytest.mark.parametrize("scales", [MNIST_SCALES, STL10_SCALES, (1.0,)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("n", [28, 14, 7])
def test_one_batch_of_scales_is_the_loop_over_scales(scales, stride, n):
    layer = ScaleInvariantConv2d(2, 3, 5, scales, stride).double()
    x = torch.randn(2, 2, n, n, dtype=torch.float64)
    torch.testing.assert_close(layer(x), slow(layer, x))
    gradients = [torch.autograd.grad(f(x).square().sum(), layer.weight)[0] for f in (layer, lambda x: slow(layer, x))]
    torch.testing.assert_close(*gradients)


def test_non_square_maps_have_a_matrix_per_axis():
    layer = ScaleInvariantConv2d(1, 2, 3, (0.5, 1.0, 2.0))
    x = torch.randn(1, 1, 9, 12)
    torch.testing.assert_close(layer(x).mT, _transposed(layer)(x.mT))


def _transposed(layer):
    twin = ScaleInvariantConv2d(1, 2, 3, layer.scales)
    twin.load_state_dict({"weight": layer.weight.mT, "bias": layer.bias})
    return twin


@pytest.mark.parametrize("n", [1, 2, 7, 28])
def test_resizing_keeps_a_constant_where_it_does_not_pad(n):
    for m in (1, 2, 5, 28, 93):
        matrix = resize_matrix(n, m, torch.float64, torch.device("cpu"))
        sums = matrix.sum(1)
        assert (sums > 0.5).sum() == min(n, m)
        torch.testing.assert_close(sums, (sums > 0.5).double())
    assert torch.equal(resize_matrix(n, n, torch.float64, torch.device("cpu")), torch.eye(n, dtype=torch.float64))


def test_halving_an_image_moves_its_responses_by_one_scale_so_their_maximum_changes_less():
    """The claim, which is approximate: resizing does not compose, and of three scales two are shared."""
    weight = ScaleInvariantConv2d(1, 32, 7, (1.0,), bias=False).state_dict()
    line = torch.linspace(-1, 1, 65)
    width = torch.tensor([0.16, 0.2, 0.24])[:, None, None]
    far = (line[:, None] ** 2 + line[None, :] ** 2) / width**2
    blobs = ((1 - far) * torch.exp(-far))[:, None]  # (3, 1, 65, 65), smooth, far from the border
    halved = resize(blobs, 0.5)

    def change(scales, scales_of_halved):
        strongest = []
        for x, factors in ((blobs, scales), (halved, scales_of_halved)):
            layer = ScaleInvariantConv2d(1, 32, 7, factors, bias=False)
            layer.load_state_dict(weight)
            strongest.append(layer(x).amax((2, 3)))
        return ((strongest[0] - strongest[1]).abs().sum() / strongest[0].abs().sum()).item()

    plain = change((1.0,), (1.0,))
    assert change((0.5, 1.0), (1.0, 2.0)) < 0.4 * plain  # the shared scales
    assert change((0.5, 1.0, 2.0), (0.5, 1.0, 2.0)) < 0.6 * plain  # the layer
    assert change((0.5, 1.0), (1.0, 2.0)) > 1e-3
