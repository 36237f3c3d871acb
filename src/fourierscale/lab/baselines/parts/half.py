"""Half precision on GPUs: whether it runs, whether the kernels for it do, and how images lie in memory for them."""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.kernels.choice import implementation

__all__ = ["format_of", "fused", "halved"]


def halved(x: Tensor) -> bool:
    """Whether convolutions of ``x`` run in half precision on a GPU, where channels are best last in memory."""
    return x.is_cuda and (torch.is_autocast_enabled("cuda") or x.dtype.itemsize == 2)


def fused(x: Tensor) -> bool:
    """Whether steps that move numbers and hardly compute are kernels of their own; they count samples in 32 bits."""
    return halved(x) and x.numel() < 2**31 and implementation(x, fused=True, plain=False) == "triton"


def format_of(x: Tensor) -> torch.memory_format:
    """Channels last if images ``(B, C, H, W)`` lie so and no other way, else channels first: as kernels read them.

    >>> format_of(torch.rand(2, 3, 4, 4)), format_of(torch.rand(2, 4, 4, 3).permute(0, 3, 1, 2))
    (torch.contiguous_format, torch.channels_last)
    """
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format
