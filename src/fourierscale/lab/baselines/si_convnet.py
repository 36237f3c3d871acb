"""SI-ConvNet: every layer sees its input at several scales and keeps the strongest response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional.constants import constant
from fourierscale.lab.baselines.parts.frames import MnistFrame, Place, WideResNet, register_in_frame
from fourierscale.lab.baselines.parts.half import halved
from fourierscale.lab.baselines.parts.scales import max_over_scales, stack_scales
from fourierscale.lab.baselines.parts.separable import times_each

CITATION = "Kanazawa et al., Locally Scale-Invariant Convolutional Neural Networks, 2014"


class ScaleInvariantConv2d(nn.Conv2d):
    r"""A convolution of the input at several scales, brought back, maximum over scales.

    .. math:: y = \max_s \; R_{1/s}\bigl( k * R_s x \bigr)

    where :math:`R_s` resizes bilinearly about the centre and crops or pads with zeros to the size it started from.
    Resizing is separable and linear, one constant matrix per axis and scale; the convolution is one for all scales.

    What is claimed is approximate: an image resized by the ratio of two scales gives the same responses one scale
    further, so their maximum over the image stays where both scales are in the set and nothing is cropped.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Taps per axis, odd; the padding is "same".
        scales: Factors by which the input is resized.
        stride: Stride of the convolution.
        bias: Whether each channel has a bias.

    >>> ScaleInvariantConv2d(3, 4, 3, (0.5, 1.0, 2.0), stride=2)(torch.rand(2, 3, 8, 8)).shape
    torch.Size([2, 4, 4, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        scales: Sequence[float],
        stride: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, kernel_size // 2, bias=bias)
        if not scales or any(scale <= 0 for scale in scales):
            raise ValueError(f"scales must be positive numbers, got {scales}")
        self.scales = tuple(float(scale) for scale in scales)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, H, W)`` in, ``(B, C', H / stride, W / stride)`` out."""
        if halved(x):
            x = x.contiguous(memory_format=torch.channels_last)
        y = super().forward(torch.cat([_resize(x, scale) for scale in self.scales]))
        parts = zip(torch.unflatten(y, 0, (len(self.scales), -1)), self.scales, strict=True)
        return max_over_scales(stack_scales([_resize(part, 1 / scale) for part, scale in parts]))

    def extra_repr(self) -> str:
        """The options of a convolution, and the scales."""
        return f"{super().extra_repr()}, scales={self.scales}"  # type: ignore[no-untyped-call]


def _resize(x: Tensor, scale: float) -> Tensor:
    """Resize images ``(B, C, H, W)`` by a factor, about their centre, to the size that they had."""
    if scale == 1:
        return x
    rows, columns = (resize_matrix(n, max(1, int(n * scale)), x.dtype, x.device) for n in x.shape[-2:])
    if x.is_contiguous():
        return (times_each(rows, x.flatten(0, 1)) @ columns.mT).view(x.shape)
    last = x.permute(0, 2, 3, 1)  # channels
    turned = times_each(rows, last.flatten(2)).view(last.shape)
    return times_each(columns, turned.flatten(0, 1)).view(last.shape).permute(0, 3, 1, 2)


@constant
def resize_matrix(n: int, size: int) -> Tensor:
    """Bilinear resizing of ``n`` samples to ``size`` and back to ``n`` by a centred crop or zeros, ``(n, n)``.

    The first and the last sample stay where they are (``align_corners``).
    """
    matrix = torch.zeros(n, n, dtype=torch.float64)
    offset = (n - size) // 2
    i = torch.arange(n)
    i = i[(i >= offset) & (i < offset + size)]
    position = (i - offset).double() * ((n - 1) / max(1, size - 1))
    left = position.floor().long().clamp(max=max(0, n - 2))
    share = position - left
    matrix[i, left] = 1 - share
    if n > 1:
        matrix[i, left + 1] = share
    return matrix


def build_si_convnet_mnist(
    scales: Sequence[float] = (0.3, 0.45, 0.67, 1.0, 1.49, 2.23, 3.33), **frame: Any
) -> MnistFrame:
    """The frame for digits with :class:`ScaleInvariantConv2d` of 7x7 taps."""
    return MnistFrame(lambda inputs, outputs, stage: ScaleInvariantConv2d(inputs, outputs, 7, scales), **frame)


def build_si_convnet_stl10(scales: Sequence[float] = (0.5, 1.0, 2.0), **frame: Any) -> WideResNet:
    """The wide residual net with :class:`ScaleInvariantConv2d` for every 3x3; shortcuts stay plain."""

    def conv(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        return ScaleInvariantConv2d(inputs, outputs, 3, scales, stride, bias=False)

    return WideResNet(conv=conv, **frame)


register_in_frame(
    "si-convnet-mnist",
    build_si_convnet_mnist,
    "each layer on its input at seven scales, maximum of the responses",
    CITATION,
)
register_in_frame(
    "si-convnet-stl10", build_si_convnet_stl10, "the wide residual net, each 3x3 on its input at three scales", CITATION
)
