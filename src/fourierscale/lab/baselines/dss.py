r"""DSS: deep scale-spaces (Worrall and Welling, NeurIPS 2019).

An image is lifted to its scale-space: blurred more and more. A kernel meets scale :math:`s` with its taps
:math:`2^s` samples apart. Halving an image then moves its features by one scale. Features are ``(B, C, S, H, W)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.parts.buffers import add_fixed, fixed
from fourierscale.lab.baselines.parts.frames import MnistFrame, Place, WideResNet, register_in_frame
from fourierscale.lab.baselines.parts.same_conv import same_conv2d
from fourierscale.lab.baselines.parts.scales import split_scales, stack_scales
from fourierscale.nn.checks import choice, positive

__all__ = ["DilatedScaleConv2d", "DssInit", "GaussianLift", "build_dss_mnist", "build_dss_stl10", "discrete_gaussian"]

CITATION = "Worrall and Welling, Deep Scale-spaces: Equivariance Over Scale, NeurIPS 2019"
DssInit: TypeAlias = Literal["he", "delta"]
"""How weights begin; see :class:`DilatedScaleConv2d`."""


@fixed
def discrete_gaussian(variance: float, half_width: int) -> Tensor:
    r"""Lindeberg's discrete Gaussian, the blur whose variances add up exactly on a grid, cut off and made to sum to 1.

    .. math:: T[n] = e^{-t} I_n(t) = \frac{1}{2 \pi} \int_{-\pi}^{\pi} e^{t (\cos \theta - 1)} \cos n \theta \, d\theta

    with the modified Bessel functions :math:`I_n`. The integrand is smooth and periodic, so a sum over a few hundred
    points is exact to machine precision.

    Args:
        variance: The variance :math:`t`, in samples squared.
        half_width: Taps on each side of the middle.

    Returns:
        ``(2 * half_width + 1,)`` in double precision.

    >>> discrete_gaussian(0.1875, 4).shape
    torch.Size([9])
    """
    points = 512
    theta = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
    n = torch.arange(-half_width, half_width + 1, dtype=torch.float64)
    taps = (torch.exp(variance * (torch.cos(theta) - 1)) * torch.cos(n[:, None] * theta)).mean(1)
    return taps / taps.sum()


class GaussianLift(nn.Module):
    r"""From images to their scale-space: the image and its blurs, each scale twice as coarse as the one before.

    .. math:: y[s] = T_{t_s} * x, \qquad t_s = z^2 (4^s - 1)

    An image that already has the blur :math:`z` of its own pixels then has the blur :math:`2^s z` at scale :math:`s`.
    Blurs are separable, padded with zeros, and reach four standard deviations, rounded up.

    Args:
        scales: Number of scales, the image itself included.
        zero_scale: The blur :math:`z` of the image, in samples.

    >>> GaussianLift(4, 0.5)(torch.rand(2, 3, 12, 12)).shape
    torch.Size([2, 3, 4, 12, 12])
    """

    taps: Tensor

    def __init__(self, scales: int, zero_scale: float) -> None:
        super().__init__()
        self.scales = positive(scales, "scales")
        self.zero_scale = zero_scale
        variances = [zero_scale**2 * (4**s - 1) for s in range(1, scales)]
        half_widths = [4 * math.ceil(math.sqrt(t)) for t in variances]
        widest = max(half_widths, default=0)
        taps = torch.zeros(scales, 1, 1, 2 * widest + 1, dtype=torch.float64, device="cpu")
        taps[0, ..., widest] = 1  # the image itself
        for s, (t, half) in enumerate(zip(variances, half_widths, strict=True), start=1):
            taps[s, ..., widest - half : widest + half + 1] = discrete_gaussian(t, half)
        add_fixed(self, "taps", taps)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to ``(B, C, S, H, W)``."""
        half = self.taps.shape[-1] // 2
        images = x.flatten(0, 1)[:, None]  # every channel by itself
        rows = nn.functional.conv2d(images, self.taps, padding=(0, half))
        both = nn.functional.conv2d(rows, self.taps.transpose(2, 3), padding=(half, 0), groups=self.scales)
        return torch.unflatten(both, 0, x.shape[:2])

    def extra_repr(self) -> str:
        """Options, for ``print(model)``."""
        return f"{self.scales}, zero_scale={self.zero_scale}"


