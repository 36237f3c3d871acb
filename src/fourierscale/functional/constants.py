"""Constant matrices, computed once in double precision and kept for each dtype and device.

Each constant is a function of integers decorated with :func:`constant`; calling it with a dtype and a device in
addition gives the cached tensor. Nothing here is ever saved in a ``state_dict``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_CACHE: dict[tuple[Any, ...], Tensor] = {}
_LIMIT = 4096  # entries; a net of ten levels and a few resolutions needs about a hundred


def constant(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Cache ``build(*key)``, a float64 tensor on the CPU, for each ``(*key, dtype, device)``.

    Under ``torch.compile`` the result is a constant of the graph.
    """

    def cached(*key: Any) -> Tensor:
        found = _CACHE.get((build.__name__, *key))
        if found is None:
            *arguments, dtype, device = key
            # An inference tensor in the cache could not be used in training later.
            with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
                found = build(*arguments).to(dtype=dtype, device=device)
            # While a program is being exported tensors are fake: they must not outlive the tracing.
            if type(found) is Tensor:
                if len(_CACHE) >= _LIMIT:
                    _CACHE.clear()
                _CACHE[build.__name__, *key] = found
        return found

    functools.update_wrapper(cached, build)
    marked: Callable[..., Tensor] = torch.compiler.assume_constant_result(cached)  # type: ignore[no-untyped-call]
    return marked


def clear_constants() -> None:
    """Drop every cached constant, for example to give back GPU memory after working at many sizes."""
    _CACHE.clear()
