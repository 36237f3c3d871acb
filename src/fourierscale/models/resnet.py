"""A plain residual net of today for photographs: bare, made consistent, or made exact by one nested map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fourierscale.functional.bands import Box
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import HeadPool
from fourierscale.functional.transform import full_precision
from fourierscale.models.classifier import ScaleClassifier, ScaleHead, head_layers
from fourierscale.models.contract import ImageModel, names_of_levels
from fourierscale.nn.checks import choice
from fourierscale.nn.nested_model import NestedModel, Statistics

__all__ = ["Made", "PerLevelClassifier", "ResidualBody", "ResidualNet", "ResidualTrunk", "residual_classifier"]

Made: TypeAlias = Literal["bare", "bare-every-size", "consistent", "exact"]
"""What is made of a plain net; see :func:`residual_classifier`."""

POOLS: dict[str, Callable[[Tensor, int], Tensor]] = {"max": F.adaptive_max_pool2d, "average": F.adaptive_avg_pool2d}


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, each behind batch norm and ReLU, and a shortcut; the first ReLU may be pooled."""

    def __init__(self, in_channels: int, out_channels: int, pool: int = 1) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(in_channels), nn.BatchNorm2d(out_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        changes = pool > 1 or in_channels != out_channels
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1, bias=False) if changes else None
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        """Maps to maps, ``pool`` times smaller."""
        h = F.relu(self.norm1(x))
        if self.pool > 1:
            h = F.max_pool2d(h, self.pool)
        y: Tensor = self.conv2(F.relu(self.norm2(self.conv1(h))))
        return y + (x if self.shortcut is None else self.shortcut(h))


class ResidualTrunk(nn.Module):
    """A 3x3 stem and stages of pre-activation blocks; every stage but the first begins by pooling by 2.

    Args:
        in_channels: Channels of the image.
        widths: Channels of each stage.
        blocks: Blocks in a stage.

    >>> ResidualTrunk(3, [8, 16])(torch.rand(1, 3, 48, 48)).shape
    torch.Size([1, 16, 24, 24])
    """

    def __init__(self, in_channels: int, widths: Sequence[int], blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, widths[0], 3, padding=1, bias=False)
        stages, channels = [], widths[0]
        for number, width in enumerate(widths):
            for block in range(blocks):
                stages.append(ResidualBlock(channels, width, pool=2 if number and not block else 1))
                channels = width
        self.blocks = nn.Sequential(*stages)
        self.norm = nn.BatchNorm2d(channels)
        self.out_channels, self.rate = channels, 2 ** (len(widths) - 1)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        """Images to maps, ``rate`` times smaller."""
        return F.relu(self.norm(self.blocks(self.stem(x))))


class ResidualBody(nn.Module):
    """A trunk, the maxima and means of its maps in a few cells, and the first layer of an MLP: images to vectors.

    Args:
        trunk: Images to maps.
        hidden: Length of the vectors.
        cells: Side of the grid of pooled features.
        pool: ``"max"``, ``"average"`` or ``"both"``.
    """

    def __init__(self, trunk: ResidualTrunk, hidden: int = 256, cells: int = 2, pool: HeadPool = "both") -> None:
        super().__init__()
        choice(pool, get_args(HeadPool), "pooling")
        self.trunk, self.cells = trunk, cells
        self.ways = [way for name, way in POOLS.items() if pool in (name, "both")]
        self.inner = head_layers(trunk.out_channels * cells**2 * len(self.ways), hidden, 1)[0]

    def forward(self, x: Tensor) -> Tensor:
        """Images of any size to vectors, these in single precision."""
        maps = self.trunk(x)
        with full_precision(x):
            maps = maps.to(self.inner[1].weight.dtype)
            vectors: Tensor = self.inner(torch.cat([way(maps, self.cells).flatten(1) for way in self.ways], 1))
        return vectors


