"""What the baselines share: a three-stage net for digits, a wide residual net for photographs, and their registration.

A frame is given what makes a baseline different, above all its convolution, and does the rest. Features are images
``(B, C, H, W)``, or have a scale axis, ``(B, C, S, H, W)``; the frame takes the maximum over it where it has to end.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor, nn

from fourierscale.lab.baselines.parts.scales import ScaleBatchNorm2d, each_map, max_over_scales, norm_relu
from fourierscale.models.contract import ImageModel
from fourierscale.models.registry import ModelInfo, register
from fourierscale.nn.checks import positive
from fourierscale.testing import Domain

SIDE = 28
CELLS = 4  # the pools of the digits' frame end in 2 x 2

StageConv: TypeAlias = Callable[[int, int, int], nn.Module]
"""``conv(in_channels, out_channels, stage)`` with ``stage`` 0, 1, 2."""


class MnistFrame(ImageModel):
    """Three stages and an MLP for digits of 28 x 28: the net of SESN's and DISCO's experiments.

    A stage is convolution, maximum over scales, ReLU, pool, batch norm, in this order. The pools are max 2, max 2 and
    max 4 with padding 2, so 28 x 28 becomes 2 x 2. The head is Linear without bias, batch norm, ReLU, dropout, Linear.

    The final feature map, on which Equi-Err is measured, is that of the last ReLU, on a grid of 7 x 7: as in
    ``ScaleHead``, pooling to 2 x 2 belongs to the head.

    Args:
        conv: Makes the convolution of a stage, "same" padded. It may add a scale axis.
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the stages.
        hidden: Width of the MLP.
        dropout: Dropout behind the hidden layer.
        keep_scales: Stages that keep the scale axis in front of their ReLU; the others take the maximum over it. If
            the last one keeps it, the maximum is taken behind its norm.
        pools: Poolings of images, one per stage, that end in 2 x 2; default: those above.
        door: What an image goes through first, for example a lift to a scale axis.
        head_bias: Whether the first Linear has a bias.

    >>> import torch
    >>> frame = MnistFrame(lambda i, o, stage: nn.Conv2d(i, o, 3, padding=1), widths=(2, 3, 4)).eval()
    >>> frame(torch.rand(5, 1, 28, 28)).shape, frame.features(torch.rand(5, 1, 28, 28)).shape
    (torch.Size([5, 10]), torch.Size([5, 4, 7, 7]))
    """

    domain: Domain = "image"

    def __init__(
        self,
        conv: StageConv,
        in_channels: int = 1,
        classes: int = 10,
        widths: Sequence[int] = (32, 63, 95),
        hidden: int = 256,
        dropout: float = 0.7,
        *,
        keep_scales: Sequence[bool] = (False, False, False),
        pools: Sequence[nn.Module] | None = None,
        door: nn.Module | None = None,
        head_bias: bool = False,
    ) -> None:
        super().__init__()
        if len(widths) != 3 or len(keep_scales) != 3 or (pools is not None and len(pools) != 3):
            raise ValueError(f"the frame has three stages: give three widths, keep_scales and pools, got {widths}")
        self.in_channels = positive(in_channels, "in_channels")
        self.keep_scales = tuple(keep_scales)
        self.door = nn.Identity() if door is None else door
        inputs = (in_channels, *widths)
        self.convs = nn.ModuleList(conv(inputs[stage], inputs[stage + 1], stage) for stage in range(3))
        self.pools = nn.ModuleList(pools or (nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(4, padding=2)))
        self.norms = nn.ModuleList(ScaleBatchNorm2d(width) for width in widths)
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(CELLS * widths[-1], hidden, bias=head_bias),
            BatchNorm(hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, 28, 28)`` to logits ``(B, classes)``."""
        last = self.norms[2](each_map(self.pools[2], self._last_map(x)))
        logits: Tensor = self.head(max_over_scales(last))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """The map of the last ReLU, ``(B, widths[-1], 7, 7)``, its maximum over scales where it has them."""
        return max_over_scales(self._last_map(x))

    def _last_map(self, x: Tensor) -> Tensor:
        check_images(x, self.in_channels, SIDE)
        x = self.door(x)
        for stage in range(3):
            x = self.convs[stage](x)
            x = nn.functional.relu(x if self.keep_scales[stage] else max_over_scales(x))
            if stage < 2:
                x = self.norms[stage](each_map(self.pools[stage], x))
        return x


