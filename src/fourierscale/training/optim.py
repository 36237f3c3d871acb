"""Optimizers and learning-rate schedules from a config."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from fourierscale.nn import (
    LevelBatchNorm,
    ScaleActivation1d,
    ScaleActivation2d,
    ScaleActivation3d,
    ScaleMerge1d,
    ScaleMerge2d,
    ScaleMerge3d,
)
from fourierscale.training.config import OptimConfig

__all__ = ["lr_factor", "make_optimizer", "parameter_groups"]

# norms of the levels have one weight per level and channel: two axes, but not a matrix
NOT_MATRICES = (
    ScaleActivation1d,
    ScaleActivation2d,
    ScaleActivation3d,
    ScaleMerge1d,
    ScaleMerge2d,
    ScaleMerge3d,
    LevelBatchNorm,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.modules.batchnorm._NormBase,
)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: matrices (weights of two axes or more), which decay, and norms, biases and scalars, which do not."""
    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    seen: set[int] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                matrix = parameter.ndim >= 2 and name != "bias" and not isinstance(module, NOT_MATRICES)
                groups[0 if matrix else 1].append(parameter)
    return [{"params": groups[0], "weight_decay": weight_decay}, {"params": groups[1], "weight_decay": 0.0}]


def make_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """AdamW or Adam on :func:`parameter_groups`, in one kernel where all parameters are on a GPU."""
    kind: type[torch.optim.Adam] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[config.name]
    groups = [group for group in parameter_groups(model, config.weight_decay) if group["params"]]
    on_gpu = all(parameter.is_cuda for group in groups for parameter in group["params"])
    # Lightning clips no gradients of a fused optimizer in mixed precision
    fused = True if on_gpu and config.grad_clip == 0 else None
    return kind(groups, lr=config.lr, betas=config.betas, fused=fused)


def lr_factor(step: int, steps: int, steps_per_epoch: int, config: OptimConfig) -> float:
    """Learning rate of a step, relative to the highest.

    Args:
        step: Number of the step, from 0.
        steps: Steps of the whole run.
        steps_per_epoch: Steps of an epoch.
        config: Names the schedule.

    >>> config = OptimConfig(schedule="cosine", warmup=0.2)
    >>> [round(lr_factor(step, 10, 5, config), 2) for step in range(10)]
    [0.5, 1.0, 0.97, 0.88, 0.75, 0.59, 0.41, 0.25, 0.12, 0.03]
    """
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "step":
        return float(config.gamma ** (step // steps_per_epoch // config.step_size))
    done = min(step, steps) / steps
    if config.schedule == "onecycle":
        first, last, rise = 1 / 25, 1 / 250_000, 0.3
        if done < rise:
            return _cosine(first, 1.0, done / rise)
        return _cosine(1.0, last, (done - rise) / (1 - rise))
    rising = math.ceil(config.warmup * steps)
    if step < rising:
        return (step + 1) / rising
    return _cosine(1.0, 0.0, min(1.0, (step - rising + 1) / (steps - rising + 1)))


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
