"""The Fourier layers as the layers call them, and the operator of torch behind them.

Shapes are logical outside, ``(..., C, n_1, ..., n_d)``, and frequency first inside the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fourierscale import functional as F
from fourierscale.kernels.choice import implementation
from fourierscale.kernels.conv import plain, products
from fourierscale.kernels.conv.samples import choose_way, conv_samples, pointwise
from fourierscale.kernels.conv.spectra import Spectra, full_kernel, spectrum_kernel, tap_kernel
from fourierscale.kernels.layout import NoAutocast, channel_first, frequency_first


def local_conv(
    coeffs: Tensor,
    taps: Callable[[], Tensor],
    reference_size: Sequence[int],
    spectra: Spectra | None = None,
    shape: Sequence[int] | None = None,
) -> Tensor:
    """Convolution with centred taps on a reference grid; see :func:`fourierscale.functional.local_spectrum`.

    Args:
        coeffs: ``(..., C_in, 2K_1+1, ..., 2K_d+1)``.
        taps: Gives the taps ``(C_out, C_in, l_1, ..., l_d)``.
        reference_size: Grid on which one tap is one sample.
        spectra: Where to keep the spectrum, for a layer that does not change while it is used.
        shape: Shape of the taps, if it is known before they are made.
    """
    axes = len(reference_size)
    size = tuple(coeffs.shape[-axes:])
    engine = implementation(coeffs, fused=axes == 2, plain=axes == 2)
    if engine in ("torch", "plain"):
        return _by_spectrum(coeffs, F.local_spectrum(taps(), reference_size, size), engine)
    way = "spectrum"
    if engine == "gemm":
        way = choose_way(coeffs, shape or taps().shape, reference_size, spectra is not None)
    if way != "spectrum":
        with NoAutocast(coeffs) as dtype:
            x, weight = frequency_first(coeffs.to(dtype), axes), taps().to(dtype)
            y = pointwise(x, weight) if way == "pointwise" else conv_samples(x, weight, reference_size)
            return channel_first(y, coeffs.shape[: -axes - 1])
    if spectra is None or torch.compiler.is_compiling():
        with NoAutocast(coeffs):
            kernel, expand = tap_kernel(taps(), reference_size, size)
        return _by_kernel(coeffs, kernel, expand, axes, engine)

    def make() -> Tensor:
        with NoAutocast(coeffs):
            return full_kernel(*tap_kernel(taps(), reference_size, size))

    return _by_kernel(coeffs, spectra.get(size, make), None, axes, engine)


def spectrum_conv(coeffs: Tensor, spectrum: Tensor) -> Tensor:
    """Convolution with a kernel given by its spectrum; see :func:`fourierscale.functional.fourier_conv`."""
    image = spectrum.ndim == 4
    engine: str = implementation(coeffs, fused=image, plain=image)
    if engine in ("gemm", "triton") and torch.compiler.is_compiling():
        engine = "plain" if image else "torch"  # the compiler cannot follow how butterflies write the kernel
    return _by_spectrum(coeffs, spectrum, engine)


def _by_spectrum(coeffs: Tensor, spectrum: Tensor, engine: str) -> Tensor:
    axes = spectrum.ndim - 2
    if engine == "torch":
        return F.fourier_conv(coeffs, spectrum)
    if engine == "plain":
        y = plain.fourier_conv(frequency_first(coeffs, axes), spectrum)
        return channel_first(y, coeffs.shape[: -axes - 1])
    return _by_kernel(coeffs, spectrum_kernel(spectrum), None, axes, engine)


def _by_kernel(coeffs: Tensor, kernel: Tensor, expand: Tensor | None, axes: int, engine: str) -> Tensor:
    with NoAutocast(coeffs) as dtype:
        y: Tensor = mix(frequency_first(coeffs.to(dtype), axes), kernel, expand, engine)
        return channel_first(y, coeffs.shape[: -axes - 1])


@torch.library.custom_op("fourierscale::mix", mutates_args=())
def mix(x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str) -> Tensor:
    """Coefficients, frequency first, ``(n_1, ..., n_d, B, C_in)`` to ``(n_1, ..., n_d, B, C_out)``."""
    return _engine(x, engine).mix_forward(x, kernel, expand)  # type: ignore[no-any-return]


@mix.register_fake
def _(x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str) -> Tensor:
    return x.new_empty(*x.shape[:-1], kernel.shape[3])


@torch.library.custom_op("fourierscale::mix_backward", mutates_args=())
def mix_backward(
    gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str
) -> tuple[Tensor, Tensor]:
    """Gradients of the coefficients and of the kernel."""
    return _engine(x, engine).mix_backward(gradient, x, kernel, expand)  # type: ignore[no-any-return]


@mix_backward.register_fake
def _(gradient: Tensor, x: Tensor, kernel: Tensor, expand: Tensor | None, engine: str) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), kernel.new_empty(kernel.shape)


def _engine(x: Tensor, engine: str) -> Any:
    """Real products, or complex ones between Triton's butterflies; of these there are none in half precision."""
    known = x.dtype is torch.float64 or (x.dtype is torch.float32 and torch.get_float32_matmul_precision() != "medium")
    if engine != "triton" or not known:
        return products
    from fourierscale.kernels.conv import triton_mix

    return triton_mix


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, str], output: Tensor) -> None:
    x, kernel, ctx.expand, ctx.engine = inputs
    ctx.save_for_backward(x, kernel)


def _gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
    x, kernel = ctx.saved_tensors
    if torch.is_grad_enabled():  # a second derivative is wanted: through parts that have one
        dx, d_kernel = products.twice_differentiable(gradient, x, kernel, ctx.expand)
    else:
        dx, d_kernel = mix_backward(gradient.contiguous(), x, kernel, ctx.expand, ctx.engine)
    return dx, d_kernel, None, None


mix.register_autograd(_gradient, setup_context=_setup)
