"""What happens to samples of a level, ``(S, n_1, ..., n_d, q)``: pooling, and the adjoint of it and the activation."""

from __future__ import annotations

import torch
from torch import Tensor

from fourierscale.functional.nested import Pooling
from fourierscale.kernels.nested.activations import ACTIVATIONS
from fourierscale.kernels.nested.task import Task


def pool_shares(p: Tensor, pool: Pooling) -> Tensor:
    """Pool every axis of samples."""
    for axis in range(1, p.ndim - 1 if pool.window > 1 else 1):
        windows = torch.unflatten(p, axis, (-1, pool.window))
        p = _largest(windows, axis + 1) if pool.kind == "max" else windows.mean(axis + 1)
    return p.contiguous()


def _largest(windows: Tensor, axis: int) -> Tensor:
    """The maximum along an axis; of two it is a sum's work, of more a reduction."""
    return torch.maximum(*windows.unbind(axis)) if windows.shape[axis] == 2 else windows.amax(axis)


def activation_adjoint(dp: Tensor, z: Tensor, task: Task) -> Tensor:
    """From the gradient of the pooled samples, which it may overwrite, to that of the samples ``z``."""
    entry, window, average = ACTIVATIONS[task.activation], task.pool.window, task.pool.kind == "average"
    assert entry.backward is not None
    if window == 1:
        return entry.backward(dp, z)
    stages = [entry.function(z)]
    for axis in range(1, z.ndim - 2):
        windows = torch.unflatten(stages[-1], axis, (-1, window))
        stages.append(stages[0] if average else _largest(windows, axis + 1))
    for axis in reversed(range(1, z.ndim - 1)):
        if average:
            dp = dp.repeat_interleave(window, axis) / window
            continue
        windows = torch.unflatten(stages[axis - 1], axis, (-1, window))
        if window == 2:  # equal samples share, as torch.maximum does it
            first, second = windows.unbind(axis + 1)
            share = (first - second).sign_().add_(1).mul_(0.5)
            both = torch.empty_like(windows)
            torch.mul(dp, share, out=both.select(axis + 1, 0))
            torch.sub(dp, both.select(axis + 1, 0), out=both.select(axis + 1, 1))
            dp = both.flatten(axis, axis + 1)
            continue
        hit = windows == windows.amax(axis + 1, keepdim=True)
        share = dp.unsqueeze(axis + 1) / hit.sum(axis + 1, keepdim=True)  # equal samples share, as torch.amax does it
        dp = (hit * share).flatten(axis, axis + 1)
    return entry.backward(dp, z)
