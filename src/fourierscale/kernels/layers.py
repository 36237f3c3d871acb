"""What the layers call: each function chooses an implementation; shapes are logical, ``(..., C, n_1, ..., n_d)``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fourierscale import functional as F
from fourierscale.functional.bands import Boundary, Box, coefficient_bands, grids, period
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import ACTIVATIONS, Grid, Level, PoolKind, plan_levels
from fourierscale.kernels import mixing, operators, plain
from fourierscale.kernels.backend import implementation
from fourierscale.kernels.plans import Options, encode, is_chain
from fourierscale.kernels.products import by_products

KEPT = 2**25
"""Entries of the spectra that a layer keeps at most."""


class Spectra:
    """Spectra of one layer by their size, for as long as the parameters they were made from stay what they are.

    A parameter that is another tensor, lies elsewhere or was changed in place is noticed. A fused optimizer and a write
    to ``parameter.data`` leave no trace of their change: a layer has to :meth:`forget` whenever its parameters may have
    changed.
    """

    def __init__(self) -> None:
        self._made_from: list[tuple[Tensor, int, int]] = []
        self._by_size: dict[tuple[int, ...], Tensor] = {}

    def __len__(self) -> int:
        return len(self._by_size)

    def forget(self) -> None:
        """Drop all."""
        self._made_from, self._by_size = [], {}

    def hold(self, parameters: Sequence[Tensor]) -> Spectra:
        """Itself, without what was made from other parameters than these."""
        now = [(parameter, parameter.data_ptr(), parameter._version) for parameter in parameters]
        if len(now) != len(self._made_from) or any(
            new is not old or which != known for (new, *which), (old, *known) in zip(now, self._made_from, strict=True)
        ):
            self.forget()
            self._made_from = now
        return self

    def get(self, size: tuple[int, ...], make: Callable[[], Tensor]) -> Tensor:
        """The spectrum of a size, made if it is not there; so many are kept that :data:`KEPT` is not exceeded."""
        if size in self._by_size:
            return self._by_size[size]
        spectrum = make()
        if self.entries() + spectrum.numel() > KEPT:
            self._by_size.clear()
        if spectrum.numel() <= KEPT:
            self._by_size[size] = spectrum
        return spectrum

    def entries(self) -> int:
        """How many numbers are kept."""
        return sum(spectrum.numel() for spectrum in self._by_size.values())


def local_conv(
    coeffs: Tensor,
    taps: Callable[[], Tensor],
    reference_size: Sequence[int],
    spectra: Spectra | None = None,
) -> Tensor:
    """Convolution with centred taps on a reference grid; see :func:`fourierscale.functional.local_spectrum`.

    Args:
        coeffs: ``(..., C_in, 2K_1+1, ..., 2K_d+1)``.
        taps: Gives the taps ``(C_out, C_in, l_1, ..., l_d)``.
        reference_size: Grid on which one tap is one sample.
        spectra: Where to keep the spectrum, for a layer that does not change while it is used.
    """
    axes = len(reference_size)
    size = tuple(coeffs.shape[-axes:])
    engine = implementation(coeffs, plain=axes == 2)
    if engine in ("torch", "plain"):
        return spectrum_conv(coeffs, F.local_spectrum(taps(), reference_size, size))
    if spectra is None or torch.compiler.is_compiling():
        with _NoAutocast(coeffs):
            kernel, expand = mixing.tap_kernel(taps(), reference_size, size)
        return apply_kernel(coeffs, kernel, expand, axes)

    def make() -> Tensor:
        with _NoAutocast(coeffs):
            return mixing.full_kernel(*mixing.tap_kernel(taps(), reference_size, size))

    return apply_kernel(coeffs, spectra.get(size, make), None, axes)


def spectrum_conv(coeffs: Tensor, spectrum: Tensor) -> Tensor:
    """Convolution with a kernel given by its spectrum; see :func:`fourierscale.functional.fourier_conv`."""
    axes = spectrum.ndim - 2
    engine = implementation(coeffs, plain=axes == 2)
    if engine == "torch":
        return F.fourier_conv(coeffs, spectrum)
    if engine == "plain":
        y = plain.fourier_conv(frequency_first(coeffs, axes), spectrum)
        return channel_first(y, coeffs.shape[: -axes - 1])
    return apply_kernel(coeffs, mixing.spectrum_kernel(spectrum), None, axes)


def apply_kernel(coeffs: Tensor, kernel: Tensor, expand: Tensor | None, axes: int) -> Tensor:
    """Mix channels with a kernel that :mod:`fourierscale.kernels.mixing` made."""
    with _NoAutocast(coeffs) as dtype:
        x = frequency_first(coeffs.to(dtype), axes)
        engine = implementation(coeffs, fused=axes == 2)
        return channel_first(mixing.mix(x, kernel, expand, engine), coeffs.shape[: -axes - 1])


def nested_activation(
    coeffs: Tensor,
    levels: Resolutions,
    activation: str | Callable[[Tensor], Tensor],
    *,
    axes: int = 2,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    norm: bool = False,
    eps: float = 1e-5,
    pool: int = 1,
    pool_kind: PoolKind = "max",
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    """Norm, activation and pooling of every level; see :func:`fourierscale.functional.nested_activation`.

    An activation given by its name has a fast implementation, any other callable runs as the specification does.
    """
    plan = _plan(Levels(levels), coefficient_bands(coeffs, axes), pool, grid, oversample)
    fast = isinstance(activation, str) and coeffs.ndim > axes and is_chain(plan)
    fast = fast and all(by_products(n, coeffs) for level in plan for n in level.grid)
    fused = fast and axes == 2 and _fits_fused(coeffs, plan, pool)
    engine = implementation(coeffs, fused=fused, plain=axes == 2)
    if not fast or engine == "torch":
        return F.nested_activation(
            coeffs,
            levels,
            ACTIVATIONS[activation] if isinstance(activation, str) else activation,
            axes=axes,
            weight=weight,
            bias=bias,
            norm=norm,
            eps=eps,
            pool=pool,
            pool_kind=pool_kind,
            grid=grid,
            oversample=oversample,
        )
    with _NoAutocast(coeffs) as dtype:
        x = frequency_first(coeffs.to(dtype), axes)
        if engine == "plain":
            options = Options(str(activation), norm, eps, pool, pool_kind)
            return channel_first(plain.nested_activation(x, weight, bias, plan, options), coeffs.shape[: -axes - 1])
        y = operators.nested_activation(
            x,
            weight,
            bias,
            encode(plan),
            activation,
            norm,
            eps,
            pool,
            pool_kind,
            engine,
        )
        return channel_first(y, coeffs.shape[: -axes - 1])


def nested_pool(
    coeffs: Tensor,
    levels: Resolutions,
    window: int,
    kind: PoolKind = "max",
    *,
    axes: int = 2,
    grid: Grid = "level",
    oversample: float = 1.0,
) -> Tensor:
    """Scale-equivariant pooling; see :func:`fourierscale.functional.nested_pool`."""
    return nested_activation(
        coeffs, levels, "identity", axes=axes, pool=window, pool_kind=kind, grid=grid, oversample=oversample
    )


def level_pool(
    coeffs: Tensor,
    boxes: Sequence[Box],
    window: int,
    cells: int,
    kind: PoolKind = "max",
    boundary: Boundary = "circular",
) -> Tensor:
    """Pooled samples of every level, for the head; see :func:`fourierscale.functional.level_pool`."""
    n = window * cells
    side = max(n, *(1 + k for k in coeffs.shape[-2:]))
    fused = kind == "max" and boundary == "circular" and _fits(coeffs, side, LARGE)
    engine = implementation(coeffs, fused=fused, plain=boundary == "circular")
    if engine == "torch" or not by_products(period(n, boundary), coeffs):
        return F.level_pool(coeffs, boxes, window, cells, kind, boundary)
    flat = [k for box in boxes for k in box]
    with _NoAutocast(coeffs) as dtype:
        x = frequency_first(coeffs.to(dtype), 2)
        if engine == "plain":
            return plain.level_pool(x, boxes, window, cells, kind)
        places = torch.is_grad_enabled() and x.requires_grad  # for the backward pass alone
        pooled: Tensor = operators.level_pool(x, flat, window, cells, kind, boundary, places, engine)[0]
    return pooled


def frequency_first(coeffs: Tensor, axes: int) -> Tensor:
    """``(..., C, n_1, ..., n_d)`` as contiguous ``(n_1, ..., n_d, B, C)``: no copy if it is stored like that."""
    lead = coeffs.shape[: -axes - 1]
    moved = coeffs.permute(*range(coeffs.ndim - axes, coeffs.ndim), *range(coeffs.ndim - axes))
    return moved.reshape(*coeffs.shape[-axes:], math.prod(lead), coeffs.shape[-axes - 1]).contiguous()


def channel_first(x: Tensor, lead: Sequence[int]) -> Tensor:
    """``(n_1, ..., n_d, B, C)`` as a view ``(..., C, n_1, ..., n_d)``."""
    axes = x.ndim - 2
    x = x.reshape(*x.shape[:axes], *lead, x.shape[-1])
    return x.permute(*range(axes, x.ndim), *range(axes))


@functools.lru_cache(4096)
def _plan(levels: Levels, box: Box, pool: int, grid: Grid, oversample: float) -> tuple[Level, ...]:
    return tuple(plan_levels(levels, box, pool=pool, grid=grid, oversample=oversample))


SMALL, LARGE = 32, 128
"""Sides that fused kernels take: grids of each level's own, one common grid."""


