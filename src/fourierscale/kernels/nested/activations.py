"""The table of activations: an entry here is all that a new one needs.

Without Triton code an activation runs as products on GPUs too, without a gradient it runs as the specification, and a
callable that is in no entry always does. An entry may also be added from outside, ``ACTIVATIONS["mish"] = ...``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import triton.language as tl


class Activation(NamedTuple):
    """An element-wise function, and what is known about it."""

    function: Callable[[Tensor], Tensor]
    """The definition."""
    also: tuple[Callable[[Tensor], Tensor], ...] = ()
    """The same function under other names: whoever gives one of them is given the fast path too."""
    overwriting: Callable[[Tensor], Tensor] | None = None
    """The same function, which may overwrite its argument."""
    backward: Callable[[Tensor, Tensor], Tensor] | None = None
    """From the gradient ``g`` of the output, which it may overwrite, and the input ``z`` to that of the input."""
    triton: Callable[..., Any] | None = None
    """``(z, g, BACKWARD)``: the value at ``z``, or with ``BACKWARD`` the gradient there from that of the value, ``g``.

    Triton compiles it, in whose language ``tl`` is; :func:`triton_code` sees to that name."""


def name_of(activation: str | Callable[[Tensor], Tensor]) -> str | None:
    """The name under which an activation is in the table, if it is.

    >>> name_of(torch.relu), name_of(torch.nn.functional.relu), name_of(torch.sin)
    ('relu', 'relu', None)
    """
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
        return activation
    for name, entry in ACTIVATIONS.items():
        if activation is entry.function or any(activation is other for other in entry.also):
            return name
    return None


@functools.cache
def triton_code(function: Callable[..., Any]) -> Any:
    """What kernels are given of an entry; made when it is first used, as importing Triton takes its time."""
    import triton

    function.__globals__.setdefault("tl", triton.language)
    return triton.jit(function)


def _relu(z, g, BACKWARD):
    if BACKWARD:
        return tl.where(z > 0, g, 0.0)
    return tl.maximum(z, 0.0)


def _leaky_relu(z, g, BACKWARD):
    if BACKWARD:
        return tl.where(z > 0, g, 0.01 * g)
    return tl.where(z > 0, z, 0.01 * z)


def _gelu(z, g, BACKWARD):
    if BACKWARD:
        normal = 0.3989422804014327 * tl.exp(-0.5 * z * z)
        return g * (0.5 * (1 + tl.erf(z * 0.7071067811865476)) + z * normal)
    return 0.5 * z * (1 + tl.erf(z * 0.7071067811865476))


def _silu(z, g, BACKWARD):
    s = tl.sigmoid(z)
    if BACKWARD:
        return g * s * (1 + z * (1 - s))
    return z * s


def _tanh(z, g, BACKWARD):
    t = 2 * tl.sigmoid(2 * z) - 1
    if BACKWARD:
        return g * (1 - t * t)
    return t


def _identity(z, g, BACKWARD):
    if BACKWARD:
        return g
    return z


_aten = torch.ops.aten

ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(
        torch.relu,
        also=(nn.functional.relu,),
        overwriting=torch.relu_,
        backward=lambda g, z: _aten.threshold_backward(g, z, 0, grad_input=g),
        triton=_relu,
    ),
    "gelu": Activation(nn.functional.gelu, backward=lambda g, z: _aten.gelu_backward(g, z), triton=_gelu),
    "silu": Activation(nn.functional.silu, backward=lambda g, z: _aten.silu_backward(g, z), triton=_silu),
    "tanh": Activation(
        torch.tanh,
        also=(nn.functional.tanh,),
        overwriting=torch.tanh_,
        backward=lambda g, z: _aten.tanh_backward(g, torch.tanh(z)),
        triton=_tanh,
    ),
    "leaky_relu": Activation(
        nn.functional.leaky_relu,
        overwriting=nn.functional.leaky_relu_,
        backward=lambda g, z: _aten.leaky_relu_backward(g, z, 0.01, False),
        triton=_leaky_relu,
    ),
    "identity": Activation(torch.clone, overwriting=lambda z: z, backward=lambda g, z: g, triton=_identity),
}
"""Activations by name."""
