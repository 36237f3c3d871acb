"""DISCO: accurate discrete scale convolutions (Sosnovik, Moskalev and Smeulders, BMVC 2021).

SESN's layers over a basis that is fitted on the grid instead of sampled from a formula; ``parts`` has the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.parts.disco_fit import disco_basis
from fourierscale.lab.baselines.parts.frames import MnistFrame, WideResNet, register_in_frame
from fourierscale.lab.baselines.parts.same_conv import same_conv2d
from fourierscale.lab.baselines.parts.scales import MeanPool2d
from fourierscale.lab.baselines.parts.steerable import LiftingConv2d, ScaleConv2d, steerable_resnet

__all__ = ["DoublingConv2d", "PixelMean", "build_disco_mnist", "build_disco_stl10"]

CITATION = "Sosnovik et al., DISCO: accurate Discrete Scale Convolutions, BMVC 2021"


class DoublingConv2d(LiftingConv2d):
    """What :class:`LiftingConv2d` gives of images whose every pixel is repeated to 2 x 2, from the images as they are.

    A sample of the doubled image has one of four places in its pixel. Seen from a place, several taps read the same
    pixel, and their sum is one tap: four convolutions with a quarter of the taps, of images with a quarter of the
    samples. Their maps lie one below the other, as :class:`PixelMean` takes them.

    Args:
        in_channels: Channels of the image.
        out_channels: Channels of the features.
        basis: The basis of the doubled images, ``(functions, scales, size, size)``; not saved with the weights.
        bias: Whether there is one, shared by the scales.

    >>> from fourierscale.lab.baselines.parts.hermite import hermite_basis
    >>> basis, x = hermite_basis(7, (0.9, 1.27, 1.79), 9), torch.rand(2, 1, 12, 12)
    >>> conv, twin = DoublingConv2d(1, 4, basis), LiftingConv2d(1, 4, basis)
    >>> twin.load_state_dict(conv.state_dict())
    <All keys matched successfully>
    >>> places = torch.unflatten(conv(x), 3, (2, 2, 12)).permute(0, 1, 2, 5, 3, 6, 4)  # (2, 4, 3, 12, 2, 12, 2)
    >>> torch.allclose(places.reshape(2, 4, 3, 24, 24), twin(nn.Upsample(scale_factor=2)(x)), atol=1e-5)
    True
    """

    def __init__(self, in_channels: int, out_channels: int, basis: Tensor, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels, folded_basis(basis), bias=bias)
        self.scales = basis.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to features ``(B, C', S, 4 H, W)``."""
        kernels = self.kernels()[:, :, 0]  # (C', C, S times 4 places, taps, taps)
        y = same_conv2d(x, kernels.transpose(1, 2).flatten(0, 1))
        return self._biased(torch.unflatten(y, 1, (self.out_channels, self.scales, 4)).flatten(3, 4))


class PixelMean(nn.Module):
    """The average over the four places of each pixel, behind :class:`DoublingConv2d`: an average pool of 2 x 2.

    >>> PixelMean()(torch.rand(2, 3, 40, 10)).shape
    torch.Size([2, 3, 10, 10])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, 4 H, W)`` to ``(B, C, H, W)``."""
        return torch.unflatten(x, -2, (4, -1)).mean(-3)


def folded_basis(basis: Tensor) -> Tensor:
    """Functions on doubled images as functions on the images, one for each place in a pixel of 2 x 2.

    ``(functions, scales, size, size)`` to ``(functions, 4 scales, taps, taps)``. At place ``a`` (0 or 1) of pixel ``i``
    lies the sample ``2 i + a``, and its tap ``t`` reads the pixel ``floor((2 i + a + t) / 2)``.

    >>> folded_basis(torch.ones(1, 1, 3, 3))[0, 0]  # at the upper left place
    tensor([[1., 2., 0.],
            [2., 4., 0.],
            [0., 0., 0.]])
    """
    half = basis.shape[-1] // 2
    reach = (half + 1) // 2
    folds = basis.new_zeros(2, 2 * reach + 1, basis.shape[-1])
    for place in (0, 1):
        for tap in range(-half, half + 1):
            folds[place, (place + tap) // 2 + reach, tap + half] = 1
    return torch.einsum("aiu,fsuv,bjv->fsabij", folds, basis, folds).flatten(1, 3)


def build_disco_mnist(
    kernel_size: int = 15,
    scales: Sequence[float] = (1.0, 1.26, 1.59, 2.0),
    sigma: float = 1.9,
    mult: float = 1.5,
    max_order: int = 4,
    **frame: Any,
) -> MnistFrame:
    """DISCO for digits: images are doubled by repeating pixels, and the scale axis is kept up to the last stage.

    The first layer reads the images undoubled, with the same result (:class:`DoublingConv2d`).

    Pools are average 2 and average 2, then, behind the maximum over scales, max 7 with stride 1 and average 2 with
    stride 4: 56 x 56 becomes 2 x 2. The final feature map, that of the last ReLU, is on a grid of 14 x 14.

    Args:
        kernel_size: Odd side of the kernels, of 7 x 7 taps at scale 1.
        scales: Scales of the kernels, from 1 upwards.
        sigma: Width of the basis' functions at scale 1.
        mult: By how much each further width is smaller; its authors use 1.9 when they train with random scales.
        max_order: Highest total order of a function.
        frame: Options of :class:`MnistFrame`.
    """
    basis = disco_basis(kernel_size, 7, tuple(scales), "B", sigma, mult, max_order)

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return ScaleConv2d(inputs, outputs, basis) if stage else DoublingConv2d(inputs, outputs, basis)

    pools = (PixelMean(), MeanPool2d(2), nn.Sequential(nn.MaxPool2d(7, 1), nn.AvgPool2d(2, 4)))
    return MnistFrame(conv, keep_scales=(True, True, False), pools=pools, **frame)


def build_disco_stl10(
    kernel_size: int = 5, scales: Sequence[float] = (1.0, 1.41, 2.0), sigma: float = 0.9, **frame: Any
) -> WideResNet:
    """DISCO for photographs: SESN's variant B, with max pooling behind a convolution instead of strides.

    Args:
        kernel_size: Odd side of the kernels, of 3 x 3 taps at scale 1.
        scales: Scales of the kernels, from 1 upwards.
        sigma: Width of the basis' functions at scale 1.
        frame: Options of :class:`WideResNet`.
    """
    return steerable_resnet(disco_basis(kernel_size, 3, tuple(scales), "A", sigma), lift_again=True, pool=True, **frame)


register_in_frame(
    "disco-mnist",
    build_disco_mnist,
    "kernels at four scales in a basis fitted on the grid, on doubled images",
    CITATION,
)
register_in_frame(
    "disco-stl10", build_disco_stl10, "the wide residual net with kernels at three scales in a fitted basis", CITATION
)
