"""What the kernels share: the device they run on, products in a chosen precision, activations and derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.constants import forgotten_with_constants
from fourierscale.functional.nested import Level

CODES = {"relu": 0, "leaky_relu": 1, "gelu": 2, "silu": 3, "tanh": 4, "identity": 5}
"""Numbers of the activations inside the kernels."""

P = ParamSpec("P")
T = TypeVar("T")


def on_its_device(function: Callable[Concatenate[Tensor, P], T]) -> Callable[Concatenate[Tensor, P], T]:
    """Run a function on the GPU of its first argument; Triton launches on the current one, wherever the numbers are."""

    @functools.wraps(function)
    def run(x: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not x.is_cuda or x.device.index == torch.cuda.current_device():
            return function(x, *args, **kwargs)
        with torch.cuda.device(x.device):
            return function(x, *args, **kwargs)

    return run


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    if PRECISION == "bf16":  # noqa: SIM108 (of a branch not taken nothing is compiled)
        c = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    else:
        c = tl.dot(a, b, input_precision=PRECISION)
    return c


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def activate(z, CODE: tl.constexpr):
    if CODE == 0:
        return tl.maximum(z, 0.0)
    if CODE == 1:
        return tl.where(z > 0, z, 0.01 * z)
    if CODE == 2:
        return 0.5 * z * (1 + tl.erf(z * 0.7071067811865476))
    if CODE == 3:
        return z * tl.sigmoid(z)
    if CODE == 4:
        return _tanh(z)
    return z


@triton.jit
def derivative(z, g, CODE: tl.constexpr):
    if CODE == 0:
        return tl.where(z > 0, g, 0.0)
    if CODE == 1:
        return tl.where(z > 0, g, 0.01 * g)
    if CODE == 2:
        normal = 0.3989422804014327 * tl.exp(-0.5 * z * z)
        return g * (0.5 * (1 + tl.erf(z * 0.7071067811865476)) + z * normal)
    if CODE == 3:
        s = tl.sigmoid(z)
        return g * s * (1 + z * (1 - s))
    if CODE == 4:
        t = _tanh(z)
        return g * (1 - t * t)
    return g


@triton.jit
def larger(a, place_a, b, place_b):
    first = (a > b) | ((a == b) & (place_a < place_b))
    return tl.where(first, a, b), tl.where(first, place_a, place_b)


def precision(x: Tensor) -> str:
    """Of the products: that of the features, and for float32 what torch is set to."""
    if x.dtype is not torch.float32:
        return "tf32"
    return {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}[torch.get_float32_matmul_precision()]


@forgotten_with_constants
@functools.lru_cache(1024)
def parameter_rows(plan: tuple[Level, ...], count: int, device: torch.device) -> Tensor:
    """Which row of the parameters each level uses, ``(rows, levels)``."""
    rows = torch.zeros(count, len(plan))
    for i, level in enumerate(plan):
        rows[level.index, i] = 1
    return rows.to(device)
