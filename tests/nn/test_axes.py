"""Signals, images and volumes: what an int means, what a block takes, and what is said of wrong input."""

import numpy as np
import pytest
import torch
from torch import nn

from fourierscale.functional import downscale, upscale
from fourierscale.models import ScaleNet, create_model
from fourierscale.nn import (
    LocalFourierConv1d,
    LocalFourierConv2d,
    LocalFourierConv3d,
    ScaleActivation1d,
    ScaleActivation3d,
    ScaleDropout,
    ScaleEquivariant,
)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_an_int_stands_for_as_many_axes_as_are_said(axes: int) -> None:
    x = torch.rand(2, 3, *[12] * axes, dtype=torch.float64)
    torch.testing.assert_close(downscale(x, 7, axes=axes), downscale(x, (7,) * axes))
    torch.testing.assert_close(upscale(x, 15, axes=axes), upscale(x, (15,) * axes))


def test_a_signal_taken_for_an_image_is_noticed() -> None:
    with pytest.raises(ValueError, match=r"for a signal give \(250,\) or axes=1"):
        downscale(torch.rand(1, 1, 1000), 250)
    with pytest.raises(ValueError, match="use upscale for a larger grid"):
        downscale(torch.rand(1, 1, 20, 20), 30)
    with pytest.raises(ValueError, match=r"expected a size for 3 axes, got \(8, 8\)"):
        downscale(torch.rand(9, 9, 9), (8, 8), axes=3)
    with pytest.raises(ValueError, match="axes must be 1 or more"):
        downscale(torch.rand(9, 9), 8, axes=0)


def test_a_block_has_the_axes_of_its_layers() -> None:
    signal = nn.Sequential(LocalFourierConv1d(2, 4, 5, 32), ScaleDropout(), ScaleActivation1d(4, [8, 16, 32]))
    volume = nn.Sequential(LocalFourierConv3d(1, 2, 3, 8), ScaleActivation3d(2, [4, 8]))
    assert ScaleEquivariant(signal)(torch.rand(1, 2, 32)).shape == (1, 4, 32)
    assert ScaleEquivariant(volume)(torch.rand(1, 1, 8, 8, 8)).shape == (1, 2, 8, 8, 8)
    assert ScaleEquivariant(nn.Identity()).axes == 2
    with pytest.raises(ValueError, match="have 1 and 2 axes"):
        ScaleEquivariant(nn.Sequential(LocalFourierConv1d(1, 1, 3, 8), LocalFourierConv2d(1, 1, 3, 8)))


@pytest.mark.parametrize(
    ("x", "error", "remedy"),
    [
        (torch.rand(1, 1, 28, 28).double(), TypeError, r"give x\.float\(\)"),
        (torch.rand(1, 1, 28, 28).half(), TypeError, r"give x\.float\(\)"),
        (torch.zeros(1, 1, 28, 28, dtype=torch.uint8), TypeError, r"give x\.float\(\) / 255"),
        (torch.rand(2, 28, 28, 1), ValueError, r"channels go first, x\.permute\(0, 3, 1, 2\)"),
        (torch.rand(1, 28, 28), ValueError, r"add a batch axis, x\[None\]"),
        (torch.rand(28, 28), ValueError, r"x\[None, None\]"),
        (torch.rand(1, 3, 28, 28), ValueError, r"give 1 channel\(s\)"),
        (np.zeros((1, 1, 28, 28), dtype=np.float32), TypeError, "Classifier takes files, pictures and arrays"),
    ],
)
def test_what_a_net_does_not_take_is_refused_with_the_remedy(x: object, error: type[Exception], remedy: str) -> None:
    with pytest.raises(error, match=remedy):
        create_model("scalenet-tiny").eval()(x)


@pytest.mark.parametrize("resolutions", [[(64,), (128,)], [(4, 4, 4), (8, 8, 8)]])
def test_an_image_net_is_not_made_of_signals_or_volumes(resolutions: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="expected resolutions as ints or"):
        ScaleNet(1, [4], resolutions)
    assert ScaleNet(1, [4], [(8, 12), (16, 24)]).levels is not None


def test_mixed_precision_casts_by_itself() -> None:
    model = create_model("scalenet-tiny").eval()
    with torch.autocast("cpu", torch.bfloat16):
        assert model(torch.rand(1, 1, 28, 28)).isfinite().all()
    assert model.double()(torch.rand(1, 1, 28, 28).double()).dtype == torch.float64