class ResidualNet(ImageModel):
    """The plain net: one answer for an image of any size.

    Args:
        body: Images to vectors.
        outer: Vectors to logits.
        dropout: Dropout in between.
    """

    def __init__(self, body: ResidualBody, outer: nn.Module, dropout: float = 0.5) -> None:
        super().__init__()
        self.body, self.outer, self.dropout = body, outer, dropout

    def features(self, x: Tensor) -> Tensor:
        """The trunk's maps."""
        features: Tensor = self.body.trunk(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to logits ``(B, classes)``."""
        hidden = F.dropout(self.body(x), self.dropout, self.training)
        with full_precision(x):
            logits: Tensor = self.outer(hidden)
        return logits


class PerLevelClassifier(ImageModel):
    r"""A plain net that answers for every level of the image, from that level alone: consistent.

    Logits of level :math:`k` are :math:`\tau_k f(\mathcal D_k x)`, where :math:`f` is the plain net on the level's own
    grid and :math:`\tau_k = \sum_{j \le k} \mathrm{softplus}(p_j)` is learned, or 1.

    Args:
        body: Images to vectors.
        outer: Vectors to logits.
        levels: The resolutions.
        dropout: Dropout in between, one mask for all levels of an image.
        norms: Whether batch norms have statistics for each level, ``"level"``, or one set, ``"shared"``.
        temperature: Whether there is a factor for each level.
        step: What a step of training computes: ``"all"`` levels, or ``"two"``, the top one and a lower one drawn at
            random.
    """

    def __init__(
        self,
        body: nn.Module,
        outer: nn.Module,
        levels: Resolutions,
        dropout: float = 0.5,
        norms: Statistics = "level",
        temperature: bool = True,
        step: Literal["all", "two"] = "two",
    ) -> None:
        super().__init__()
        choice(step, ("all", "two"), "step")
        self.body = NestedModel(body, levels, norms=norms)
        self.outer, self.dropout, self.step = outer, dropout, step
        self.steps = nn.Parameter(torch.zeros(len(self.body.levels))) if temperature else None

    def forward(self, x: Tensor) -> Tensor:
        """Images to logits ``(B, levels, classes)``, coarse to fine; in training of the levels of a step alone."""
        passes = self.body.passes(x.shape[2:])
        chosen = list(range(len(passes)))
        if self.training and self.step == "two" and len(chosen) > 1:
            chosen = [int(torch.randint(len(chosen) - 1, ())), chosen[-1]]
        hidden = torch.stack(self.body.per_level(x, chosen), 1)
        with full_precision(x):
            if self.training:
                hidden = hidden * F.dropout(torch.ones_like(hidden[:, :1]), self.dropout)
            logits: Tensor = self.outer(hidden)
            if self.steps is None:
                return logits
            scales = F.softplus(self.steps).cumsum(0)
            return logits * torch.stack([scales[passes[number].row] for number in chosen])[:, None]

    @property
    def levels(self) -> Levels:
        """The resolutions at which it is consistent."""
        return self.body.levels

    def level_bands(self, size: Sequence[int]) -> list[Box]:
        """Band of the image at each level of the logits, coarse to fine."""
        return [one.band for one in self.body.passes(size)]

    def level_names(self, size: int) -> list[str]:
        """The resolutions that each level of the logits answers for, coarse to fine."""
        return names_of_levels(self.levels, self.level_bands, size, self.body.boundary)


def residual_classifier(
    in_channels: int = 3,
    classes: int = 10,
    widths: Sequence[int] = (64, 128, 256),
    resolutions: Resolutions = range(48, 97, 8),
    *,
    made: Made = "bare",
    blocks: int = 2,
    hidden: int = 256,
    dropout: float = 0.5,
    cells: int = 2,
    head_pool: HeadPool = "both",
) -> ImageModel:
    """A residual net for photographs, and what one makes of it.

    Args:
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of each stage.
        resolutions: The levels of what is not bare; they mean nothing to the bare net.
        made: ``"bare"``: the plain net, on the image as it is. ``"bare-every-size"``: the plain net, trained on every
            level of each image in each step, so with the passes of the exact one. ``"consistent"``: one logit vector
            for each level, from the image's band alone. ``"exact"``: one nested map around the trunk and a
            :class:`ScaleHead` on its maps, so that features and logits are exact.
        blocks: Blocks in a stage.
        hidden: Width of the head's MLP.
        dropout: Dropout behind its hidden layer.
        cells: Side of the grid of pooled features.
        head_pool: ``"max"``, ``"average"`` or ``"both"``.

    >>> model = residual_classifier(widths=(4, 8), resolutions=(16, 32), made="exact").eval()
    >>> model(torch.rand(2, 3, 32, 32)).shape, model.level_names(32)
    (torch.Size([2, 2, 10]), ['16', '32'])
    """
    choice(made, get_args(Made), "made")
    trunk = ResidualTrunk(in_channels, widths, blocks)
    if made == "exact":
        net = NestedModel(trunk, resolutions, norms="level", domain="coefficients")
        features = net.levels.pooled(trunk.rate)
        head = ScaleHead(trunk.out_channels, classes, features, "temperature", hidden, dropout, cells, head_pool)
        return ScaleClassifier(net, head)
    body, outer = ResidualBody(trunk, hidden, cells, head_pool), head_layers(1, hidden, classes)[1]
    if made == "bare":
        return ResidualNet(body, outer, dropout)
    if made == "consistent":
        return PerLevelClassifier(body, outer, resolutions, dropout)
    return PerLevelClassifier(body, outer, resolutions, dropout, "shared", temperature=False, step="all")
