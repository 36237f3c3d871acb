"""SESN: its basis is the formula at every scale, its layers are their definitions, its nets have their sizes."""

import math

import pytest
import torch
from torch import nn

from fourierscale.lab.baselines.hermite import hermite_basis, hermite_functions
from fourierscale.lab.baselines.sesn import build_sesn_mnist, build_sesn_stl10
from fourierscale.lab.baselines.steerable import LiftingConv2d, ScaleConv2d
from fourierscale.testing import relative_error

SCALES = (1.7, 2.45, 3.54, 5.1)


def hermite(order, u):
    """The explicit sum of the probabilists' polynomial."""
    return sum(
        (-1) ** m * math.factorial(order) / (math.factorial(m) * math.factorial(order - 2 * m) * 2**m)
        * u ** (order - 2 * m)
        for m in range(order // 2 + 1)
    )  # fmt: skip


def test_functions_follow_the_formula():
    functions = hermite_functions(5, 1.3, 9)
    for index in range(9):
        a, b = index % 3, index // 3
        for i in range(5):
            for j in range(5):
                u, v = (i - 2) / 1.3, (j - 2) / 1.3
                value = hermite(a, u) * hermite(b, v) * math.exp(-(u * u + v * v) / 2) / 1.3**2
                assert functions[index, i, j].item() == pytest.approx(value, abs=1e-14)


def test_basis_b_has_total_order_four_and_then_smaller_widths():
    functions = hermite_functions(15, 5.1, 49, "B", 1.5)
    assert functions.shape == (49, 15, 15)
    torch.testing.assert_close(functions[15:30], hermite_functions(15, 5.1 / 1.5, 15, "B"))
    torch.testing.assert_close(functions[45:], hermite_functions(15, 5.1 / 1.5**3, 4, "B"))
    # odd orders are odd functions: of 15 pairs, 9 are even in u, of which 6 are even in v too
    even = functions[:15] + functions[:15].flip(1)
    assert sum(f.abs().max().item() > 1e-12 for f in even) == 9


@pytest.mark.parametrize(("kind", "count"), [("A", 9), ("B", 49)])
def test_a_resized_function_is_the_formula_at_its_scale(kind, count):
    """At 2 sigma, on twice the grid, it passes through a quarter of the values at sigma: nothing is interpolated."""
    basis = hermite_basis(29, (1.5, 3.0), count, kind)
    inner = basis[:, 0, 7:22, 7:22]
    assert basis[:, 0].square().sum().item() == pytest.approx(inner.square().sum().item())  # padded with zeros
    torch.testing.assert_close(basis[:, 1, ::2, ::2], inner / 4, rtol=0, atol=1e-14)


def test_a_scale_is_cut_off_at_its_share_of_the_size_and_normalised_by_the_smallest():
    basis = hermite_basis(15, SCALES, 49, "B")
    assert basis.shape == (49, 4, 15, 15)
    torch.testing.assert_close(basis[:, 0].square().sum((1, 2)), torch.ones(49, dtype=torch.float64))
    for number, inner in enumerate((5, 7, 11, 15)):  # floor(15 s / 5.1), made odd
        border = (15 - inner) // 2
        ring = basis[:, number].clone()
        ring[:, border : 15 - border, border : 15 - border] = 0
        assert ring.abs().max() == 0
        assert (basis[0, number, border] != 0).any()


def test_a_scaled_image_gives_the_scaled_response():
    """Blobs, and the same blobs twice as large: a relative squared error below 1e-6 where kernels are resolved."""

    def blobs(scale, side):
        u = (torch.arange(side, dtype=torch.float64) - side // 2) / scale
        grid = torch.stack(torch.meshgrid(u, u, indexing="ij"))
        centres = torch.tensor([[0.0, 0.0], [6.0, -4.0], [-5.0, 7.0]], dtype=torch.float64)
        far = (grid - centres[:, :, None, None]).square().sum(1)
        return torch.exp(-far / torch.tensor([18.0, 10.0, 14.0])[:, None, None]).sum(0)[None, None]

    basis = hermite_basis(29, (1.7, 3.4), 9)
    conv = LiftingConv2d(1, 5, basis).double()
    conv.basis = basis
    inside = (..., slice(8, 33), slice(8, 33))
    base = conv(blobs(1, 41))[:, :, 0][inside]
    large = conv(blobs(2, 81))[..., ::2, ::2]
    same, wrong = (relative_error(large[:, :, s][inside], base) for s in (1, 0))
    assert same < 1e-6
    assert wrong > 0.05


@pytest.mark.parametrize("stride", [1, 2])
def test_lifting_is_a_loop_over_scales(stride):
    basis = hermite_basis(7, (0.9, 1.27, 1.79), 9)
    conv = LiftingConv2d(2, 4, basis, stride).double()
    conv.basis = basis
    conv.bias.data.normal_()
    x = torch.randn(3, 2, 9, 12, dtype=torch.float64)
    y = conv(x)
    for s in range(3):
        kernel = sum(conv.weight[:, :, 0, i, None, None] * basis[i, s] for i in range(9))
        expected = nn.functional.conv2d(x, kernel, conv.bias, stride, padding=3)
        torch.testing.assert_close(y[:, :, s], expected)


@pytest.mark.parametrize(("extent", "stride"), [(1, 1), (2, 1), (3, 2)])
def test_scale_convolution_is_a_loop_over_scales(extent, stride):
    basis = hermite_basis(7, (0.9, 1.27, 1.79), 9)
    conv = ScaleConv2d(2, 4, basis, extent, stride).double()
    conv.basis = basis
    conv.bias.data.normal_()
    x = torch.randn(3, 2, 3, 9, 12, dtype=torch.float64)
    y = conv(x)
    for s in range(3):
        expected = conv.bias[:, None, None]
        for e in range(min(extent, 3 - s)):
            kernel = sum(conv.weight[:, :, e, i, None, None] * basis[i, s] for i in range(9))
            expected = expected + nn.functional.conv2d(x[:, :, s + e], kernel, None, stride, padding=3)
        torch.testing.assert_close(y[:, :, s], expected)


def test_weights_begin_like_a_convolution_of_as_many_weights():
    conv = LiftingConv2d(8, 40, hermite_basis(15, SCALES, 49, "B"))
    bound = 1 / math.sqrt(8 * 49)
    assert bound * 0.99 < conv.weight.abs().max().item() <= bound
    assert conv.bias.abs().max() == 0
    net = build_sesn_stl10(widths=(4, 32, 32, 32), variant="C")
    assert net.blocks[0].convs[0].weight.std().item() == pytest.approx(math.sqrt(2 / (32 * 2 * 9)), rel=0.05)
    assert net.blocks[3].convs[1].weight.std().item() == pytest.approx(math.sqrt(2 / (32 * 9)), rel=0.05)
    assert net.blocks[2].shortcut.weight.std().item() == pytest.approx(math.sqrt(2 / 32), rel=0.1)


def test_variants_of_the_residual_net_have_their_parameters():
    with torch.device("meta"):
        counts = [sum(p.numel() for p in build_sesn_stl10(variant=v).parameters()) for v in ("A", "B", "C")]
    assert counts == [10_961_370, 10_961_370, 10_979_802]


def test_variants_of_the_residual_net_mix_scales_where_they_say():
    kinds = {}
    for variant in ("A", "B", "C"):
        net = build_sesn_stl10(widths=(2, 4, 4, 6), variant=variant).eval()
        kinds[variant] = [(type(b.convs[0]).__name__, getattr(b.convs[0], "extent", None)) for b in net.blocks]
        assert net.features(torch.rand(1, 3, 16, 16)).shape == (1, 6, 4, 4)
    assert kinds["A"] == [("ScaleConv2d", 1)] * 6
    assert [number for number, (kind, _) in enumerate(kinds["B"]) if kind == "Sequential"] == [2, 4]
    assert kinds["C"] == [("ScaleConv2d", 2)] + [("ScaleConv2d", 1)] * 5


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="must be odd, got 6"):
        hermite_functions(6, 1.0, 9)
    with pytest.raises(ValueError, match="square number"):
        hermite_functions(5, 1.0, 8)
    with pytest.raises(ValueError, match="smallest first"):
        hermite_basis(7, (2.0, 1.0), 9)
    with pytest.raises(ValueError, match="choose one of A, B"):
        hermite_functions(5, 1.0, 9, "C")
    with pytest.raises(ValueError, match="choose one of A, B, C"):
        build_sesn_stl10(variant="D")
    with pytest.raises(ValueError, match=r"functions, scales, size, size"):
        LiftingConv2d(1, 2, torch.ones(9, 5, 5))
    with pytest.raises(ValueError, match=r"\(batch, 2, 3, height, width\)"):
        ScaleConv2d(2, 4, hermite_basis(7, (0.9, 1.27, 1.79), 9))(torch.rand(1, 2, 9, 9))
    assert build_sesn_mnist(widths=(2, 2, 2)).norms[0].num_features == 2
