"""Fourier layers over :mod:`fourierscale.functional.conv`."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.functional.bands import axis_bands, grids
from fourierscale.functional.resample import corner
from fourierscale.nn.checks import check_coefficients, per_axis, positive


class _FourierLayer(nn.Module, abc.ABC):
    """What local and global layers share: pointwise path, bias, and the mixing itself."""

    axes: int
    weight: nn.Parameter

    def __init__(self, in_channels: int, out_channels: int, bias: bool, pointwise: bool) -> None:
        super().__init__()
        self.in_channels = positive(in_channels, "in_channels")
        self.out_channels = positive(out_channels, "out_channels")
        self.pointwise = nn.Parameter(torch.empty(out_channels, in_channels)) if pointwise else None
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def reset_parameters(self) -> None:
        """Draw new parameters: the variance of ``torch.nn.ConvNd`` for the kernel, the pointwise path and the bias."""
        bound = 1 / math.sqrt(self.in_channels)
        if self.pointwise is not None:
            nn.init.uniform_(self.pointwise, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    @abc.abstractmethod
    def spectrum(self, size: Sequence[int]) -> Tensor:
        """Spectrum of the layer's kernel, ``(C_out, C_in, 2K_1+1, ..., 2K_d+1)``, without the pointwise path."""

    @abc.abstractmethod
    def _convolve(self, coeffs: Tensor) -> Tensor:
        """Both paths, without the bias."""

    def forward(self, coeffs: Tensor) -> Tensor:
        """Mix the channels of each frequency: coefficients of ``in_channels`` to coefficients of ``out_channels``."""
        check_coefficients(coeffs, self.axes, self.in_channels, type(self).__name__)
        output = self._convolve(coeffs)
        if self.bias is not None:
            output = output + _at_zero(self.bias, coeffs.shape[-self.axes :])
        return output

    def extra_repr(self) -> str:
        """Channels and options, for ``print(model)``."""
        return (
            f"{self.in_channels}, {self.out_channels}, "
            f"bias={self.bias is not None}, pointwise={self.pointwise is not None}"
        )


def _at_zero(bias: Tensor, size: Sequence[int]) -> Tensor:
    """A constant per channel as coefficients: ``bias`` at frequency 0, nothing elsewhere."""
    rest = math.prod(size) - 1
    return nn.functional.pad(bias[:, None], (0, rest)).reshape(-1, *size)


