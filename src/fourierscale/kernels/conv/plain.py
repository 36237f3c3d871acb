r"""The Fourier layers for programs that leave PyTorch: plain operators, nothing in place, any number of images.

``torch.export`` and ONNX know neither the operators of this library nor loops over pieces of a batch. Here a layer is
one batched product between sums and differences, frequency first, ``(n_1, n_2, B, C)``, so that a runtime sees large
products and hardly a permutation. Images alone; other numbers of axes are exported as
:mod:`fourierscale.functional` writes them. The same holds for ``plain`` of the other operations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.kernels.conv.spectra import halves


def fourier_conv(x: Tensor, spectrum: Tensor) -> Tensor:
    """Mix the channels of each frequency; see :func:`fourierscale.functional.fourier_conv`.

    Args:
        x: ``(n_1, n_2, B, C_in)``.
        spectrum: Even and odd parts ``(C_out, C_in, n_1, n_2)``.
    """
    return mix(x, mixing_weights(spectrum))


def mixing_weights(spectrum: Tensor) -> Tensor:
    """What :func:`mix` takes of a spectrum ``(C_out, C_in, n_1, n_2)``: ``(n_1, n_2 // 2 + 1, C_in, 2 C_out)``."""
    factors = halves(spectrum.shape[2], spectrum.dtype, spectrum.device).reshape(-1, 1, 1, 1)
    return torch.cat(_spread(spectrum.permute(2, 3, 1, 0) * factors), -1)


def mix(x: Tensor, weights: Tensor) -> Tensor:
    r"""One batched product: rows :math:`[\mathrm{Re}\,h; \mathrm{Im}\,h]` of the half plane, columns
    :math:`[\mathrm{Re}\,K, \mathrm{Im}\,K]`. All four products of complex numbers are in it, each weight read once.

    Args:
        x: ``(n_1, n_2, B, C_in)``.
        weights: ``(n_1, n_2 // 2 + 1, C_in, 2 C_out)``.
    """
    batch, out_channels = x.shape[2], weights.shape[3] // 2
    products = torch.cat(_spread(x), 2) @ weights  # (n_1, q, 2 B, 2 C_out)
    from_re, from_im = products[:, :, :batch], products[:, :, batch:]
    y_re = from_re[..., :out_channels] - from_im[..., out_channels:]
    y_im = from_re[..., out_channels:] + from_im[..., :out_channels]
    return _gather(y_re, y_im)


def _spread(x: Tensor) -> tuple[Tensor, Tensor]:
    r""":math:`T` of :mod:`.products`: real and imaginary parts ``(n_1, n_2 // 2 + 1, ...)``.

    The first axis is ordered :math:`0, +1, +2, \dots, -1, -2, \dots`, the second :math:`0, 1, 2, \dots`.
    """
    re = torch.cat([x[:, :1], x[:, 1::2]], 1)
    im = torch.cat([torch.zeros_like(x[:, :1]), x[:, 2::2]], 1)
    re_cos, re_sin, im_cos, im_sin = re[1::2], re[2::2], im[1::2], im[2::2]
    return (
        torch.cat([re[:1], re_cos - im_sin, re_cos + im_sin]),
        torch.cat([im[:1], im_cos + re_sin, im_cos - re_sin]),
    )


def _gather(re: Tensor, im: Tensor) -> Tensor:
    r""":math:`T^\top`: back to cosines and sines, ``(n_1, n_2, ...)``."""
    middle = re.shape[0] // 2 + 1
    re_plus, re_minus, im_plus, im_minus = re[1:middle], re[middle:], im[1:middle], im[middle:]
    cosines = torch.cat([re[:1], _interleave(re_plus + re_minus, im_plus - im_minus, 0)])
    sines = torch.cat([im[:1], _interleave(im_plus + im_minus, re_minus - re_plus, 0)])
    return torch.cat([cosines[:, :1], _interleave(cosines[:, 1:], sines[:, 1:], 1)], 1)


def _interleave(first: Tensor, second: Tensor, axis: int) -> Tensor:
    return torch.stack([first, second], axis + 1).flatten(axis, axis + 1)