def _fits_fused(coeffs: Tensor, plan: Sequence[Level], pool: int) -> bool:
    """Whether there is a fused kernel for these levels of an image."""
    side = max(n for level in plan for n in (*level.grid, *(1 + k for k in grids(level.reads))))
    if len({level.grid for level in plan}) == 1:
        return pool <= 2 and _fits(coeffs, side, LARGE)
    return pool == 1 and _fits(coeffs, side - 1, SMALL)


def _fits(coeffs: Tensor, side: int, most: int) -> bool:
    """Whether tiles of this side fit, and are counted by 32 bits."""
    known = coeffs.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return known and side <= most and coeffs.numel() < 2**31


class _NoAutocast:
    """Operators choose their precision themselves; gives the type that features have here."""

    def __init__(self, x: Tensor) -> None:
        kind = x.device.type
        known = kind in ("cpu", "cuda", "mps", "xpu")  # the meta device has no autocast
        self.active = known and torch.is_autocast_enabled(kind) and x.dtype is not torch.float64
        self.dtype = torch.get_autocast_dtype(kind) if self.active else x.dtype
        self.off = torch.autocast(kind, enabled=False) if self.active else None

    def __enter__(self) -> torch.dtype:
        if self.off is not None:
            self.off.__enter__()  # type: ignore[no-untyped-call]
        return self.dtype

    def __exit__(self, *error: object) -> None:
        if self.off is not None:
            self.off.__exit__(*error)
