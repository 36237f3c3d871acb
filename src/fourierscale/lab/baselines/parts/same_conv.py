r"""Convolutions as baselines need them: the numbers of ``conv2d``, with large kernels by way of the Fourier transform.

A kernel of :math:`k \times k` taps costs :math:`k^2` products for each pair of channels and each sample; a spectrum
costs one complex product for each pair and each frequency of half of the plane, whatever :math:`k`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.parts.half import halved

__all__ = ["same_conv2d", "spectrum_pays"]

PRODUCTS = 1000
"""As many products per frequency as the spectrum of a kernel takes the time of, with what moving numbers costs."""


def same_conv2d(x: Tensor, kernels: Tensor, stride: int = 1, dilation: int = 1) -> Tensor:
    r"""What ``conv2d`` gives with zeros around the image, as many samples out as in.

    Where that is less work it is computed as :math:`\mathcal F^{-1}(\mathcal F x \cdot \mathcal F k)`, on a grid that
    is larger by half of a kernel, so that nothing comes around its edge into the part that is kept. In half precision
    on GPUs both factors are laid out channels last, as tensor cores want them.

    Args:
        x: Images, ``(B, C, H, W)``.
        kernels: ``(C', C, k, k)``, ``k`` odd.
        stride: Every so many samples are kept.
        dilation: Samples from one tap to the next.

    >>> x, kernels = torch.rand(32, 3, 12, 10), torch.rand(4, 3, 9, 9)
    >>> torch.allclose(same_conv2d(x, kernels), torch.conv2d(x, kernels, padding=4), rtol=1e-4)
    True
    """
    if stride == dilation == 1 and spectrum_pays(x, kernels):
        with torch.autocast(x.device.type, enabled=False):  # a transform needs single precision
            precise = torch.promote_types(x.dtype, torch.float32)
            return _by_spectrum(x.to(precise), kernels.to(precise)).to(x.dtype)
    if halved(x):
        x, kernels = (t.contiguous(memory_format=torch.channels_last) for t in (x, kernels))
    return nn.functional.conv2d(x, kernels, None, stride, dilation * (kernels.shape[-1] // 2), dilation)


def spectrum_pays(x: Tensor, kernels: Tensor) -> bool:
    """Whether there are images enough for the spectra of the kernels, and several channels to mix.

    Not where a graph is traced, for it shall serve any number of images, nor on devices without transforms.

    >>> taps = torch.empty(63, 32, 15, 15)
    >>> spectrum_pays(torch.empty(128, 32, 14, 14), taps), spectrum_pays(torch.empty(2, 32, 14, 14), taps)
    (True, False)
    """
    if torch.compiler.is_compiling() or x.device.type not in ("cpu", "cuda"):
        return False
    (images, _, *sides), (_, channels, *taps) = x.shape, kernels.shape
    work = images * math.prod(taps) * math.prod(sides)
    return channels > 1 and taps[0] >= 9 and work >= PRODUCTS * math.prod(_grid(x, kernels))


def _grid(x: Tensor, kernels: Tensor) -> tuple[int, int]:
    height, width = (fast_length(n + kernels.shape[-1] // 2) for n in x.shape[-2:])
    return height, width


def _by_spectrum(x: Tensor, kernels: Tensor) -> Tensor:
    height, width = x.shape[-2:]
    half, grid = kernels.shape[-1] // 2, _grid(x, kernels)
    # frequencies first: one product of images by channels for each frequency
    spectrum = torch.fft.rfft2(x, grid).flatten(2).permute(2, 0, 1).contiguous()
    taps = torch.fft.rfft2(kernels.flip(-2, -1), grid).flatten(2).permute(2, 1, 0).contiguous()
    mixed = _Products.apply(spectrum, taps)  # type: ignore[no-untyped-call]
    y: Tensor = torch.fft.irfft2(torch.unflatten(mixed.permute(1, 2, 0), -1, (grid[0], -1)), grid)
    return y[..., half : half + height, half : half + width]


class _Products(torch.autograd.Function):
    """``a @ b`` of complex matrices, whose gradients on CPUs would be copied one matrix after the other."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        gradient = gradient.contiguous()
        if not gradient.is_cuda:  # where a product takes a conjugate factor as it is
            a, b = a.conj_physical(), b.conj_physical()
            return torch.bmm(gradient, b.mT), torch.bmm(a.mT, gradient)
        return torch.bmm(gradient, b.mH), torch.bmm(a.mH, gradient)


def fast_length(least: int) -> int:
    """The next number of samples with no prime factor above 7, for which transforms are fast.

    >>> fast_length(35), fast_length(11), fast_length(101)
    (35, 12, 105)
    """
    for length in itertools.count(least):
        rest = length
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
    raise AssertionError
