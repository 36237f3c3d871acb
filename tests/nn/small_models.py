"""Small models of the kinds that people have, none of which knows of scale."""

import torch
from torch import nn
from torch.nn import functional as F

from fourierscale.models import UNet


class SpectralLayer(nn.Module):
    """Free matrices on the lowest frequencies and a pointwise path, as in a Fourier neural operator."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, channels, channels, modes, modes, 2) / channels)
        self.point = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        m = self.modes
        spectrum, weight = torch.fft.rfft2(x), torch.view_as_complex(self.weight)
        mixed = torch.zeros_like(spectrum)
        for rows, matrix in ((slice(0, m), weight[0]), (slice(-m, None), weight[1])):
            mixed[..., rows, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[..., rows, :m], matrix)
        return torch.fft.irfft2(mixed, s=x.shape[-2:]) + self.point(x)


class Operator(nn.Module):
    """A Fourier neural operator: its first convolution sees the coordinates beside the field."""

    def __init__(self, in_channels=3, out_channels=2, width=8, modes=4):
        super().__init__()
        self.lift = nn.Conv2d(in_channels + 2, width, 1)
        self.layers = nn.ModuleList(SpectralLayer(width, modes) for _ in range(2))
        self.out = nn.Conv2d(width, out_channels, 1)

    def forward(self, x):
        places = torch.meshgrid(*(torch.linspace(0, 1, n, dtype=x.dtype) for n in x.shape[2:]), indexing="ij")
        x = self.lift(torch.cat([x, torch.stack(places).expand(len(x), -1, -1, -1)], 1))
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.out(x)


class Patches(nn.Module):
    """A transformer on patches of 8 x 8 samples: maps, or one vector; of one size, or its positions interpolated."""

    def __init__(self, out_channels=2, width=16, side=4, interpolated=True, vectors=False):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 8, 8)
        self.places = nn.Parameter(torch.randn(1, width, side, side))
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, 5) if vectors else nn.ConvTranspose2d(width, out_channels, 8, 8)
        self.interpolated, self.vectors = interpolated, vectors

    def forward(self, x):
        x = self.embed(x)
        places = self.places
        if self.interpolated:
            places = F.interpolate(places, x.shape[2:], mode="bilinear", align_corners=False)
        x = x + places
        tokens = self.encoder(x.flatten(2).mT)
        return self.out(tokens.mean(1)) if self.vectors else self.out(tokens.mT.reshape(x.shape))


class Residual(nn.Module):
    """Strides, batch norm, and a linear layer on means: a classifier."""

    def __init__(self, width=8, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x)
        return self.out((x + self.body(x)).mean((2, 3)))


def convolutions():
    """Zero padding, a batch norm, attention to channels whose convolution is listed first."""

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Conv1d(1, 1, 3, padding=1)
            self.body = nn.Sequential(nn.Conv2d(3, 8, 5, padding=2), nn.BatchNorm2d(8), nn.ReLU())
            self.out = nn.Conv2d(8, 2, 3, padding=1)

        def forward(self, x):
            x = self.body(x)
            return self.out(x * self.gate(x.mean((2, 3))[:, None])[:, 0, :, None, None].sigmoid())

    return Gated()


MAPS = {
    "conv net": convolutions,
    "U-Net": lambda: UNet(3, 2, (8, 12, 16)),
    "FNO": Operator,
    "transformer": Patches,
    "transformer of one size": lambda: Patches(interpolated=False),
}
VECTORS = {"residual net": Residual, "transformer": lambda: Patches(vectors=True)}


def trained(net, levels=(16, 24, 32), channels=3, axes=2, steps=4):
    """After a few steps on random images, towards what a smooth rule says; in evaluation mode."""
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    dtype = next(net.parameters()).dtype
    net.train()
    for _ in range(steps):
        x = torch.randn(2, channels, *(levels[-1],) * axes, dtype=dtype)
        outputs = net.per_level(x)
        loss = sum((output - output.detach().roll(1, 0).tanh()).square().mean() for output in outputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()
