"""Tensors that a baseline is built around but does not learn: made once, in double precision, kept as buffers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import torch
from torch import Tensor, nn

from fourierscale.functional.constants import kept

__all__ = ["add_fixed", "fixed"]

P = ParamSpec("P")


def fixed(build: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Make ``build(*key)`` once for each key, as an ordinary tensor of the CPU whatever modes the caller is in."""

    @kept
    def cached(*key: P.args, **options: P.kwargs) -> Tensor:
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
            return build(*key, **options)

    return functools.update_wrapper(cached, build)


def add_fixed(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Give a module its own copy, in the default dtype and on the default device; it is not saved with the weights."""
    copied = tensor.to(torch.get_default_device(), torch.get_default_dtype(), copy=True)
    module.register_buffer(name, copied, persistent=False)