class _LocalFourierConv(_FourierLayer):
    """Local layers for any number of axes; documented at :class:`LocalFourierConv2d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        reference_size: int | Sequence[int],
        bias: bool = True,
        pointwise: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, bias, pointwise)
        self.kernel_size = per_axis(kernel_size, self.axes, "kernel_size")
        self.reference_size = per_axis(reference_size, self.axes, "reference_size")
        if any(n > d for n, d in zip(self.kernel_size, self.reference_size, strict=True)):
            raise ValueError(
                f"kernel_size {self.kernel_size} does not fit on the reference grid {self.reference_size}: "
                "use fewer taps or a larger reference_size"
            )
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, *self.kernel_size))
        self._spectra = kernels.Spectra()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, as ``torch.nn.ConvNd`` does."""
        super().reset_parameters()
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def spectrum(self, size: Sequence[int]) -> Tensor:
        """Spectrum of the taps."""
        return F.local_spectrum(self._taps(), self.reference_size, size)

    def _taps(self) -> Tensor:
        """Taps for convolution; they are stored as torch stores them, for correlation, hence the flip."""
        return self.weight.flip(tuple(range(2, self.weight.ndim)))

    def _both_paths(self) -> Tensor:
        taps = self._taps()
        if self.pointwise is not None:  # a 1x1 path is one more centre tap
            sides = [side for n in reversed(self.kernel_size) for side in (n // 2, n - 1 - n // 2)]
            taps = taps + nn.functional.pad(self.pointwise.reshape(*self.pointwise.shape, *(1,) * self.axes), sides)
        return taps

    def _convolve(self, coeffs: Tensor) -> Tensor:
        own = [p for p in (self.weight, self.pointwise) if p is not None]
        compiling = torch.compiler.is_compiling()  # exporting compiles too
        if not (compiling or self.training or torch.is_grad_enabled()):
            # Taps that are computed, by a parametrization for example, are new tensors every time.
            if all(isinstance(p, nn.Parameter) and not p.is_inference() for p in own):
                held = self._spectra.hold(own)
                return kernels.local_conv(coeffs, self._both_paths, self.reference_size, held, self.weight.shape)
        elif not compiling:
            self._spectra.forget()  # an optimizer may follow
        return kernels.local_conv(coeffs, self._both_paths, self.reference_size, shape=self.weight.shape)

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation; spectra that were kept in evaluation are made again."""
        self._spectra.forget()
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        """Without the spectra, which are made again."""
        return {**self.__dict__, "_spectra": kernels.Spectra()}

    def extra_repr(self) -> str:
        """Channels, taps and reference grid."""
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}, reference_size={self.reference_size}"


class _FourierConv(_FourierLayer):
    """Global layers for any number of axes; documented at :class:`FourierConv2d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        max_resolution: int | Sequence[int],
        bias: bool = True,
        pointwise: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, bias, pointwise)
        self.max_resolution = per_axis(max_resolution, self.axes, "max_resolution")
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, *grids(axis_bands(self.max_resolution))))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters; the power of each frequency's weight is that of ``torch.nn.ConvNd``'s kernel."""
        super().reset_parameters()
        nn.init.normal_(self.weight, std=1 / math.sqrt(3 * self.in_channels * 2**self.axes))

    def spectrum(self, size: Sequence[int]) -> Tensor:
        """The corner of the weight that belongs to ``size``."""
        if any(k > limit for k, limit in zip(axis_bands(size), axis_bands(self.max_resolution), strict=True)):
            raise ValueError(
                f"{type(self).__name__} has weights up to resolution {self.max_resolution}, the input needs {size}: "
                "downscale the input, raise max_resolution, or use a local layer, which has no upper limit"
            )
        return self.weight[corner(axis_bands(size))]

    def _convolve(self, coeffs: Tensor) -> Tensor:
        size = tuple(coeffs.shape[-self.axes :])
        spectrum = self.spectrum(size)
        if self.pointwise is not None:
            spectrum = spectrum + F.delta_spectrum(self.pointwise, size)
        return kernels.spectrum_conv(coeffs, spectrum)

    def extra_repr(self) -> str:
        """Channels and highest resolution."""
        return f"{super().extra_repr()}, max_resolution={self.max_resolution}"


class LocalFourierConv1d(_LocalFourierConv):
    """:class:`LocalFourierConv2d` for signals."""

    axes = 1


class LocalFourierConv2d(_LocalFourierConv):
    """Convolution with taps on a reference grid, at any resolution.

    At ``reference_size`` it is the circular ``torch.nn.ConvNd(..., padding="same", padding_mode="circular")`` with the
    same ``weight``; at another resolution it is the same continuous filter. The taps have a spectrum at every
    frequency, so inputs above the reference size are legal. See
    :func:`fourierscale.functional.local_spectrum` and :func:`fourierscale.functional.fourier_conv`.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Taps per axis, at most ``reference_size``.
        reference_size: Grid on which one tap is one sample; usually the highest resolution.
        bias: Whether to add a constant per channel (at frequency 0).
        pointwise: Whether to add a 1x1 path of its own, as the paper's models do.

    Parameters: ``weight (out, in, *kernel_size)``, ``bias (out,)``, ``pointwise (out, in)``, all real.
    Coefficients ``(..., in_channels, 2K_1+1, ...)`` in, ``(..., out_channels, 2K_1+1, ...)`` out.
    """

    axes = 2


class LocalFourierConv3d(_LocalFourierConv):
    """:class:`LocalFourierConv2d` for volumes."""

    axes = 3


class FourierConv1d(_FourierConv):
    """:class:`FourierConv2d` for signals."""

    axes = 1


class FourierConv2d(_FourierConv):
    """Global Fourier layer: one free weight per frequency, up to ``max_resolution``.

    The weight is the spectrum of a real kernel that spans the whole image, stored as real even and odd parts (see
    :mod:`fourierscale.functional.conv`), so every value of the parameter is valid. It has no weight for the
    frequencies above ``max_resolution``; such an input is a ``ValueError``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        max_resolution: Highest resolution of the input.
        bias: Whether to add a constant per channel (at frequency 0).
        pointwise: Whether to add a 1x1 path of its own, as the paper's models do.

    Parameters: ``weight (out, in, 2K_1+1, ..., 2K_d+1)``, ``bias (out,)``, ``pointwise (out, in)``, all real.
    """

    axes = 2


class FourierConv3d(_FourierConv):
    """:class:`FourierConv2d` for volumes."""

    axes = 3
