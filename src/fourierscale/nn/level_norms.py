"""Batch norms with statistics of each level of its own, for a model that sees every level of an image in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["LevelIndex", "LevelNorm", "give_levels_norms"]

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class LevelIndex:
    """Which level a model is looking at; its norms share one of these."""

    def __init__(self) -> None:
        self.now = 0


class LevelNorm(nn.Module):
    """A batch norm whose statistics belong to one level each; scale and shift are shared by all levels.

    In evaluation it is a constant affine map for each level, so what a level writes still depends on that level alone.
    The weights of the norm that it replaces load into it: its statistics go to every level.

    Args:
        norm: The norm to replace; its parameters are taken over, not copied.
        levels: How many levels there are.
        level: Says which one is next.
    """

    def __init__(self, norm: _BatchNorm, levels: int, level: LevelIndex) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self.eps, self.momentum, self.level = norm.eps, norm.momentum, level
        for name in STATISTICS:
            self.register_buffer(name, getattr(norm, name).expand(levels, *getattr(norm, name).shape).clone())

    def forward(self, x: Tensor) -> Tensor:
        """Normalise with the statistics of the batch in training, with the running ones of the level in evaluation."""
        mean, var, count = (getattr(self, name)[self.level.now] for name in STATISTICS)
        momentum = self.momentum
        if self.training:
            count.add_(1)
            momentum = 1.0 / float(count) if momentum is None else momentum
        return F.batch_norm(x, mean, var, self.weight, self.bias, self.training, momentum or 0.0, self.eps)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in STATISTICS:
            given, own = state_dict.get(prefix + name), getattr(self, name)
            if isinstance(given, Tensor) and given.ndim == own.ndim - 1:  # of a norm without levels
                state_dict[prefix + name] = given.expand_as(own)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        """Levels and channels."""
        levels, channels = self.get_buffer("running_mean").shape
        return f"{channels}, levels={levels}, eps={self.eps}, momentum={self.momentum}"


def give_levels_norms(model: nn.Module, levels: int, level: LevelIndex) -> nn.Module:
    """Replace every batch norm of a model by a :class:`LevelNorm`, in place; returns the model.

    >>> net = give_levels_norms(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), 7, LevelIndex())
    >>> net[1].running_mean.shape
    torch.Size([7, 8])
    """
    if isinstance(model, _BatchNorm):
        return LevelNorm(_convertible(model), levels, level)
    replaced: Mapping[nn.Module, LevelNorm] = {
        part: LevelNorm(_convertible(part), levels, level) for part in model.modules() if isinstance(part, _BatchNorm)
    }
    for part in model.modules():
        for name, child in part._modules.items():
            if child is not None and child in replaced:
                part._modules[name] = replaced[child]
    return model


def _convertible(norm: _BatchNorm) -> _BatchNorm:
    if isinstance(norm, nn.SyncBatchNorm) or not norm.track_running_stats or norm.running_mean is None:
        raise ValueError(
            f"norms='level' takes batch norms with running statistics that are not synchronised, got {norm}: keep "
            "norms='shared'"
        )
    return norm
