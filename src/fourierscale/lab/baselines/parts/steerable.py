r"""Convolutions with kernels at several scales: the layers that SESN and DISCO share.

A kernel is a learned combination of fixed functions :math:`\psi_i`. Each function is given at every scale, so the same
weights make the kernel at every scale. Features have a scale axis, ``(B, C, S, H, W)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.parts.buffers import add_fixed
from fourierscale.lab.baselines.parts.frames import Place, WideResNet
from fourierscale.lab.baselines.parts.half import halved
from fourierscale.lab.baselines.parts.same_conv import same_conv2d, spectrum_pays
from fourierscale.lab.baselines.parts.scales import (
    ScaleMaxPool2d,
    each_scale,
    max_over_scales,
    split_scales,
    stack_scales,
)
from fourierscale.lab.baselines.parts.separable import lines_of, separable_conv2d, times_each
from fourierscale.nn.checks import positive

__all__ = [
    "LiftingConv2d",
    "MaxOverScales",
    "PointwiseScaleConv2d",
    "ScaleConv2d",
    "steerable_resnet",
]


class _BasisConv2d(nn.Module):
    """Weights over a fixed basis ``(functions, scales, size, size)``, and a bias shared by the scales."""

    basis: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, basis: Tensor, stride: int, bias: bool, extent: int
    ) -> None:
        super().__init__()
        if basis.ndim != 4 or basis.shape[2] != basis.shape[3] or basis.shape[2] % 2 == 0:
            raise ValueError(
                f"expected a basis of shape (functions, scales, size, size), size odd, got {tuple(basis.shape)}"
            )
        self.in_channels = positive(in_channels, "in_channels")
        self.out_channels = positive(out_channels, "out_channels")
        self.stride = positive(stride, "stride")
        self.extent = positive(extent, "extent")
        self.scales = basis.shape[1]
        self.taps = [nonzero_taps(functions) for functions in basis.unbind(1)]
        add_fixed(self, "basis", basis)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, extent, basis.shape[0]))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def kernels(self) -> Tensor:
        """The kernel of every scale, ``(C', C, extent, S, size, size)``."""
        kernels = self.weight @ self.basis.flatten(1)
        return torch.unflatten(kernels, 3, self.basis.shape[1:])

    def _convolve(self, x: Tensor, kernels: Tensor, scale: int) -> Tensor:
        """Images ``(B, C, H, W)`` with the kernels ``(C', C, size, size)`` of a scale."""
        taps, step = self.taps[scale]
        if self.stride == 1 and spectrum_pays(x, kernels):
            taps, step = slice(None), 1  # to which the number of taps is nothing
        return same_conv2d(x, kernels[..., taps, taps], self.stride, step)

    def _biased(self, y: Tensor) -> Tensor:
        return y if self.bias is None else y + self.bias[:, None, None, None]

    def extra_repr(self) -> str:
        """Sizes, for ``print(model)``."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.basis.shape[2]}, scales={self.scales}, "
            f"extent={self.extent}, stride={self.stride}, bias={self.bias is not None}"
        )


class LiftingConv2d(_BasisConv2d):
    r"""From images to features with a scale axis: one kernel, at every scale.

    .. math:: y[c', s] = \sum_c \Big(\sum_i w_{c' c i} \, \psi_{i s}\Big) * x[c]

    It is one convolution: the kernels of all scales are so many output channels. In half precision on GPUs it is one
    for each scale, which leaves the scales as the next layer wants them. Padding is with zeros, "same". The weights
    begin as those of ``nn.Conv2d`` do, the bias at zero.

    Args:
        in_channels: Channels of the image.
        out_channels: Channels of the features.
        basis: ``(functions, scales, size, size)``, such as a :func:`hermite_basis`; not saved with the weights.
        stride: Stride of the convolution.
        bias: Whether there is one, shared by the scales.

    >>> from fourierscale.lab.baselines.parts.hermite import hermite_basis
    >>> conv = LiftingConv2d(1, 4, hermite_basis(7, (0.9, 1.27, 1.79), 9))
    >>> conv(torch.rand(2, 1, 12, 12)).shape
    torch.Size([2, 4, 3, 12, 12])
    """

    def __init__(self, in_channels: int, out_channels: int, basis: Tensor, stride: int = 1, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels, basis, stride, bias, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to features ``(B, C', S, H, W)``."""
        kernels = self.kernels()[:, :, 0]  # (C', C, S, size, size)
        if halved(x):
            return self._biased(stack_scales([self._convolve(x, kernels[:, :, s], s) for s in range(self.scales)]))
        y = same_conv2d(x, kernels.transpose(1, 2).flatten(0, 1), self.stride)
        return self._biased(torch.unflatten(y, 1, (self.out_channels, self.scales)))


