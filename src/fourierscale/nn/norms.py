"""Batch norm with statistics of each level: a constant in evaluation, and exact there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fourierscale.functional.constants import constant
from fourierscale.functional.norms import LevelAffine
from fourierscale.nn.checks import positive


@dataclass(frozen=True, kw_only=True)
class BatchNorm:
    """Options of a batch norm per level."""

    eps: float = 1e-5
    """Added to the variance."""
    momentum: float = 0.1
    """Share of a batch in the running averages; a level's first batches count alike until they would count less."""
    per_level: bool = False
    """Whether each level has a scale and a shift of its own; if not, one pair per channel serves all levels."""
    synchronised: bool = False
    """Whether processes that train together (``torch.distributed``) share their statistics."""

    def __post_init__(self) -> None:
        if not 0 < self.momentum <= 1:
            raise ValueError(f"momentum must be above 0 and at most 1, got {self.momentum}")
        if not self.eps > 0:
            raise ValueError(f"eps must be above 0, got {self.eps}")


class LevelBatchNorm(nn.Module):
    """What a batch norm per level knows: its parameters, and moments of each level and channel.

    A layer gives the moments of the levels of its input (:meth:`batch`, in training) or asks for the running ones
    (:meth:`running`, in evaluation) and is told the scale and the shift of each row, :class:`LevelAffine`. A row is a
    level of the set; which one a level of an input uses follows from its band alone (``Levels.index``). Levels that use
    the same row are normalised together.

    Args:
        rows: Number of levels with statistics of their own.
        channels: Number of channels.
        options: Momentum, sharing and the like.

    Parameters: ``weight`` and ``bias``, ``(1, channels)`` or ``(rows, channels)``. Buffers: ``running_mean`` and
    ``running_var (rows, channels)``, ``num_batches_tracked (rows,)``.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, rows: int, channels: int, options: BatchNorm) -> None:
        super().__init__()
        self.rows, self.channels, self.options = positive(rows, "rows"), positive(channels, "channels"), options
        own = rows if options.per_level else 1
        self.weight = nn.Parameter(torch.ones(own, channels))
        self.bias = nn.Parameter(torch.zeros(own, channels))
        self.register_buffer("running_mean", torch.zeros(rows, channels))
        self.register_buffer("running_var", torch.ones(rows, channels))
        self.register_buffer("num_batches_tracked", torch.zeros(rows, dtype=torch.long))

    def running(self) -> LevelAffine:
        """Scale and shift from the running averages."""
        return self._affine(self.running_mean, self.running_var)

    def batch(self, mean: Tensor, variance: Tensor, indices: list[int], images: int) -> LevelAffine:
        """Scale and shift from moments of a batch, of which the running averages take their share.

        Args:
            mean: ``(levels, C)`` of an input.
            variance: Likewise, without a correction for the number of samples.
            indices: The row of each of its levels.
            images: How many images they are of.
        """
        # A row is the mixture of the levels and processes that use it: first its mean, then squares around that.
        uses = _uses(self.rows, *indices, mean.dtype, mean.device)
        count = self._sum(images * uses.sum(1))
        share = images / count.clamp(min=1)[:, None]
        means = self._sum(share * (uses @ mean))
        away = variance + (mean - uses.mT @ means).square()
        variances = self._sum(share * (uses @ away))
        with torch.no_grad():
            self._follow(means, variances, count > 0)
        return self._affine(means, variances)

    def _sum(self, x: Tensor) -> Tensor:
        if self.options.synchronised and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            summed: Tensor = _SumOfProcesses.apply(x)  # type: ignore[no-untyped-call]
            return summed
        return x

    def _follow(self, mean: Tensor, variance: Tensor, seen: Tensor) -> None:
        self.num_batches_tracked += seen
        share = (1 / self.num_batches_tracked.clamp(min=1)).clamp(min=self.options.momentum) * seen
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            running.lerp_(now.to(running.dtype), share[:, None].to(running.dtype))

    def _affine(self, mean: Tensor, variance: Tensor) -> LevelAffine:
        scale = self.weight * (variance + self.options.eps).rsqrt()
        return LevelAffine(scale, self.bias - mean * scale)

    def extra_repr(self) -> str:
        """Rows, channels and options, for ``print(model)``."""
        shown = f"per_level={self.options.per_level}, synchronised={self.options.synchronised}"
        return f"{self.rows}, {self.channels}, eps={self.options.eps}, momentum={self.options.momentum}, {shown}"


@constant
def _uses(rows: int, *indices: int) -> Tensor:
    """Which row each level uses, ``(rows, levels)`` of zeros and ones."""
    return (torch.arange(rows)[:, None] == torch.tensor(indices)).double()


class _SumOfProcesses(torch.autograd.Function):
    """The sum over all processes; each adds to the losses of all of them, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        summed = x.contiguous().clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        summed = gradient.contiguous().clone()
        dist.all_reduce(summed)
        return summed
