"""An ordinary CNN, and four ways to bring equivariance to it. What is exact in each?

    python examples/existing_cnn.py

- **In front.** Equivariant layers before the CNN: their features are exact, what the CNN makes of them is not.
- **Behind.** Equivariant layers on the CNN's stem: exact as a function of the stem's features, not of the image.
- **Layers exchanged.** Each convolution becomes a Fourier layer with the same weights, each activation and pooling
  its scale-equivariant counterpart: exact from end to end. Its output resembles the CNN's; train on from there.
- **Level by level.** The whole CNN, weights and padding as they are, is the function of a nested map: exact from end
  to end whatever is inside, for one pass of the CNN per level.

The picture is a real photograph. Expect 1e-12 or less where something is exact and 0.1 to 1 where it is not.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from matplotlib.cbook import get_sample_data
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import Levels, downscale
from fourierscale.functional import nested_map
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import equivariance_error, relative_error

SIDE, WIDTH = 48, 16
LEVELS = Levels([16, 24, 32, 40, SIDE])
SHOWN = (16, 24, 31, 40)


class LevelByLevel(nn.Module):
    """Any network that takes and gives images, made exact: it sees every level by itself, and gives the rim of each.

    Args:
        network: Images to images, ``pool`` times smaller; batch norms must be in evaluation mode.
        levels: Where the result is exact.
        pool: How much the network pools.
    """

    def __init__(self, network: nn.Module, levels: Levels, pool: int = 1) -> None:
        super().__init__()
        self.network, self.levels, self.pool = network, levels, pool

    def forward(self, coeffs: Tensor) -> Tensor:
        """Coefficients of band ``K`` to coefficients of band ``K // pool``."""
        # on the common grid the network sees each level, blurred, at the size that it was trained for
        return nested_map(coeffs, self.levels, lambda level, x: self.network(x), pool=self.pool, grid="common")


def ordinary_cnn() -> nn.Sequential:
    """What you may have: a stem, and two more convolutions, pooled once."""
    stem = nn.Sequential(
        nn.Conv2d(3, WIDTH, 5, padding=2, padding_mode="circular"), nn.InstanceNorm2d(WIDTH), nn.ReLU()
    )
    rest = nn.Sequential(
        nn.Conv2d(WIDTH, WIDTH, 3, padding=1, padding_mode="circular"),
        nn.InstanceNorm2d(WIDTH),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(WIDTH, WIDTH, 3, padding=1, padding_mode="circular"),
    )
    return nn.Sequential(stem, rest)


def exchanged(cnn: nn.Sequential) -> ScaleEquivariant:
    """The same network of the same weights in scale-equivariant layers."""

    def convolution(old: nn.Conv2d, side: int) -> LocalFourierConv2d:
        new = LocalFourierConv2d(old.in_channels, old.out_channels, old.kernel_size[0], reference_size=side)
        new.load_state_dict(old.state_dict())
        return new

    (stem, _, _), rest = cnn[0], cnn[1]
    layers = [
        convolution(stem, SIDE),
        ScaleActivation2d(WIDTH, LEVELS, grid="common"),
        convolution(rest[0], SIDE),
        ScaleActivation2d(WIDTH, LEVELS, pool=2, grid="common"),
        convolution(rest[4], SIDE // 2),
    ]
    return ScaleEquivariant(nn.Sequential(*layers), pool=2)


def equivariant_block(channels: int, levels: Levels, side: int) -> ScaleEquivariant:
    layers = LocalFourierConv2d(channels, WIDTH, 5, side), ScaleActivation2d(WIDTH, levels)
    return ScaleEquivariant(nn.Sequential(*layers))


def photograph() -> Tensor:
    """``(1, 3, 48, 48)``: the upper square of the portrait, ideally downscaled."""
    with get_sample_data("grace_hopper.jpg") as file:
        pixels = np.asarray(Image.open(file).convert("RGB"))
    x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255
    return downscale(x[..., : x.shape[-1], :], SIDE)


def main() -> None:
    torch.manual_seed(0)
    x, cnn = photograph(), ordinary_cnn().eval()
    front = equivariant_block(3, LEVELS, SIDE)
    behind = nn.Sequential(front, nn.Conv2d(WIDTH, 3, 1), cnn)
    back = equivariant_block(WIDTH, LEVELS, SIDE)
    rows: list[tuple[str, nn.Module, Tensor]] = [
        ("the CNN", cnn, x),
        ("in front: the new layers", front, x),
        ("in front: the whole", behind, x),
        ("behind: as a function of the stem's features", back, cnn[0](x)),
        ("behind: the whole", nn.Sequential(cnn[0], back), x),
        ("layers exchanged", exchanged(cnn), x),
        ("level by level", ScaleEquivariant(LevelByLevel(cnn, LEVELS, pool=2), pool=2), x),
    ]
    table = Table(title=f"a photograph of {SIDE} px against smaller ones, relative squared error")
    table.add_column("network")
    for column in (*(f"{r} px" for r in SHOWN), "from the CNN", "ms"):
        table.add_column(column, justify="right")
    with torch.inference_mode():
        for name, net, z in rows:
            output = net(z)
            begun = time.perf_counter()
            net(z)
            took = 1000 * (time.perf_counter() - begun)
            changed = f"{relative_error(output, cnn(x)):.2f}" if name in ("layers exchanged", "level by level") else ""
            table.add_row(name, *(f"{equivariance_error(net, z, r):.0e}" for r in SHOWN), changed, f"{took:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
