"""Which implementation runs: chosen here, and nowhere else.

- ``"torch"``: the readable specification in :mod:`fourierscale.functional`, through ordinary autograd.
- ``"gemm"``: the same functions as a few large matrix products with a backward pass of their own, on any device.
- ``"triton"``: the nested map and the pooling of the head as fused GPU kernels, the rest as ``"gemm"``.
- ``"auto"``: the fastest of them that can do what is asked.
- What is exported is :mod:`fourierscale.kernels.plain` without being asked, for images; else ``"torch"``.

All give the same values and gradients up to rounding.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.functional.transform import is_exporting

Backend: TypeAlias = Literal["auto", "torch", "gemm", "triton"]
"""Names of the implementations."""

_current: Backend = "auto"


def set_backend(name: Backend) -> None:
    """Choose the implementation for the whole process.

    >>> set_backend("auto")
    """
    global _current
    if name not in get_args(Backend):
        raise ValueError(f"unknown backend {name!r}: choose one of {', '.join(get_args(Backend))}")
    if name == "triton" and not triton_runs(torch.device("cuda" if torch.cuda.is_available() else "cpu")):
        raise ValueError("backend 'triton' needs triton and a CUDA device: install triton, or choose 'auto'")
    _current = name


def get_backend() -> Backend:
    """The implementation that was chosen."""
    return _current


@contextmanager
def backend(name: Backend) -> Iterator[None]:
    """Choose the implementation within a ``with`` block.

    >>> with backend("torch"):
    ...     get_backend()
    'torch'
    """
    before = _current
    set_backend(name)
    try:
        yield
    finally:
        set_backend(before)


def implementation(
    x: Tensor, *, fused: bool = False, plain: bool = True
) -> Literal["torch", "gemm", "triton", "plain"]:
    """What runs for this tensor, where the fast twins can do what is asked.

    Args:
        x: The input.
        fused: Whether there is a fused kernel for it.
        plain: Whether there are plain operators for it, for export.
    """
    if _current == "torch" or _is_transformed():
        return "torch"
    if is_exporting():  # Dynamo, where it exports, cannot follow how constants are made
        return "plain" if plain and not torch.compiler.is_dynamo_compiling() else "torch"
    if fused and (_current == "triton" or (_current == "auto" and x.is_cuda and triton_runs(x.device))):
        return "triton"
    return "gemm"


def triton_runs(device: torch.device) -> bool:
    """Whether Triton kernels run on this device; on a CPU they do in Triton's interpreter alone."""
    return _has_triton() and (device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1")


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _is_transformed() -> bool:
    """Whether a transform of ``torch.func`` is at work: those need plain operators."""
    return torch._C._functorch.peek_interpreter_stack() is not None
