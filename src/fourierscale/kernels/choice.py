"""Which implementation runs: chosen by the user, by the device and by what torch is doing.

- ``"torch"``: the readable specification in :mod:`fourierscale.functional`, through ordinary autograd.
- ``"gemm"``: the same functions as a few large matrix products with a backward pass of their own, on any device.
- ``"triton"``: fused GPU kernels where there are some, the rest as ``"gemm"``.
- ``"auto"``: the fastest of them that can do what is asked.
- What is exported is in plain operators without being asked, for images; else as ``"torch"``.

All give the same values and gradients up to rounding. The operator of each folder says what its kernels can do and
asks :func:`implementation` once, in the forward pass; the backward pass keeps to it, whatever its thread has chosen.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fourierscale.functional.transform import is_exporting

Backend: TypeAlias = Literal["auto", "torch", "gemm", "triton"]
"""Names of the implementations."""

OWN_GRID, COMMON_GRID = 32, 128
"""Sides of the largest tiles that fused kernels take: where levels have grids of their own, and one in common."""

_block: ContextVar[Backend | None] = ContextVar("block", default=None)
_everywhere: Backend = "auto"
_latest: Backend = "auto"


def set_backend(name: Backend) -> None:
    """Choose the implementation for the whole process, wherever no :func:`backend` block says otherwise.

    >>> set_backend("auto")
    """
    global _everywhere, _latest
    _check(name)
    _everywhere = _latest = name


def get_backend() -> Backend:
    """The implementation that was chosen, in this thread and block."""
    # The compiler cannot follow a context variable: it takes what _chosen says as a constant of the graph, and makes
    # another graph when a global has changed that it has seen. So it is shown one that changes with every choice.
    return _chosen() if _latest else "auto"


def _chosen() -> Backend:
    return _block.get() or _everywhere


@contextmanager
def backend(name: Backend) -> Iterator[None]:
    """Choose the implementation within a ``with`` block, for the thread or task that runs it and no other.

    >>> with backend("torch"):
    ...     get_backend()
    'torch'
    """
    global _latest
    _check(name)
    before = _block.set(name)
    _latest = name
    try:
        yield
    finally:
        _block.reset(before)
        _latest = _chosen()


def _check(name: str) -> None:
    if name not in get_args(Backend):
        raise ValueError(f"unknown backend {name!r}: choose one of {', '.join(get_args(Backend))}")
    if name == "triton" and not triton_runs(torch.device("cuda" if torch.cuda.is_available() else "cpu")):
        raise ValueError("backend 'triton' needs triton and a CUDA device: install triton, or choose 'auto'")


def implementation(
    x: Tensor, *, fused: bool = False, plain: bool = True
) -> Literal["torch", "gemm", "triton", "plain"]:
    """What runs for this tensor, where the fast twins can do what is asked.

    Args:
        x: The input.
        fused: Whether there is a fused kernel for it.
        plain: Whether there are plain operators for it, for export.
    """
    name = get_backend()
    if name == "torch" or _is_transformed():
        return "torch"
    if is_exporting():  # Dynamo, where it exports, cannot follow how constants are made
        return "plain" if plain and not torch.compiler.is_dynamo_compiling() else "torch"
    if fused and (name == "triton" or (name == "auto" and x.is_cuda and triton_runs(x.device))):
        return "triton"
    return "gemm"


def fits_tiles(x: Tensor, side: int, limit: int) -> bool:
    """Whether tiles of this side hold it, and its entries are counted by 32 bits."""
    known = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return known and side <= limit and x.numel() < 2**31


def triton_runs(device: torch.device) -> bool:
    """Whether Triton kernels run on this device; on a CPU they do in Triton's interpreter alone."""
    return _has_triton() and (device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1")


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _is_transformed() -> bool:
    """Whether a transform of ``torch.func`` is at work: those need plain operators."""
    return torch._C._functorch.peek_interpreter_stack() is not None


# Constants of a graph that torch.compile makes, which would not know what they give.
_chosen._dynamo_marked_constant = True  # type: ignore[attr-defined]
_is_transformed._dynamo_marked_constant = True  # type: ignore[attr-defined]
