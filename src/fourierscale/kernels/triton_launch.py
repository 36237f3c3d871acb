"""What Triton kernels share: the device they run on, products in a chosen precision, activations and derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from fourierscale.functional.constants import kept

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
def activate(z, CODE: tl.constexpr):
    """The activation whose entry in the table has this code."""
    return CODE(z, z, False)


@triton.jit
def derivative(z, g, CODE: tl.constexpr):
    """The gradient at ``z`` from the gradient ``g`` behind the activation."""
    return CODE(z, g, True)


def precision(x: Tensor) -> str:
    """Precision of the products: that of the features, and for float32 what torch is set to."""
    if x.dtype is not torch.float32:
        return "tf32"
    return {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}[torch.get_float32_matmul_precision()]


@kept
def parameter_rows(used: tuple[int, ...], count: int, device: torch.device) -> Tensor:
    """Which row of the parameters each level uses, ``(rows, levels)`` of zeros and ones."""
    rows = torch.zeros(count, len(used))
    rows[list(used), range(len(used))] = 1
    return rows.to(device)
