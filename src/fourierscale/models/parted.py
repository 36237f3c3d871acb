"""Ordinary stages behind exact ones: they see each level by itself, as samples on one grid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fourierscale.functional.nested import PoolKind, pool_samples
from fourierscale.kernels import ACTIVATIONS
from fourierscale.nn.nested import Norm
from fourierscale.nn.norms import BatchNorm, LevelBatchNorm

POOL = 2


class SampleActivation(nn.Module):
    """Norm with statistics of each level, activation and pooling, on samples ``(levels, B, C, n, n)``."""

    def __init__(
        self, channels: int, rows: int, activation: str, norm: Norm | BatchNorm, window: int, pool_kind: PoolKind
    ) -> None:
        super().__init__()
        options = BatchNorm() if norm == "batch" else norm
        self.batch_norm = LevelBatchNorm(rows, channels, options) if isinstance(options, BatchNorm) else None
        self.instance_norm = nn.InstanceNorm2d(channels, affine=True) if norm == "instance" else None
        self.function = ACTIVATIONS[activation].function
        self.window, self.pool_kind = window, pool_kind

    def forward(self, x: Tensor, rows: list[int]) -> Tensor:
        """Samples, and the row of parameters that each level uses."""
        if self.batch_norm is not None:
            norm = self.batch_norm
            if self.training:
                variance, mean = torch.var_mean(x.float() if x.dtype.itemsize < 4 else x, (1, 3, 4), correction=0)
                affine = norm.batch(mean, variance, rows, x.shape[1])
            else:
                affine = norm.running()
            scale, shift = (
                torch.stack([table[row] for row in rows])[:, None, :, None, None].to(x.dtype)
                for table in (affine.scale, affine.shift)
            )
            x = x * scale + shift
        elif self.instance_norm is not None:
            x = torch.unflatten(self.instance_norm(x.flatten(0, 1)), 0, x.shape[:2])
        return pool_samples(self.function(x), self.window, self.pool_kind)


class _Block(nn.Module):
    """A pre-activation block; the first one behind the exact stages finds its input activated."""

    def __init__(self, first: SampleActivation | None, second: SampleActivation, channels: int, width: int) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.conv1, self.conv2 = _conv(channels, width, 3), _conv(width, width, 3)
        changes = channels != width or first is None or first.window > 1
        self.shortcut = _conv(channels, width, 1) if changes else None

    def forward(self, x: Tensor, rows: list[int]) -> Tensor:
        h = x if self.first is None else self.first(x, rows)
        y = _each(self.conv2, self.second(_each(self.conv1, h), rows))
        return y + (x if self.shortcut is None else _each(self.shortcut, h))


class PartedStages(nn.Module):
    """Stages of ordinary pre-activation blocks, with zero padding and a norm per level.

    Args:
        channels: Channels of the features behind the exact stages.
        widths: Channels of each stage.
        blocks: Blocks of each stage.
        rows: How many levels have statistics of their own.
        stem: Whether no stage is exact: a stem comes first, and the first block activates its input.
        activation: Name of the activation.
        norm: As :class:`fourierscale.nn.ScaleActivation2d` takes it.
        pool_kind: How stages pool.
    """

    def __init__(
        self,
        channels: int,
        widths: Sequence[int],
        blocks: Sequence[int],
        rows: int,
        *,
        stem: bool,
        activation: str,
        norm: Norm | BatchNorm,
        pool_kind: PoolKind = "max",
    ) -> None:
        super().__init__()

        def activate(channels: int, window: int = 1) -> SampleActivation:
            return SampleActivation(channels, rows, activation, norm, window, pool_kind)

        self.stem = _conv(channels, widths[0], 3) if stem else None
        channels = widths[0] if stem else channels
        parts: list[_Block] = []
        for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
            for block in range(count):
                window = POOL if stage > 0 and block == 0 else 1
                first = activate(channels, window) if stem or stage > 0 or block > 0 else None
                parts.append(_Block(first, activate(width), channels, width))
                channels = width
        self.blocks = nn.ModuleList(parts)
        self.last = activate(channels)
        self.out_channels = channels
        self.rate = POOL ** (len(widths) - 1)
        init_taps(self)

    def forward(self, x: Tensor, rows: list[int]) -> Tensor:
        """Samples ``(levels, B, C, n, n)`` to ``(levels, B, C', n / rate, n / rate)``."""
        if self.stem is not None:
            x = _each(self.stem, x)
        for block in self.blocks:
            x = block(x, rows)
        features: Tensor = self.last(x, rows)
        return features


def init_taps(net: nn.Module) -> None:
    """Draw the taps of all convolutions for a residual net: He's, by the number of outputs."""
    for layer in net.modules():
        weight = getattr(layer, "weight", None)
        if isinstance(weight, nn.Parameter) and weight.ndim == 4:
            nn.init.kaiming_normal_(weight, mode="fan_out")


def _conv(inputs: int, outputs: int, taps: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, taps, padding=taps // 2, bias=False)


def _each(conv: nn.Module, x: Tensor) -> Tensor:
    return torch.unflatten(conv(x.flatten(0, 1)), 0, x.shape[:2])
