r"""The cost model: what a case has to compute and to move, beside which its time is read.

Operations are those of the products that the fast twins run, a product and its sum being two:

- mixing: :math:`8 B C C'` per complex frequency of the half plane; the spectrum of the taps, in training alone;
- a level of ``m`` samples per axis: two products to sample it, two for each block of its rim;
- the backward pass computes each level's samples again, then both adjoints; the mixing has two adjoints.

Bytes are the least that a layer can move if everything inside it stays on chip: its input, output and parameters once,
in the backward pass input, both gradients and the gradient of the parameters, four bytes each (bfloat16: two).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional.bands import Box, axis_bands, band, coefficient_bands, grids
from fourierscale.functional.nested import plan_levels
from fourierscale.kernels import backend
from fourierscale.kernels.layout import rim
from fourierscale.kernels.products import PRODUCTS_UP_TO
from fourierscale.lab.bench.cases import PAIR, Case
from fourierscale.lab.bench.contestants import build_ours
from fourierscale.models import ScaleHead
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d

__all__ = ["StepCost", "step_cost"]


@dataclass(frozen=True)
class StepCost:
    """Floating point operations, and bytes that have to be moved."""

    flops: int
    bytes: int

    def __add__(self, other: StepCost) -> StepCost:
        return StepCost(self.flops + other.flops, self.bytes + other.bytes)

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """The floor: the time that the slower of computing and moving takes at these rates."""
        return max(self.flops / flops_per_second, self.bytes / bytes_per_second)


def step_cost(case: Case, device: str = "cpu") -> StepCost:
    """Work of one step of ours.

    >>> from fourierscale.lab.bench.cases import list_cases
    >>> step = step_cost(list_cases("cpu")[0])
    >>> step.flops > 10**9 and step.bytes > 10**7
    True
    """
    seen: list[tuple[nn.Module, Tensor]] = []

    def remember(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.append((module, arguments[0]))

    with torch.device("meta"), torch.no_grad(), backend("torch"):
        model = build_ours(case).eval()
        for module in model.modules():
            if isinstance(module, (LocalFourierConv2d, ScaleActivation2d, ScaleHead)):
                module.register_forward_pre_hook(remember)
        side = grids(axis_bands((case.size,)))[0] if case.model == PAIR else case.size
        model(torch.empty(1, case.channels, side, side))
    total = StepCost(0, 0)
    if case.model != PAIR:
        k = band(case.size)
        total += StepCost(case.batch * case.channels * _image((case.size,) * 2, (k, k), device), 0)
    for module, x in seen:
        total += _layer(module, x, case, device)
    return total


def _layer(module: nn.Module, x: Tensor, case: Case, device: str) -> StepCost:
    if isinstance(module, LocalFourierConv2d):
        work, weights = _conv(module, x, case)
        output = module.out_channels * x.shape[-2] * x.shape[-1]
    elif isinstance(module, ScaleActivation2d):
        work, output = _activation(module, x, case, device)
        weights = sum(p.numel() for p in module.parameters())
    else:
        assert isinstance(module, ScaleHead)
        work = _head(module, x, case, device)
        output, weights = 0, sum(p.numel() for p in module.parameters())
    # forward: input, output, parameters; backward: input, both gradients, the parameters' gradient
    numbers = case.batch * (x.numel() + output) + weights
    if case.train:
        numbers += case.batch * (2 * x.numel() + output) + weights
    return StepCost(work, numbers * (2 if case.precision == "bfloat16" else 4))


def _conv(layer: LocalFourierConv2d, x: Tensor, case: Case) -> tuple[int, int]:
    rows, columns = x.shape[-2:]
    half = band(columns) + 1
    pairs = layer.in_channels * layer.out_channels
    first, second = layer.kernel_size
    mixing = 8 * case.batch * pairs * rows * half
    spectrum = 4 * half * second * first * pairs + 8 * rows * first * half * pairs
    # the spectrum is made once more in the backward pass, and has an adjoint; in inference it is kept, so it is read
    work = 3 * (mixing + spectrum) if case.train else mixing
    weights = pairs * first * second if case.train else 2 * rows * half * pairs
    return work, weights


def _activation(layer: ScaleActivation2d, x: Tensor, case: Case, device: str) -> tuple[int, int]:
    box = coefficient_bands(x, 2)
    synthesis = analysis = 0
    before: Box | None = None
    plan = plan_levels(layer.levels, box, pool=layer.pool, grid=layer.grid, oversample=layer.oversample)
    for level in plan:
        synthesis += _image(level.grid, level.reads, device)
        pooled = tuple(n // layer.pool for n in level.grid)
        for block in rim(level.writes, before):
            analysis += _block(pooled, [stop - start for start, stop in block], device)
        before = level.writes
    each = 3 * synthesis + 2 * analysis if case.train else synthesis + analysis
    return case.batch * layer.channels * each, layer.channels * math.prod(grids(plan[-1].writes))


def _head(head: ScaleHead, x: Tensor, case: Case, device: str) -> int:
    side = head.window * head.cells
    levels = head.levels.of_input(coefficient_bands(x, 2))
    sampled = head.channels * sum(_image((side, side), level, device) for level in levels)
    mlp = 2 * len(levels) * sum(p.numel() for p in head.parameters() if p.ndim == 2)
    work = sampled + mlp
    if case.train:
        work += 2 * mlp + 2 * len(levels) * head.cells**2 * x.numel()
    return case.batch * work


def _image(size: Sequence[int], box: Box, device: str) -> int:
    """One transform of one image between a grid and a band."""
    rows, columns = grids(box)
    return _axis(size[0], rows, columns, device) + _axis(size[1], columns, size[0], device)


def _axis(n: int, k: int, times: int, device: str) -> int:
    """Operations of ``times`` transforms between ``n`` samples and ``k`` coefficients: products, or FFTs if large."""
    each = 2 * n * k if n <= PRODUCTS_UP_TO.get(device, PRODUCTS_UP_TO["cpu"]) else round(2.5 * n * math.log2(n))
    return times * each


def _block(size: Sequence[int], lengths: Sequence[int], device: str) -> int:
    """Analysis of one block of a rim: the axis with fewer coefficients first."""
    a, b = sorted(range(2), key=lambda axis: lengths[axis])
    return _axis(size[a], lengths[a], size[b], device) + _axis(size[b], lengths[b], lengths[a], device)
