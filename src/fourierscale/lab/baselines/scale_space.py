r"""The scale-space of an image: the image and its blurs by Lindeberg's discrete Gaussian, on which DSS is built."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.fixed import add_fixed, fixed
from fourierscale.nn.checks import positive

__all__ = ["GaussianLift", "discrete_gaussian"]


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
        scales: How many, the image itself included.
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
