r"""The paper's classifier (its Sec. 4.2): one logit vector per level, the prediction being the highest level's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from fourierscale import kernels
from fourierscale.functional.bands import Boundary, Box, axis_bands, check_boundary, inside
from fourierscale.functional.constants import constant
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import HeadPool, pool_cells
from fourierscale.functional.resample import corner
from fourierscale.functional.transform import full_precision, synthesize
from fourierscale.models.contract import ImageModel, names_of_levels
from fourierscale.models.layers import ExactNet
from fourierscale.models.parted import PartedStages
from fourierscale.nn import NestedModel
from fourierscale.nn.checks import check_coefficients, choice, positive

Head: TypeAlias = Literal["plain", "temperature", "cumulative", "average"]
"""How the levels' outputs become logits; see :class:`ScaleHead`."""


def head_layers(features: int, hidden: int, classes: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The MLP of a head in two parts; dropout goes between them."""
    inner = nn.Sequential(nn.LayerNorm(features), nn.Linear(features, hidden))
    return inner, nn.Sequential(nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, classes))


class ScaleHead(nn.Module):
    r"""Coefficients to one logit vector per level of the input.

    For every level: crop the features to it, sample them on one fixed grid, pool to ``cells`` x ``cells``, and apply
    an MLP shared by all levels. With :math:`f_k` the MLP's output at level :math:`k`, learned scalars :math:`p_j` and
    :math:`\tau_k = \sum_{j \le k} \mathrm{softplus}(p_j)`, the logits are

    - ``"plain"``: :math:`f_k`, the paper's head;
    - ``"temperature"``: :math:`\tau_k f_k`;
    - ``"cumulative"``: :math:`\sum_{j \le k} \mathrm{softplus}(p_j) f_j`;
    - ``"average"``: :math:`\tau_k \, \mathrm{mean}_{j \le k} f_j`.

    The sums run over the levels inside :math:`k`: all coarser ones, or, where each axis has levels of its own, those
    that are no finer on any axis. Each depends on what the image has up to :math:`k` alone, so the logits of level
    :math:`k` of a large image are exactly those of the image downscaled to :math:`k`.

    Args:
        channels: Channels of the features.
        classes: Number of classes.
        resolutions: The features' resolutions.
        head: One of the four above.
        hidden: Width of the MLP.
        dropout: Dropout behind the hidden layer, one mask for all levels of an image.
        cells: Side of the grid of pooled features.
        pool_kind: ``"max"``, ``"average"``, or ``"both"``: maxima and means side by side.
        boundary: That of the net: cells lie on the image, not on what lies beyond its edge.
        stages: Ordinary stages that see each level's samples before they are pooled, of a net that is exact only up
            to here (:meth:`fourierscale.models.ScaleResNet.parted`).
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        resolutions: Resolutions,
        head: Head = "plain",
        hidden: int = 256,
        dropout: float = 0.75,
        cells: int = 2,
        pool_kind: HeadPool = "max",
        boundary: Boundary = "circular",
        stages: PartedStages | None = None,
    ) -> None:
        super().__init__()
        choice(head, get_args(Head), "head")
        choice(pool_kind, get_args(HeadPool), "pooling")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        self.levels = Levels(resolutions)
        self.channels = positive(channels, "channels")
        self.classes = positive(classes, "classes")
        self.head: Head = head
        self.dropout = dropout
        self.cells = positive(cells, "cells")
        self.pool_kind: HeadPool = pool_kind
        self.boundary = check_boundary(boundary)
        hidden = positive(hidden, "hidden")
        self.stages = stages
        rate, out = (1, channels) if stages is None else (stages.rate, stages.out_channels)
        self.window = -(-inside(max(self.levels.highest), boundary) // (cells * rate))
        pooled = out * cells**2 * (2 if pool_kind == "both" else 1)
        self.inner, self.outer = head_layers(pooled, hidden, classes)
        self.steps = nn.Parameter(torch.zeros(len(self.levels))) if head != "plain" else None

    def forward(self, coeffs: Tensor) -> Tensor:
        """Coefficients ``(B, C, 2K+1, 2K+1)`` to logits ``(B, levels, classes)``, coarse to fine."""
        box = check_coefficients(coeffs, 2, self.channels, type(self).__name__)
        levels = self.levels.of_input(box)
        pooled = self._pooled(coeffs, levels)
        with full_precision(coeffs):  # too small to be worth losing digits
            return self._logits(pooled.to(next(self.inner.parameters()).dtype), levels)

    def _logits(self, pooled: Tensor, levels: tuple[Box, ...]) -> Tensor:
        hidden = self.inner(pooled)
        if self.training and self.dropout > 0:
            # One mask for all levels, so that dropout does not disturb the order of their losses.
            hidden = hidden * nn.functional.dropout(torch.ones_like(hidden[:, :1]), self.dropout)
        outputs: Tensor = self.outer(hidden)  # (B, L, classes)
        if self.steps is None:
            return outputs
        positive_steps = nn.functional.softplus(self.steps)
        steps = torch.stack([positive_steps[self.levels.index(level)] for level in levels])[:, None]  # (L, 1)
        inside = _levels_inside(len(levels[0]), *(k for level in levels for k in level), outputs.dtype, outputs.device)
        if self.head == "cumulative":
            return inside @ (steps * outputs)
        total = inside @ steps
        if self.head == "temperature":
            return total * outputs
        return total * (inside @ outputs) / inside.sum(1, keepdim=True)

    def _pooled(self, coeffs: Tensor, levels: tuple[Box, ...]) -> Tensor:
        """Pooled features of every level, ``(B, L, C * cells^2)``."""
        if self.stages is None:
            return kernels.level_pool(coeffs, levels, self.window, self.cells, self.pool_kind, self.boundary)
        side = self.window * self.cells * self.stages.rate
        samples = torch.stack([synthesize(coeffs[corner(box)], side, self.boundary) for box in levels])
        maps = self.stages(samples, [self.levels.index(box) for box in levels])  # (L, B, C, n, n)
        return pool_cells(maps, self.window, self.pool_kind).transpose(0, 1)

    def extra_repr(self) -> str:
        """Levels and options, for ``print(model)``."""
        return f"{self.levels!r}, head={self.head!r}, dropout={self.dropout}, cells={self.cells}"


@constant
def _levels_inside(axes: int, *bands: int) -> Tensor:
    """Which levels lie inside each, ``(L, L)`` of zeros and ones: on no axis finer."""
    levels = torch.tensor(bands, dtype=torch.float64).view(-1, axes)
    return (levels[None] <= levels[:, None]).all(-1).double()


class ScaleClassifier(ImageModel):
    """Classify images of any resolution: a net that gives coefficients, and a :class:`ScaleHead`.

    Args:
        net: A :class:`ScaleNet`, a :class:`ScaleResNet`, or a :class:`fourierscale.nn.NestedModel` whose domain is
            ``"coefficients"``.
        head: The head.

    >>> from fourierscale.models import ScaleNet
    >>> net = ScaleNet(1, [4, 8], range(8, 17))
    >>> model = ScaleClassifier(net, ScaleHead(8, 10, net.out_levels))
    >>> model(torch.rand(2, 1, 16, 16)).shape  # bands 3 to 7: five levels
    torch.Size([2, 5, 10])
    >>> model.level_names(16)
    ['8', '9, 10', '11, 12', '13, 14', '15, 16']
    """

    domain = "coefficients"

    def __init__(self, net: ExactNet | NestedModel, head: ScaleHead) -> None:
        super().__init__()
        if net.boundary != head.boundary:
            raise ValueError(
                f"the net's boundary is {net.boundary!r}, the head's {head.boundary!r}: give both the same"
            )
        self.net = net
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to logits ``(B, levels, classes)``, coarse to fine; the last is the prediction."""
        return self.features_and_logits(x)[1]

    def features(self, x: Tensor) -> Tensor:
        """Coefficients of the final feature map, on which the equivariance error is measured."""
        features: Tensor = self.net(x)
        return features

    def features_and_logits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients of the features, and logits ``(B, levels, classes)``, from one pass."""
        features = self.net(x)
        return features, self.head(features)

    @property
    def levels(self) -> Levels:
        """The resolutions at which it is exact."""
        return self.net.levels

    def level_bands(self, size: Sequence[int]) -> list[Box]:
        """Band of the image at each level of the logits, coarse to fine, for images of this size.

        Bands that pooling maps to the same band of the features are one level, named by the lowest of them.
        """
        seen: dict[Box, Box] = {}
        for level in self.levels.periods(self.boundary).of_input(axis_bands(size, self.boundary)):
            seen.setdefault(tuple(k // self.net.rate for k in level), level)
        return list(seen.values())

    def level_names(self, size: int) -> list[str]:
        """The resolutions of the set that each level of the logits answers for, and the image's own at the last.

        Resolutions share a level where a grid holds no more of one than of the other, or where pooling merges them.
        """
        return names_of_levels(self.levels, self.level_bands, size, self.boundary)
