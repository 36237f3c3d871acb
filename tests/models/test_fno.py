import pytest
import torch

from fourierscale.functional import downscale, upscale
from fourierscale.models import FNO
from fourierscale.models.fno import _SpectralConv


def test_the_published_size_has_the_published_number_of_parameters():
    """1,188,353 with each complex weight counted as one; here each is two real numbers."""
    complex_weights = 4 * 2 * 32 * 32 * 12 * 12
    assert sum(p.numel() for p in FNO().parameters()) == 1_188_353 + complex_weights


def test_the_spectral_layer_is_its_definition():
    layer, x = _SpectralConv(2, 2).double(), torch.randn(1, 2, 6, 6).double()
    weight = torch.view_as_complex(layer.weight)
    spectrum = torch.fft.fft2(x)
    mixed = torch.zeros_like(spectrum)
    for k1 in (-2, -1, 0, 1):
        for k2 in (0, 1):
            matrix = weight[0 if k1 >= 0 else 1, :, :, k1 % 2, k2]
            value = torch.einsum("bi,io->bo", spectrum[:, :, k1, k2], matrix)
            if k2 == 0:  # a real field takes the real part of a line that is its own mirror image
                mixed[:, :, k1, 0] += value / 2
                mixed[:, :, -k1, 0] += value.conj() / 2
            else:
                mixed[:, :, k1, k2] += value
                mixed[:, :, -k1, -k2] += value.conj()
    torch.testing.assert_close(layer(x), torch.fft.ifft2(mixed).real)


def test_the_linear_part_is_the_same_on_every_grid_that_holds_its_modes():
    torch.manual_seed(0)
    net = FNO(modes=4, width=4, depth=1, positions=False).double()
    net.project = torch.nn.Identity()
    x = upscale(torch.randn(1, 1, 9, 9).double(), 32)
    torch.testing.assert_close(downscale(net(x), 16), net(downscale(x, 16)))


@pytest.mark.parametrize("norm", ["none", "instance"])
@pytest.mark.parametrize("size", [(6, 6), (16, 16), (9, 14)])
def test_any_grid_and_every_weight_a_gradient(norm, size):
    net = FNO(2, 3, modes=4, width=6, depth=2, norm=norm)
    y = net(torch.randn(2, 2, *size))
    assert y.shape == (2, 3, *size)
    y.square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_mixed_precision_runs_and_a_norm_that_is_not_there_is_refused():
    with torch.autocast("cpu", torch.bfloat16):
        assert FNO(modes=4, width=6, depth=2)(torch.randn(1, 1, 16, 16)).isfinite().all()
    with pytest.raises(ValueError, match="unknown norm"):
        FNO(norm="batch")
