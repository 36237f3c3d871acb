r"""What ours is measured against: plain CNNs, the paper's equation written down directly, an FNO layer.

Each is an honest plain PyTorch module, as one would write it without this library. ``NaivePair`` and ``NaiveNet``
compute the same function as ours, with the same parameters, the way the paper states it: complex spectra, and per
level an inverse FFT, norm, ReLU, FFT and the ring that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fourierscale.functional.bands import Box, axis_bands, grids
from fourierscale.functional.nested import plan_levels
from fourierscale.models import ScaleClassifier, ScaleHead, ScaleNet
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d

__all__ = ["FnoLayer", "NaiveNet", "NaivePair", "PlainCNN", "low_block", "plain_pair"]


def plain_pair(in_channels: int, out_channels: int, taps: int, norm: bool = True) -> nn.Sequential:
    """Convolution, instance norm, ReLU: the plain CNN's version of one Fourier layer and one nested activation."""
    layers: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, taps, padding=taps // 2, bias=not norm)]
    if norm:
        layers.append(nn.InstanceNorm2d(out_channels, affine=True))
    return nn.Sequential(*layers, nn.ReLU())


class PlainCNN(nn.Module):
    """A CNN with the widths, taps, poolings and head of a :class:`fourierscale.models.ScaleNet`.

    Args:
        in_channels: Channels of the image.
        widths: Channels of each block.
        kernel_sizes: Taps per axis of each block.
        pools: Max pooling at the end of each block; 1 means none.
        norm: Whether there are instance norms.
        residual: Whether blocks are two convolutions with a 1x1 shortcut around them, behind a 1x1 stem.
        stem: Channels of the stem.
        classes: Number of classes.
        hidden: Width of the MLP.

    >>> PlainCNN(1, (4, 8), (5, 5), (1, 2))(torch.rand(2, 1, 12, 12)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        in_channels: int,
        widths: Sequence[int],
        kernel_sizes: Sequence[int],
        pools: Sequence[int],
        norm: bool = True,
        residual: bool = False,
        stem: int = 32,
        classes: int = 10,
        hidden: int = 256,
    ) -> None:
        super().__init__()
        blocks: list[nn.Module] = [plain_pair(in_channels, stem, 1, norm)] if residual else []
        channels = stem if residual else in_channels
        for width, taps, window in zip(widths, kernel_sizes, pools, strict=True):
            block = _Residual if residual else plain_pair
            blocks.append(block(channels, width, taps, norm))
            if window > 1:
                blocks.append(nn.MaxPool2d(window))
            channels = width
        self.body = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.AdaptiveMaxPool2d(2),
            nn.Flatten(),
            nn.LayerNorm(4 * channels),
            nn.Linear(4 * channels, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to logits ``(B, classes)``."""
        logits: Tensor = self.head(self.body(x))
        return logits


class _Residual(nn.Module):
    """Two convolutions with a 1x1 shortcut around them, then norm and ReLU."""

    def __init__(self, in_channels: int, out_channels: int, taps: int, norm: bool) -> None:
        super().__init__()
        self.first = plain_pair(in_channels, out_channels, taps, norm)
        self.second = nn.Conv2d(out_channels, out_channels, taps, padding=taps // 2, bias=not norm)
        self.shortcut = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.norm = nn.InstanceNorm2d(out_channels, affine=True) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.norm(self.second(self.first(x)) + self.shortcut(x)))


