"""SESN: its nets have their sizes, and mix scales where they say."""

import math

import pytest
import torch

from fourierscale.lab.baselines.sesn import build_sesn_mnist, build_sesn_stl10


def test_weights_of_the_residual_net_begin_as_its_authors_draw_them():
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


def test_an_unknown_variant_is_refused_and_the_frame_has_its_options():
    with pytest.raises(ValueError, match="choose one of A, B, C"):
        build_sesn_stl10(variant="D")
    assert build_sesn_mnist(widths=(2, 2, 2)).norms[0].num_features == 2
