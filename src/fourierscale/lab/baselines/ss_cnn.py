r"""SS-CNN: filters of log-polar waves, which a change of phase makes larger or smaller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.parts.buffers import add_fixed
from fourierscale.lab.baselines.parts.frames import MnistFrame, Place, WideResNet, register_in_frame
from fourierscale.lab.baselines.parts.same_conv import same_conv2d

ANGLES = 9
ANGULAR_STD = math.pi / 16
PHASE = -math.pi / 4
CITATION = "Ghosh and Gupta, Scale Steerable Filters for Locally Scale-Invariant CNNs, 2019"


def log_polar_waves(size: int, orders: Sequence[float]) -> Tensor:
    r"""The basis: waves in :math:`\log r`, narrow in angle, on a grid of ``size`` x ``size``.

    .. math:: f_{k\varphi}(r, \theta) = \frac{1}{r} \, e^{-d(\theta, \varphi)^2 / 2\sigma^2} \,
        e^{i (\kappa_k \log r + \beta)}, \qquad \kappa_k = 2\pi k / \log r_{max}

    with :math:`d` the angle between two lines, :math:`\sigma = \pi/16`, :math:`\beta = -\pi/4`, nine :math:`\varphi`
    from 0 to :math:`\pi`, and :math:`r_{max}` that of a corner. Outside the inscribed circle a function is 0; the
    middle sample counts as :math:`r = 1`. Each function has norm :math:`\sqrt 2`, so its two parts have norm 1 on
    average.

    Returns:
        Complex ``(orders, angles, size, size)``, double precision.
    """
    line = torch.arange(size, dtype=torch.float64) - size // 2
    radius, log_radius = polar_radius(line)
    theta = torch.atan2(line[None, :], -line[:, None])
    phi = torch.linspace(0, math.pi, ANGLES, dtype=torch.float64)[:, None, None]
    apart = (theta - phi) % math.pi
    apart = torch.minimum(apart, math.pi - apart)
    amplitude = torch.exp(-(apart**2) / (2 * ANGULAR_STD**2)) / radius * (radius <= size // 2)
    angle = wave_numbers(size, orders)[:, None, None, None] * log_radius + PHASE
    waves = torch.polar(amplitude.expand(len(orders), -1, -1, -1).contiguous(), angle.expand(-1, ANGLES, -1, -1))
    norm: Tensor = torch.linalg.vector_norm(waves, dim=(2, 3), keepdim=True)
    return waves * (math.sqrt(2) / norm)


def polar_radius(line: Tensor) -> tuple[Tensor, Tensor]:
    """Distance from the middle of a grid, 1 in the middle itself, and its logarithm."""
    radius = torch.hypot(line[:, None], line[None, :])
    radius = torch.where(radius == 0, torch.ones_like(radius), radius)
    return radius, radius.log()


def wave_numbers(size: int, orders: Sequence[float]) -> Tensor:
    """``2 pi k / log(r_max)`` of each order."""
    return torch.tensor(orders, dtype=torch.float64) * (2 * math.pi / math.log(size // 2 * math.sqrt(2)))


class SteerableConv2d(nn.Module):
    r"""A convolution with one learned filter at several sizes, maximum over sizes; no bias.

    The filter is a learned combination :math:`\mathrm{Re} \sum w_{k\varphi} f_{k\varphi}` of
    :func:`log_polar_waves`. Since :math:`f(r / s) = s \, e^{-i \kappa_k \log s} f(r)`, rotating the weights' phase by
    :math:`-\kappa_k \log s` makes the filter :math:`s` times larger. Size ``n`` has :math:`s = n / reference` and is
    the middle ``n`` x ``n`` of the largest.

    All sizes are one convolution: smaller filters are the largest with zeros around.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        reference: Size at which a filter is not steered.
        sizes: Odd sizes, ascending.
        orders: Orders ``k`` of the waves.
        stride: Stride of the convolution.

    Parameters: ``weight (2, out, in, orders, angles)``, real and imaginary parts, uniform in
    :math:`\pm\sqrt{2 / (9 \, C_{in} C_{out})}`.

    >>> SteerableConv2d(3, 4, 3, (3, 5, 7), (1.0,), stride=2)(torch.rand(2, 3, 8, 8)).shape
    torch.Size([2, 4, 4, 4])
    """

    waves: Tensor
    steering: Tensor
    windows: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        reference: int,
        sizes: Sequence[int],
        orders: Sequence[float],
        stride: int = 1,
    ) -> None:
        super().__init__()
        if not sizes or list(sizes) != sorted(sizes) or any(n % 2 == 0 or n < 3 for n in sizes):
            raise ValueError(f"sizes must be odd, from 3 on, in ascending order, got {sizes}")
        self.sizes, self.stride = tuple(sizes), stride
        self.weight = nn.Parameter(torch.empty(2, out_channels, in_channels, len(orders), ANGLES))
        bound = math.sqrt(2 / (ANGLES * in_channels * out_channels))
        nn.init.uniform_(self.weight, -bound, bound)
        with torch.device("cpu"):
            constants = _constants(reference, self.sizes, orders)
        for name, tensor in zip(("waves", "steering", "windows"), constants, strict=True):
            add_fixed(self, name, tensor)

    def filters(self) -> Tensor:
        """The filter at each size, zeros around: ``(sizes, out, in, largest, largest)``."""
        real, imaginary = self.weight  # (O, I, K, A)
        cos, sin = self.steering[..., None]  # (S, K, 1)
        turned = torch.stack(
            [
                real * cos[:, None, None] - imaginary * sin[:, None, None],
                real * sin[:, None, None] + imaginary * cos[:, None, None],
            ]
        )  # (2, S, O, I, K, A)
        signed = torch.stack([self.waves[0], -self.waves[1]])  # the real part of a product
        return torch.einsum("psoika,pkahw->soihw", turned, signed) * self.windows[:, None, None]

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, H, W)`` in, ``(B, C', H / stride, W / stride)`` out."""
        filters = self.filters().flatten(0, 1)
        y = same_conv2d(x, filters.to(x.dtype), self.stride)
        return y if len(self.sizes) == 1 else torch.unflatten(y, 1, (len(self.sizes), -1)).amax(1)

    def extra_repr(self) -> str:
        """Channels, sizes and orders, for ``print(model)``."""
        _, outputs, inputs, orders, _ = self.weight.shape
        return f"{inputs}, {outputs}, sizes={self.sizes}, orders={orders}, stride={self.stride}"