class DilatedScaleConv2d(nn.Module):
    r"""From features with a scale axis to such features: the same taps, further apart at coarser scales.

    .. math:: y[c', s](p) = \sum_c \sum_{e < E} \sum_q w_{c' c e}[q] \, x[c, s + e](p + 2^s q)

    Padding is with zeros, "same"; there is no bias. For :math:`x'[s] = x[s + 1](2 p)`, the scale-space of the halved
    image, :math:`y'[s](p) = y[s + 1](2 p)` exactly.

    Weights begin with ``"he"`` as :math:`N(0, 2 / n)`, ``n`` weights per output channel. With ``"delta"`` each output
    channel begins as a mean over a group of input channels, the middle taps being :math:`g / C'` with :math:`g` the
    greatest common divisor of the two numbers of channels, and the other weights uniform in :math:`\pm 0.01`.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Odd number of taps per axis.
        scales: Scales of the output; the input needs ``extent - 1`` more, and further ones are not read.
        extent: How many neighbouring scales :math:`E` the kernel reads.
        stride: Stride of the convolution.
        init: ``"he"`` or ``"delta"``.

    >>> DilatedScaleConv2d(2, 4, 3, scales=3, extent=2)(torch.rand(1, 2, 4, 12, 12)).shape
    torch.Size([1, 4, 3, 12, 12])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        scales: int,
        extent: int = 1,
        stride: int = 1,
        init: DssInit = "he",
    ) -> None:
        super().__init__()
        choice(init, get_args(DssInit), "initial weights")
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"a kernel is centred on a sample, so its size must be odd, got {kernel_size}")
        self.in_channels = positive(in_channels, "in_channels")
        self.out_channels = positive(out_channels, "out_channels")
        self.scales = positive(scales, "scales")
        self.extent = positive(extent, "extent")
        self.stride = positive(stride, "stride")
        self.kernel_size = kernel_size
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, extent, kernel_size, kernel_size))
        if init == "he":
            nn.init.normal_(self.weight, std=math.sqrt(2 / self.weight[0].numel()))
        else:
            self._begin_as_identity()

    def _begin_as_identity(self) -> None:
        groups, middle = math.gcd(self.in_channels, self.out_channels), self.kernel_size // 2
        nn.init.uniform_(self.weight, -0.01, 0.01)
        inputs = torch.arange(self.in_channels) * groups // self.in_channels
        outputs = torch.arange(self.out_channels) * groups // self.out_channels
        same = (outputs[:, None] == inputs)[:, :, None]
        with torch.no_grad():
            taps = self.weight[..., middle, middle]
            taps.copy_(torch.where(same, groups / self.out_channels, taps))

    def forward(self, x: Tensor) -> Tensor:
        """Features ``(B, C, S + E - 1, H, W)`` to ``(B, C', S, H, W)``."""
        if x.ndim != 5 or x.shape[2] < self.scales + self.extent - 1:
            raise ValueError(
                f"expected features of shape (batch, {self.in_channels}, at least {self.scales + self.extent - 1} "
                f"scales, height, width), got {tuple(x.shape)}"
            )
        weight = self.weight.transpose(1, 2).flatten(1, 2)  # (C', E C, k, k)
        # One convolution per scale: in one for all, nearly every tap of the widest kernels would be a zero.
        images = split_scales(x, self.extent)[: self.scales]
        return stack_scales([same_conv2d(part, weight, self.stride, dilation=2**s) for s, part in enumerate(images)])

    def extra_repr(self) -> str:
        """Sizes, for ``print(model)``."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, scales={self.scales}, "
            f"extent={self.extent}, stride={self.stride}"
        )


def build_dss_mnist(vector: bool = False, scales: int = 2, zero_scale: float = 0.25, **frame: Any) -> MnistFrame:
    """DSS for digits: 7x7 kernels at two scales.

    Args:
        vector: Whether the image is lifted once and the scale axis kept to the head; else each stage lifts, and takes
            the maximum.
        scales: Number of scales.
        zero_scale: The blur of an image, in samples.
        frame: Options of :class:`MnistFrame`.
    """

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        layer = DilatedScaleConv2d(inputs, outputs, 7, scales)
        return layer if vector else nn.Sequential(GaussianLift(scales, zero_scale), layer)

    door = GaussianLift(scales, zero_scale) if vector else None
    return MnistFrame(conv, keep_scales=(vector, vector, vector), door=door, **frame)


def build_dss_stl10(
    widths: Sequence[int] = (16, 128, 240, 512), scales: int = 4, zero_scale: float = 0.5, **frame: Any
) -> WideResNet:
    """DSS for photographs: a wide residual net whose groups 1 and 2 begin with kernels over two neighbouring scales.

    So four scales become three and then two.

    Args:
        widths: Channels of the stem and of the three groups.
        scales: Number of scales at the door, three or more.
        zero_scale: The blur of an image, in samples.
        frame: Options of :class:`WideResNet`.
    """
    if scales < 3:
        raise ValueError(f"two layers end with one scale fewer, so the net needs at least 3 scales, got {scales}")
    left = (scales, scales - 1, scales - 2, scales - 2)  # behind the entry of each group

    def conv(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        extent = 2 if place.entry and place.group < 3 else 1
        return DilatedScaleConv2d(inputs, outputs, 3, left[place.group], extent, stride, init="delta")

    def shortcut(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        return DilatedScaleConv2d(inputs, outputs, 1, left[place.group], 1, stride, init="delta")

    return WideResNet(widths=widths, conv=conv, shortcut=shortcut, door=GaussianLift(scales, zero_scale), **frame)


register_in_frame(
    "dss-mnist", build_dss_mnist, "lift to two blurs and dilated kernels, maximum over scales in each stage", CITATION
)
register_in_frame(
    "dss-vector-mnist",
    build_dss_mnist,
    "one lift to two blurs, dilated kernels, scales kept to the head",
    CITATION,
    vector=True,
)
register_in_frame("dss-stl10", build_dss_stl10, "the wide residual net over four blurs, with dilated kernels", CITATION)