class BatchNorm(nn.BatchNorm1d):
    """Batch norm that takes a last batch of one image: it has no statistics, so the running ones serve."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise features ``(B, C)``."""
        if self.training and len(x) == 1:
            return nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x)


def check_images(x: Tensor, channels: int, side: int | None = None) -> None:
    """Refuse what is not a batch of images of so many channels and, if given, of this side."""
    if x.ndim != 4 or x.shape[1] != channels or (side is not None and tuple(x.shape[2:]) != (side, side)):
        size = "height, width" if side is None else f"{side}, {side}"
        raise ValueError(
            f"expected images of shape (batch, {channels}, {size}), got {tuple(x.shape)}"
            + ("" if side is None else ": smaller ones are brought to this size by fourierscale.functional.enlarge_to")
        )


@dataclass(frozen=True)
class Place:
    """Where in a :class:`WideResNet` a convolution stands.

    Attributes:
        group: 0 for the stem, then 1, 2, 3.
        block: Number of the block in its group, from 0.
        layer: Number of the convolution in its block, from 0.
    """

    group: int
    block: int = 0
    layer: int = 0

    @property
    def entry(self) -> bool:
        """Whether it is the first convolution of a group, or the shortcut beside it."""
        return self.group > 0 and self.block == 0 and self.layer == 0


PlacedConv: TypeAlias = Callable[[int, int, int, Place], nn.Module]
"""``conv(in_channels, out_channels, stride, place)``."""


def conv3x3(in_channels: int, out_channels: int, stride: int, place: Place) -> nn.Module:
    """The convolution of a plain wide residual net."""
    return nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)


def conv1x1(in_channels: int, out_channels: int, stride: int, place: Place) -> nn.Module:
    """The shortcut of a plain wide residual net, where the number of channels changes."""
    return nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)