def _constants(reference: int, sizes: Sequence[int], orders: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Real and imaginary waves, cosine and sine of the steering ``(2, sizes, orders)``, and each size's window."""
    largest = sizes[-1]
    waves = log_polar_waves(largest, orders)
    scale = torch.tensor(sizes, dtype=torch.float64)[:, None] / reference
    turn = -wave_numbers(largest, orders) * scale.log()
    far = (torch.arange(largest) - largest // 2).abs()
    inside = far <= torch.tensor(sizes)[:, None] // 2
    windows = inside[:, :, None] & inside[:, None, :]
    return torch.stack([waves.real, waves.imag]), torch.stack([turn.cos(), turn.sin()]), windows.double()


def build_ss_cnn_mnist(
    widths: Sequence[int] = (30, 60, 90),
    sizes: Sequence[int] = (5, 7, 9, 11, 13),
    orders: Sequence[float] = (0.5, 1.0, 2.0),
    **frame: Any,
) -> MnistFrame:
    """The frame for digits with :class:`SteerableConv2d`; the MLP's first layer has a bias here."""

    def conv(inputs: int, outputs: int, stage: int) -> nn.Module:
        return SteerableConv2d(inputs, outputs, 11, sizes, orders)

    return MnistFrame(conv, widths=widths, head_bias=True, **frame)


def build_ss_cnn_stl10(
    widths: Sequence[int] = (11, 88, 176, 352),
    sizes: Sequence[int] = (3, 5, 7),
    orders: Sequence[float] = (1.0,),
    **frame: Any,
) -> WideResNet:
    """The wide residual net with :class:`SteerableConv2d`, whose ``sizes`` only the stem has; blocks have size 3."""

    def conv(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        return SteerableConv2d(inputs, outputs, 3, sizes if place.group == 0 else (3,), orders, stride)

    return WideResNet(widths=widths, conv=conv, **frame)


register_in_frame(
    "ss-cnn-mnist", build_ss_cnn_mnist, "log-polar filters steered to five sizes, maximum of the responses", CITATION
)
register_in_frame(
    "ss-cnn-stl10",
    build_ss_cnn_stl10,
    "the wide residual net with log-polar filters, three sizes in the stem",
    CITATION,
)
