"""Fourier CNN: blocks of the Fourier neural operator, images at their native resolution, no equivariance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from fourierscale import functional as F
from fourierscale.lab.baselines.parts.frames import check_images
from fourierscale.models.classifier import ScaleHead
from fourierscale.models.contract import ImageModel
from fourierscale.models.registry import ModelInfo, register
from fourierscale.nn import FourierConv2d
from fourierscale.testing import Domain

CITATION = "Li et al., Fourier Neural Operator for Parametric Partial Differential Equations, ICLR 2021"


class FourierBlock(nn.Module):
    """A global Fourier layer on the low frequencies plus a 1x1 convolution on all, norm, ReLU, max pooling.

    The norm and the ReLU act on the image's own grid, which is where scale-equivariance ends.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        modes: Resolution up to whose band a frequency has a weight of its own.
        pool: Window of the pooling; 1 means none.

    >>> import torch
    >>> FourierBlock(3, 4, 8, pool=2)(torch.rand(2, 3, 15, 15)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(self, in_channels: int, out_channels: int, modes: int, pool: int = 1) -> None:
        super().__init__()
        self.spectral = FourierConv2d(in_channels, out_channels, modes, bias=False)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.norm = nn.InstanceNorm2d(out_channels, affine=True)
        self.modes, self.pool = modes, pool

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to images ``(B, C', H / pool, W / pool)``, rounded up."""
        height, width = x.shape[-2:]
        low = F.analyze(x, size=(min(height, self.modes), min(width, self.modes)))
        mixed = F.synthesize(self.spectral(low).contiguous(), (height, width)) + self.pointwise(x)
        y = nn.functional.relu(self.norm(mixed))
        return y if self.pool == 1 else nn.functional.max_pool2d(y, self.pool, ceil_mode=True)


class FourierCNN(ImageModel):
    """Classify images at their native resolution with :class:`FourierBlock` layers.

    The head is that of our networks (:class:`ScaleHead`) with one output, at the input's own band. The final feature
    map, on which Equi-Err is measured, is given as coefficients, so all frequencies of the smaller image's band count.

    Args:
        resolutions: Resolutions of the images; the highest sets the grid of the head.
        in_channels: Channels of the image.
        classes: Number of classes.
        widths: Channels of the blocks.
        modes: One int for all blocks or one per block; see :class:`FourierBlock`.
        pool: Pooling at the end of each block, one int for all or one per block.
        stem: Channels of a 1x1 layer in front of the blocks; 0 means none.
        hidden: Width of the MLP.
        dropout: Dropout behind the hidden layer.

    >>> import torch
    >>> model = FourierCNN(range(8, 17), widths=(3, 4), modes=16)
    >>> model(torch.rand(2, 1, 11, 11)).shape, model.features(torch.rand(2, 1, 11, 11)).shape
    (torch.Size([2, 10]), torch.Size([2, 4, 11, 11]))
    """

    domain: Domain = "coefficients"

    def __init__(
        self,
        resolutions: Iterable[int] = range(8, 29),
        in_channels: int = 1,
        classes: int = 10,
        widths: Sequence[int] = (32, 64, 100, 100),
        modes: int | Sequence[int] = 28,
        pool: int | Sequence[int] = 1,
        stem: int = 0,
        hidden: int = 256,
        dropout: float = 0.75,
    ) -> None:
        super().__init__()
        every_modes = [modes] * len(widths) if isinstance(modes, int) else list(modes)
        every_pool = [pool] * len(widths) if isinstance(pool, int) else list(pool)
        if not widths or len(every_modes) != len(widths) or len(every_pool) != len(widths):
            raise ValueError(f"modes and pool must be one int or one per block ({len(widths)}), got {modes} and {pool}")
        self.in_channels = in_channels
        channels, size = stem or in_channels, max(resolutions)
        layers: list[nn.Module] = [nn.Conv2d(in_channels, stem, 1)] if stem else []
        for width, keep, window in zip(widths, every_modes, every_pool, strict=True):
            layers.append(FourierBlock(channels, width, keep, window))
            channels, size = width, -(-size // window)
        self.blocks = nn.Sequential(*layers)
        # One level, the highest: an image below it is a level of its own.
        self.head = ScaleHead(channels, classes, [size], "plain", hidden, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to logits ``(B, classes)``."""
        logits: Tensor = self.head(self.features(x))
        return logits[:, -1]

    def features(self, x: Tensor) -> Tensor:
        """Coefficients of the final feature map."""
        check_images(x, self.in_channels)
        return F.analyze(self.blocks(x))


register(
    ModelInfo(
        name="fourier-cnn-mnist",
        build=FourierCNN,
        description="four global Fourier layers at native resolution, ReLU on the image's own grid",
        recipe="mnist-fourier-cnn",
        small={"widths": (3, 4), "hidden": 8},
        citation=CITATION,
    ),
    ModelInfo(
        name="fourier-cnn-stl10",
        build=FourierCNN,
        defaults={
            "resolutions": range(48, 97),
            "in_channels": 3,
            "widths": (128, 128, 256, 256, 512, 512),
            "modes": (16, 16, 8, 8, 8, 8),
            "pool": (1, 2, 1, 2, 1, 1),
            "stem": 32,
        },
        description="six global Fourier layers at native resolution, two poolings",
        recipe="stl10-fourier-cnn",
        small={"widths": (3, 3, 4, 4, 5, 5), "stem": 2, "hidden": 8},
        citation=CITATION,
    ),
)