class WideResNet(ImageModel):
    r"""Wide residual net 16-8: a 3x3 stem, three groups of two pre-activation blocks, average, Linear.

    Blocks are norm, ReLU, convolution, norm, ReLU, dropout, convolution. Where the number of channels changes, a 1x1
    shortcut starts behind the first ReLU. Groups 2 and 3 stride by 2, so 96 x 96 becomes 24 x 24. Plain convolutions
    are drawn from :math:`N(0, 2 / (k^2 C_{out}))`, the bias of the Linear starts at 0.

    The final feature map, on which Equi-Err is measured, is that of the last ReLU, a quarter of the image's side.

    Args:
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the stem and of the three groups.
        dropout: Dropout in the blocks.
        conv: Makes each convolution, stem included; it may add, keep or reduce a scale axis, and may pool where a
            stride is asked for.
        shortcut: Makes each 1x1 shortcut, for the :class:`Place` of the first convolution beside it.
        door: What an image goes through first, for example a lift to a scale axis.
        max_before_norm: Whether the maximum over scales is taken in front of the last norm.

    >>> import torch
    >>> net = WideResNet(widths=(4, 8, 8, 16)).eval()
    >>> net(torch.rand(2, 3, 48, 48)).shape, net.features(torch.rand(2, 3, 48, 48)).shape
    (torch.Size([2, 10]), torch.Size([2, 16, 12, 12]))
    """

    domain: Domain = "image"

    def __init__(
        self,
        in_channels: int = 3,
        classes: int = 10,
        widths: Sequence[int] = (16, 128, 256, 512),
        dropout: float = 0.3,
        *,
        conv: PlacedConv = conv3x3,
        shortcut: PlacedConv = conv1x1,
        door: nn.Module | None = None,
        max_before_norm: bool = False,
    ) -> None:
        super().__init__()
        if len(widths) != 4:
            raise ValueError(f"give the widths of the stem and of three groups, got {widths}")
        self.in_channels = positive(in_channels, "in_channels")
        self.door = nn.Identity() if door is None else door
        self.stem = conv(in_channels, widths[0], 1, Place(0))
        blocks: list[nn.Module] = []
        for group, stride in enumerate((1, 2, 2), start=1):
            for block in range(2):
                inputs = widths[group - 1] if block == 0 else widths[group]
                place = Place(group, block)
                blocks.append(
                    _Block(inputs, widths[group], stride if block == 0 else 1, place, dropout, conv, shortcut)
                )
        self.blocks = nn.Sequential(*blocks)
        self.max_before_norm = max_before_norm
        self.norm = ScaleBatchNorm2d(widths[-1])
        self.head = nn.Linear(widths[-1], classes)
        nn.init.zeros_(self.head.bias)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=math.sqrt(2 / (math.prod(module.kernel_size) * module.out_channels)))

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to logits ``(B, classes)``."""
        logits: Tensor = self.head(self.features(x).mean((2, 3)))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """The map of the last ReLU, ``(B, widths[-1], H / 4, W / 4)``, its maximum over scales where it has them."""
        check_images(x, self.in_channels)
        x = self.blocks(self.stem(self.door(x)))
        if self.max_before_norm:
            x = max_over_scales(x)
        return max_over_scales(nn.functional.relu(self.norm(x)))


class _Block(nn.Module):
    """A pre-activation block of two convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int,
        place: Place,
        dropout: float,
        conv: PlacedConv,
        shortcut: PlacedConv,
    ) -> None:
        super().__init__()
        self.norms = nn.ModuleList([ScaleBatchNorm2d(in_channels), ScaleBatchNorm2d(out_channels)])
        second = Place(place.group, place.block, 1)
        self.convs = nn.ModuleList(
            [conv(in_channels, out_channels, stride, place), conv(out_channels, out_channels, 1, second)]
        )
        self.dropout = nn.Dropout(dropout)
        same = in_channels == out_channels and not place.entry
        self.shortcut = None if same else shortcut(in_channels, out_channels, stride, place)

    def forward(self, x: Tensor) -> Tensor:
        """Add both convolutions to the input or to its shortcut."""
        active = norm_relu(self.norms[0], x)
        other = x if self.shortcut is None else self.shortcut(active)
        inner = norm_relu(self.norms[1], self.convs[0](active), self.dropout)
        summed: Tensor = self.convs[1](inner) + other
        return summed


FRAMES: dict[str, tuple[type[nn.Module], int, dict[str, Any]]] = {
    "mnist": (MnistFrame, SIDE, {"widths": (3, 4, 5), "hidden": 8}),
    "stl10": (WideResNet, 96, {"widths": (2, 4, 4, 6)}),  # widths with common divisors, for "delta" weights of DSS
}
"""By the end of a model's name: its frame, the size of its images, and what makes it small enough for a test."""


def register_in_frame(
    name: str,
    build: Callable[..., ImageModel],
    description: str,
    citation: str,
    *,
    native: bool = False,
    **defaults: Any,
) -> None:
    """Register a baseline that is built in one of the frames.

    Args:
        name: Ends in ``-mnist`` or ``-stl10``, which decides the frame, the recipe and the size of padded images.
        build: Takes options of its own, and those of the frame as ``**frame``.
        description: One line for lists.
        citation: Whom to cite.
        native: Whether it takes images at their own size, not padded with zeros to that of the frame.
        defaults: Options that differ from those of ``build``.
    """
    data = name.rpartition("-")[2]
    frame, size, small = FRAMES[data]
    every = [*inspect.signature(frame).parameters.values(), *inspect.signature(build).parameters.values()]
    options = {p.name: p for p in every if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty}
    flat = functools.wraps(build)(lambda **given: build(**given))
    flat.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    register(
        ModelInfo(
            name=name,
            build=flat,
            description=description,
            recipe=f"{data}-baseline",
            defaults=defaults,
            small=small,
            enlarge=None if native else "zero",
            enlarge_size=None if native else size,
            citation=citation,
        )
    )