class FnoLayer(nn.Module):
    """A layer of the Fourier neural operator: free complex weights on low frequencies, a 1x1 path, norm, ReLU.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        modes: Highest frequency that has weights.

    >>> FnoLayer(2, 3, 4)(torch.rand(1, 2, 12, 12)).shape
    torch.Size([1, 3, 12, 12])
    """

    def __init__(self, in_channels: int, out_channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        shape = (in_channels, out_channels, *grids((modes,)), modes + 1)
        self.weight = nn.Parameter(torch.randn(*shape, 2) / in_channels)  # real and imaginary parts
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1)
        self.norm = nn.InstanceNorm2d(out_channels, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        box = (self.modes, self.modes)
        spectrum = torch.fft.rfft2(x)
        low = torch.einsum("bixy,ioxy->boxy", low_block(spectrum, box), torch.view_as_complex(self.weight))
        mixed = torch.fft.irfft2(_pad_block(low, box, x.shape[-2:]), s=x.shape[-2:])
        activated: Tensor = nn.functional.relu(self.norm(mixed + self.pointwise(x)))
        return activated


class NaivePair(nn.Module):
    """A Fourier layer and a nested activation as the paper writes them, on complex spectra.

    It takes over the parameters of ours. Spectra are those of ``torch.fft.rfft2`` on a grid that holds the band and
    nothing more, ``(B, C, 2K+1, K+1)``, divided by the number of samples.

    Args:
        conv: The Fourier layer.
        activation: The nested activation, with instance norm.
    """

    def __init__(self, conv: LocalFourierConv2d, activation: ScaleActivation2d) -> None:
        super().__init__()
        self.conv, self.activation = conv, activation

    def forward(self, spectrum: Tensor) -> Tensor:
        """Spectra to spectra."""
        return _activate(_convolve(spectrum, self.conv), self.activation)


class NaiveNet(nn.Module):
    """A network of such pairs with its head, one level after the other.

    Args:
        model: Ours, without residual blocks or pooling, whose parameters are taken over.
    """

    def __init__(self, model: ScaleClassifier) -> None:
        super().__init__()
        if not isinstance(model.net, ScaleNet):
            raise TypeError(f"expected a classifier around a ScaleNet, got {type(model.net).__name__}")
        self.blocks, self.head = model.net.blocks, model.head

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, H, W)`` to logits ``(B, levels, classes)``."""
        spectrum = low_block(torch.fft.rfft2(x, norm="forward"), axis_bands(x.shape[-2:]))
        for block in self.blocks:
            spectrum = NaivePair(*block)(spectrum)  # type: ignore[misc]
        return _classify(spectrum, self.head)


def low_block(spectrum: Tensor, box: Box) -> Tensor:
    """The frequencies up to ``box`` of a half spectrum, in the same order: rows ``0, ..., K, -K, ..., -1``."""
    rows, columns = box
    part = spectrum[..., : columns + 1]
    return torch.cat([part[..., : rows + 1, :], part[..., spectrum.shape[-2] - rows :, :]], -2)


def _pad_block(block: Tensor, box: Box, size: Sequence[int]) -> Tensor:
    """The half spectrum of a grid of this size with a block of low frequencies and nothing else."""
    rows, columns = box
    full = block.new_zeros(*block.shape[:-2], size[0], size[1] // 2 + 1)
    full[..., : rows + 1, : columns + 1] = block[..., : rows + 1, :]
    full[..., size[0] - rows :, : columns + 1] = block[..., rows + 1 :, :]
    return full


def _write_block(spectrum: Tensor, block: Tensor, box: Box) -> None:
    rows, columns = box
    spectrum[..., : rows + 1, : columns + 1] = block[..., : rows + 1, :]
    spectrum[..., spectrum.shape[-2] - rows :, : columns + 1] = block[..., rows + 1 :, :]


def _convolve(spectrum: Tensor, conv: LocalFourierConv2d) -> Tensor:
    """Eq. 11: the spectrum of the taps, by their definition, times that of the features."""
    taps = conv.weight.flip((2, 3))  # torch stores taps for correlation
    kernel: Tensor = taps.to(spectrum.dtype)
    for axis, frequency in ((-2, _full(spectrum)), (-1, torch.arange(spectrum.shape[-1], device=spectrum.device))):
        length, reference = taps.shape[axis], conv.reference_size[axis]
        position = torch.arange(length, device=spectrum.device) - length // 2
        angle = -2 * torch.pi / reference * torch.outer(frequency, position).to(conv.weight.dtype)
        waves = torch.polar(torch.ones_like(angle), angle)  # (frequencies, taps)
        kernel = (waves @ kernel.movedim(axis, -2)).movedim(-2, axis)
    if conv.pointwise is not None:
        kernel = kernel + conv.pointwise[..., None, None]
    output = torch.einsum("bixy,oixy->boxy", spectrum, kernel)
    if conv.bias is not None:
        rows, columns = output.shape[-2:]
        output = output + nn.functional.pad(conv.bias[:, None, None], (0, columns - 1, 0, rows - 1))
    return output


def _full(spectrum: Tensor) -> Tensor:
    """Frequencies of the rows, ``0, ..., K, -K, ..., -1``."""
    k = spectrum.shape[-1] - 1
    return torch.cat([torch.arange(k + 1), torch.arange(-k, 0)]).to(spectrum.device)


def _activate(spectrum: Tensor, layer: ScaleActivation2d) -> Tensor:
    """Eqs. 14 and 15, level by level: crop, inverse FFT, instance norm, ReLU, FFT, keep the ring."""
    assert layer.weight is not None
    assert layer.bias is not None
    box = axis_bands((spectrum.shape[-2],) * 2)
    output = torch.empty_like(spectrum)
    # Fine to coarse: what a coarser level overwrites leaves every level its ring.
    for level in reversed(plan_levels(layer.levels, box, grid=layer.grid, oversample=layer.oversample)):
        read = _pad_block(low_block(spectrum, level.reads), level.reads, level.grid)
        samples = torch.fft.irfft2(read, s=level.grid, norm="forward")
        normed = nn.functional.instance_norm(
            samples, weight=layer.weight[level.index], bias=layer.bias[level.index], eps=layer.eps
        )
        transformed = torch.fft.rfft2(nn.functional.relu(normed), norm="forward")
        _write_block(output, low_block(transformed, level.writes), level.writes)
    return output


def _classify(spectrum: Tensor, head: ScaleHead) -> Tensor:
    """The head, level by level, without dropout."""
    side = head.window * head.cells
    outputs = []
    for box in head.levels.of_input(axis_bands((spectrum.shape[-2],) * 2)):
        read = _pad_block(low_block(spectrum, box), box, (side, side))
        samples = torch.fft.irfft2(read, s=(side, side), norm="forward")
        outputs.append(head.outer(head.inner(nn.functional.max_pool2d(samples, head.window).flatten(1))))
    return torch.stack(outputs, 1)