class ScaleConv2d(_BasisConv2d):
    r"""From features with a scale axis to such features.

    .. math:: y[c', s] = \sum_c \sum_{e < E} \Big(\sum_i w_{c' c e i} \, \psi_{i s}\Big) * x[c, s + e]

    with zeros beyond the largest scale. Each scale is a convolution, computed line by line where the basis is one of
    products of lines with fewer functions than half of the taps. Padding and initial weights are
    those of :class:`LiftingConv2d`.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        basis: ``(functions, scales, size, size)``; not saved with the weights.
        extent: How many neighbouring scales :math:`E` the kernel reads.
        stride: Stride of the convolution.
        bias: Whether there is one, shared by the scales.

    >>> from fourierscale.lab.baselines.parts.hermite import hermite_basis
    >>> conv = ScaleConv2d(4, 5, hermite_basis(7, (0.9, 1.27, 1.79), 9), extent=2)
    >>> conv(torch.rand(2, 4, 3, 12, 12)).shape
    torch.Size([2, 5, 3, 12, 12])
    """

    rows: Tensor | None
    columns: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        basis: Tensor,
        extent: int = 1,
        stride: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, basis, stride, bias, extent)
        lines = lines_of(basis.double()) if basis[0, 0].numel() > 2 * len(basis) else None
        for name, line in zip(("rows", "columns"), lines or (None, None), strict=True):
            if line is None:
                self.register_buffer(name, None)
            else:
                add_fixed(self, name, line)

    def forward(self, x: Tensor) -> Tensor:
        """Features ``(B, C, S, H, W)`` to ``(B, C', S, H, W)``."""
        if x.ndim != 5 or x.shape[2] != self.scales:
            raise ValueError(
                f"expected features of shape (batch, {self.in_channels}, {self.scales}, height, width), "
                f"got {tuple(x.shape)}"
            )
        if self.extent > 1:
            x = nn.functional.pad(x, (0, 0, 0, 0, 0, self.extent - 1))
        conv = self._convolutions()
        return self._biased(stack_scales([conv(part, s) for s, part in enumerate(split_scales(x, self.extent))]))

    def _convolutions(self) -> Callable[[Tensor, int], Tensor]:
        """What maps ``(B, E C, H, W)`` at a scale to ``(B, C', H, W)``."""
        if self.rows is not None and self.columns is not None:
            rows, columns, side = self.rows, self.columns, self.rows.shape[1]
            weight = torch.unflatten(self.weight.transpose(1, 2).flatten(1, 2), -1, (side, side))
            return lambda x, s: separable_conv2d(x, weight, rows[s], columns[s], self.stride)
        kernels = self.kernels().transpose(1, 2).flatten(1, 2)  # (C', E C, S, size, size)
        return lambda x, s: self._convolve(x, kernels[:, :, s], s)


def nonzero_taps(functions: Tensor) -> tuple[slice, int]:
    """Where the taps of kernels ``(..., size, size)`` lie that are not zero, and how many samples are between them.

    >>> functions = torch.zeros(2, 7, 7)
    >>> functions[0, 1, 3], functions[1, 5, 5] = 1.0, 2.0
    >>> nonzero_taps(functions)
    (slice(1, 6, 2), 2)
    """
    middle = functions.shape[-1] // 2
    places = torch.nonzero(functions.reshape(-1, *functions.shape[-2:]).any(0)) - middle
    step = max(1, math.gcd(*places.flatten().tolist()))
    reach = int(places.abs().max()) if len(places) else 0
    return slice(middle - reach, middle + reach + 1, step), step


class MaxOverScales(nn.Module):
    """Features ``(B, C, S, H, W)`` to images ``(B, C, H, W)``: the maximum over scales."""

    def forward(self, x: Tensor) -> Tensor:
        """Take the maximum."""
        return max_over_scales(x)


class PointwiseScaleConv2d(nn.Conv3d):
    """A 1x1 convolution of features with scales, the same at each of them; no bias."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, 1, (1, stride, stride), bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Features ``(B, C, S, H, W)`` to ``(B, C', S, H / stride, W / stride)``, which lie as they do."""
        return each_scale(self._mix, x)

    def _mix(self, images: Tensor) -> Tensor:
        step = self.stride[1]
        if halved(images) and images.is_contiguous():  # a convolution would lay them out channels last
            kept = images[..., ::step, ::step]
            mixed = times_each(self.weight[:, :, 0, 0, 0], kept.flatten(2))
            return mixed.view(len(images), -1, *kept.shape[2:])
        return same_conv2d(images, self.weight[:, :, 0], step)


def steerable_resnet(
    basis: Tensor, *, lift_again: bool = False, mix_scales: bool = False, pool: bool = False, **frame: Any
) -> WideResNet:
    r"""The wide residual net with kernels in a basis at several scales; the maximum is in front of the last norm.

    Weights are drawn from :math:`N(0, 2 / n)`, :math:`n` per input channel.

    Args:
        basis: ``(functions, scales, size, size)``.
        lift_again: Whether groups 2 and 3 begin with the maximum over scales and another lift.
        mix_scales: Whether group 1 begins with kernels over two neighbouring scales.
        pool: Whether convolutions that would stride have max pooling behind them instead.
        frame: Options of :class:`WideResNet`.
    """

    def drawn(layer: nn.Module) -> nn.Module:
        assert isinstance(layer.weight, Tensor)
        nn.init.normal_(layer.weight, std=math.sqrt(2 * layer.weight.shape[1] / layer.weight.numel()))
        return layer

    def pooling(stride: int) -> nn.Module:
        return ScaleMaxPool2d(stride) if pool and stride > 1 else nn.Identity()

    def conv(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        step = 1 if pool else stride
        if place.group == 0:
            return drawn(LiftingConv2d(inputs, outputs, basis, step, bias=False))
        if lift_again and place.entry and place.group > 1:
            lift = drawn(LiftingConv2d(inputs, outputs, basis, step, bias=False))
            return nn.Sequential(MaxOverScales(), lift, pooling(stride))
        extent = 2 if mix_scales and place.entry and place.group == 1 else 1
        return drawn(ScaleConv2d(inputs, outputs, basis, extent, step, bias=False))

    def shortcut(inputs: int, outputs: int, stride: int, place: Place) -> nn.Module:
        layer = drawn(PointwiseScaleConv2d(inputs, outputs, 1 if pool else stride))
        return nn.Sequential(layer, pooling(stride)) if pool else layer

    return WideResNet(conv=conv, shortcut=shortcut, max_before_norm=True, **frame)
