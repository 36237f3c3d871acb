"""Constant matrices, computed once in double precision and kept for each dtype and device.

Each constant is a function of integers decorated with :func:`constant`; calling it with a dtype and a device in
addition gives the cached tensor. Nothing here is ever saved in a ``state_dict``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _Store:
    """The cached tensors, one attribute each: ``torch.compile`` looks attributes up one by one."""


_STORE = _Store()
_LIMIT = 4096  # entries; a net of ten levels and a few resolutions needs about a hundred


def constant(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Cache ``build(*key)``, a float64 tensor on the CPU, for each ``(*key, dtype, device)``."""

    def make(arguments: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        # An inference tensor in the cache could not be used in training later.
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
            return build(*arguments).to(dtype=dtype, device=device)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def place(*key: Any) -> str:
        """Name under which the constant is stored, after making sure that it is; empty if it cannot be."""
        name = re.sub(r"\W+", "_", f"{build.__name__}{key}")  # an identifier, as the compiler wants it
        if not hasattr(_STORE, name):
            *arguments, dtype, device = key
            found = make(tuple(arguments), dtype, device)
            # While a program is being exported tensors are fake: they must not outlive the tracing.
            if type(found) is not Tensor:
                return ""
            if len(vars(_STORE)) >= _LIMIT:
                clear_constants()
            setattr(_STORE, name, found)
        return name

    @functools.wraps(build)
    def cached(*key: Any) -> Tensor:
        *sizes, dtype, device = key
        arguments = tuple(operator.index(n) for n in sizes)  # index: sizes are constants of a compiled graph
        name = place(*arguments, dtype, device)
        found: Tensor = getattr(_STORE, name) if name else make(arguments, dtype, device)
        return found

    return cached


def clear_constants() -> None:
    """Drop every cached constant, for example to give back GPU memory after working at many sizes."""
    vars(_STORE).clear()
