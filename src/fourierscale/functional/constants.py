"""Constants, computed once and kept until :func:`clear_constants`: the one cache of this library that holds tensors.

A matrix is a function of integers and names decorated with :func:`constant`, computed in double precision; calling it
with a dtype and a device in addition gives the cached tensor. Whatever is made of such matrices is :func:`kept` by its
arguments. Nothing here is ever saved in a ``state_dict``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

_P = ParamSpec("_P")
_Made = TypeVar("_Made")

_CACHES: list[Any] = []


class _Traced:
    """Constants that ``torch.compile`` has met, one attribute each: it looks attributes up one by one."""


_TRACED = _Traced()


def kept(build: Callable[_P, _Made]) -> Callable[_P, _Made]:
    """Keep ``build(*key)`` for the keys of late, until :func:`clear_constants`; threads may clear and ask at once."""
    cached = functools.lru_cache(1024)(build)  # a net of ten levels and a few resolutions needs about a hundred
    _CACHES.append(cached)
    return cached  # type: ignore[return-value]


def constant(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Keep ``build(*key)``, a float64 tensor on the CPU, for each ``(*key, dtype, device)``."""

    @kept
    def make(arguments: tuple[int | str, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return made_apart(lambda: build(*arguments).to(dtype=dtype, device=device))

    def place(arguments: tuple[int | str, ...], dtype: torch.dtype, device: torch.device) -> str:
        """Name of the attribute that holds the constant, after making sure that one does."""
        key = "_".join(map(str, (build.__name__, arguments, dtype, device)))
        name = re.sub(r"\W", lambda sign: f"_{ord(sign[0]):x}_", key)  # unlike keys have unlike names
        setattr(_TRACED, name, make(arguments, dtype, device))
        return name

    # What torch.compiler.assume_constant_result sets: while the compiler traces, place runs as it is and its result is
    # a constant of the graph. Calling that function would import the whole compiler, which takes longer than torch.
    place._dynamo_marked_constant = True  # type: ignore[attr-defined]

    @functools.wraps(build)
    def cached(*key: Any) -> Tensor:
        *rest, dtype, device = key
        # index: while the compiler traces, a size becomes a constant of the graph
        arguments = tuple(n if isinstance(n, str) else operator.index(n) for n in rest)
        if torch.compiler.is_dynamo_compiling():
            found: Tensor = getattr(_TRACED, place(arguments, dtype, device))
            return found
        return make(arguments, dtype, device)

    return cached


def made_apart(build: Callable[[], _Made]) -> _Made:
    """``build()`` with ordinary tensors, whatever the caller is doing.

    The modes of torch (inference, export, vmap, a default device) belong to a thread: this one is its own.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(build).result()


def clear_constants() -> None:
    """Drop every cached constant, for example to give back GPU memory after working at many sizes."""
    vars(_TRACED).clear()
    for cached in _CACHES:
        cached.cache_clear()
