"""Constant matrices, computed once in double precision and kept for each dtype and device.

Each constant is a function of integers and names decorated with :func:`constant`; calling it with a dtype and a device
in addition gives the cached tensor. Nothing here is ever saved in a ``state_dict``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

_Cached = TypeVar("_Cached", bound=Any)
_Made = TypeVar("_Made")


class _Store:
    """The cached tensors, one attribute each: ``torch.compile`` looks attributes up one by one."""


_STORE = _Store()
_LIMIT = 4096  # entries; a net of ten levels and a few resolutions needs about a hundred


def made_apart(build: Callable[..., _Made], *arguments: Any) -> _Made:
    """``build(*arguments)`` with ordinary tensors, whatever the caller is doing.

    The modes of torch (inference, export, vmap, a default device) belong to a thread: this one is its own.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(build, *arguments).result()


def constant(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Cache ``build(*key)``, a float64 tensor on the CPU, for each ``(*key, dtype, device)``."""

    def make(arguments: tuple[int | str, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return build(*arguments).to(dtype=dtype, device=device)

    def place(arguments: tuple[int | str, ...], dtype: torch.dtype, device: torch.device) -> str:
        """Name under which the constant is stored, after making sure that it is."""
        name = _attribute(build.__name__, arguments, dtype, device)
        if not hasattr(_STORE, name):
            if len(vars(_STORE)) >= _LIMIT:
                clear_constants()
            setattr(_STORE, name, made_apart(make, arguments, dtype, device))
        return name

    # What torch.compiler.assume_constant_result sets: while the compiler traces, place runs as it is and its result is
    # a constant of the graph. Calling that function would import the whole compiler, which takes longer than torch.
    place._dynamo_marked_constant = True  # type: ignore[attr-defined]

    @functools.wraps(build)
    def cached(*key: Any) -> Tensor:
        *rest, dtype, device = key
        # index: while the compiler traces, a size becomes a constant of the graph
        arguments = tuple(n if isinstance(n, str) else operator.index(n) for n in rest)
        found: Tensor = getattr(_STORE, place(arguments, dtype, device))
        return found

    return cached


@functools.lru_cache(_LIMIT)
def _attribute(*key: Any) -> str:
    """A name for an attribute; unlike keys have unlike ones."""
    return re.sub(r"\W", lambda sign: f"_{ord(sign[0]):x}_", "_".join(map(str, key)))


_CACHES: list[Callable[[], None]] = []


def forgotten_with_constants(cached: _Cached) -> _Cached:
    """Let :func:`clear_constants` clear this ``functools.lru_cache`` too, which holds constants."""
    _CACHES.append(cached.cache_clear)
    return cached


def clear_constants() -> None:
    """Drop every cached constant, for example to give back GPU memory after working at many sizes."""
    vars(_STORE).clear()
    for clear in _CACHES:
        clear()
