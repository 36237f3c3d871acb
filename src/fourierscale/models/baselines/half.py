"""Half precision on GPUs: whether it runs, and whether the kernels for it do."""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.kernels.backend import implementation

__all__ = ["fused", "halved"]


def halved(x: Tensor) -> bool:
    """Whether convolutions of ``x`` run in half precision on a GPU, where channels are best last in memory."""
    return x.is_cuda and (torch.is_autocast_enabled("cuda") or x.dtype.itemsize == 2)


def fused(x: Tensor) -> bool:
    """Whether steps that move numbers and hardly compute are kernels of their own; they count samples in 32 bits."""
    return halved(x) and x.numel() < 2**31 and implementation(x, fused=True, plain=False) == "triton"
