"""The exact counterpart of a residual net of today: pre-activation blocks of 3x3 convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from fourierscale.functional.bands import Boundary
from fourierscale.functional.levels import Resolutions
from fourierscale.models.layers import ExactNet, LayerConfig, Place, per_part
from fourierscale.models.parted import PartedStages, init_taps
from fourierscale.nn.checks import positive

POOL = 2
"""The first activation of a stage pools by this window; that of the first stage does not pool."""
TAPS = 3


class PreActivationBlock(nn.Module):
    """``h = first(x)``, then ``body(h) + shortcut(h)``; without a shortcut the input itself is added."""

    def __init__(self, first: nn.Module, body: nn.Module, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.first = first
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Coefficients to coefficients."""
        h = self.first(x)
        added: Tensor = self.body(h) + (x if self.shortcut is None else self.shortcut(h))
        return added


class ScaleResNet(ExactNet):
    """Scale-equivariant features by residual blocks of today, the exact counterpart of the plain ``resnet-stl10``.

    A stem of 3x3 taps; stages of blocks ``h = act(x); x = short(h) + conv(act(conv(h)))`` with 3x3 taps and no bias;
    the first activation of every stage but the first pools by 2; a last activation.

    The depth of exactness is a choice. With ``exact_stages`` below the number of stages the levels part behind them:
    the features of this net are then those of the exact stages, pooled by the next activation, and the stages that are
    left, :meth:`parted`, are ordinary ones that a head runs on each level. Logits stay exact, because the answer of a
    level reads nothing above it.

    Args:
        in_channels: Channels of the image.
        widths: Channels of each stage.
        resolutions: Resolutions of the image at which the net is equivariant.
        blocks: Blocks of each stage, one int or one per stage.
        exact_stages: How many stages are exact, from 0 (the features are the image itself) on; default: all.
        reference_size: Grid on which one tap is one sample; default: the highest resolution. Behind a pooling it
            shrinks with the features.
        boundary: What lies beyond the image's edge.
        layers: What the exact layers are made of; of it, the parted ones take activation, norm and pooling.

    >>> import torch
    >>> net = ScaleResNet(3, [4, 8], [12, 16], blocks=1).eval()
    >>> net(torch.rand(2, 3, 16, 16)).shape
    torch.Size([2, 8, 7, 7])
    """

    def __init__(
        self,
        in_channels: int,
        widths: Sequence[int],
        resolutions: Resolutions,
        *,
        blocks: int | Sequence[int] = 2,
        exact_stages: int | None = None,
        reference_size: int | None = None,
        boundary: Boundary = "circular",
        layers: LayerConfig = LayerConfig(norm="batch", grid="common", pointwise=False),  # noqa: B008
    ) -> None:
        if isinstance(widths, (int, str)) or not widths:
            raise ValueError(f"widths must be a list with the channels of each stage, got {widths!r}")
        super().__init__(in_channels, resolutions, boundary)
        exact = len(widths) if exact_stages is None else exact_stages
        if not 0 <= exact <= len(widths):
            raise ValueError(f"exact_stages must be from 0 to {len(widths)}, the number of stages, got {exact_stages}")
        self.widths = [positive(width, "widths") for width in widths]
        self.counts = per_part(blocks, len(widths), "blocks", "stage")
        self.exact_stages, self.layers = exact, layers
        place, channels, rate = self.entrance(reference_size), in_channels, 1
        parts: list[nn.Module] = []
        if exact:
            channels = self.widths[0]
            parts.append(layers.conv(in_channels, channels, TAPS, place))
        for stage, (width, count) in enumerate(zip(self.widths[:exact], self.counts, strict=False)):
            for block in range(count):
                window = POOL if stage > 0 and block == 0 else 1
                parts.append(_block(channels, width, window, place, layers))
                place, channels, rate = place.pooled(window), width, rate * window
        if exact:
            window = POOL if exact < len(widths) else 1
            parts.append(layers.activate(channels, place, window))
            place, rate = place.pooled(window), rate * window
        self.parts = nn.Sequential(*parts)
        self.out_channels = channels
        self.out_levels = place.levels
        self.rate = rate
        init_taps(self)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to coefficients of the features."""
        features: Tensor = self.parts(self.enter(x))
        return features

    def parted(self) -> PartedStages | None:
        """New ordinary stages behind the exact ones, for the head to run on each level; None if all are exact."""
        if self.exact_stages == len(self.widths):
            return None
        left = slice(self.exact_stages, None)
        return PartedStages(
            self.out_channels,
            self.widths[left],
            self.counts[left],
            len(self.out_levels),
            stem=self.exact_stages == 0,
            activation=self.layers.activation,
            norm=self.layers.activation_norm(),
            pool_kind=self.layers.pool_kind,
        )


def _block(channels: int, width: int, window: int, place: Place, layers: LayerConfig) -> PreActivationBlock:
    first, place = layers.activate(channels, place, window), place.pooled(window)
    body = nn.Sequential(
        layers.conv(channels, width, TAPS, place),
        layers.activate(width, place),
        layers.conv(width, width, TAPS, place),
    )
    changes = channels != width or window > 1
    return PreActivationBlock(first, body, layers.conv(channels, width, 1, place) if changes else None)
