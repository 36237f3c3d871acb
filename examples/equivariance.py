"""A four-layer net and a plain CNN on real digits: do they commute with downscaling? A table and a picture.

    python examples/equivariance.py [--out docs/images/feature_maps.png]

For each layer and resolution: the relative squared error between the features of the downscaled image and the
downscaled features of the image.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import downscale
from fourierscale.data import get_dataset
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import TOLERANCE, equivariance_error

WIDTHS = (1, 8, 16, 16, 16)
RESOLUTIONS = (8, 9, 11, 12, 14, 16, 19, 20, 23, 24, 27)
SHOWN = (28, 19, 11)


def plain_cnn() -> nn.Sequential:
    """Four blocks of circular 5x5 convolution, instance norm and ReLU."""
    blocks = [
        nn.Sequential(nn.Conv2d(a, b, 5, padding=2, padding_mode="circular"), nn.InstanceNorm2d(b), nn.ReLU())
        for a, b in itertools.pairwise(WIDTHS)
    ]
    return nn.Sequential(*blocks)


def scale_net() -> nn.Sequential:
    """The same four blocks, scale-equivariant: each takes and gives images."""
    blocks = [
        ScaleEquivariant(nn.Sequential(LocalFourierConv2d(a, b, 5, 28), ScaleActivation2d(b, range(8, 29))))
        for a, b in itertools.pairwise(WIDTHS)
    ]
    return nn.Sequential(*blocks)


def with_the_same_weights(net: nn.Sequential, cnn: nn.Sequential) -> None:
    """Both nets have the same taps: at 28 pixels their first layers agree."""
    for ours, theirs in zip(net, cnn, strict=True):
        ours.module[0].load_state_dict(theirs[0].state_dict())


def equivariance_table(net: nn.Sequential, cnn: nn.Sequential, x: Tensor) -> Table:
    table = Table(title=f"relative squared error of {len(x)} digits, 28 px against each resolution")
    table.add_column("features of")
    for r in RESOLUTIONS:
        table.add_column(f"{r} px", justify="right")
    for name, model in (("plain CNN", cnn), ("fourierscale", net)):
        for depth in range(1, len(model) + 1):
            errors = [equivariance_error(model[:depth], x, r) for r in RESOLUTIONS]
            colour = "green" if max(errors) <= TOLERANCE[x.dtype] else "red"
            table.add_row(f"{name}, layer {depth}", *(f"[{colour}]{e:.0e}[/]" for e in errors))
        table.add_section()
    return table


def feature_maps(net: nn.Sequential, cnn: nn.Sequential, digit: Tensor, channel: int = 5) -> Figure:
    """One channel of the last layer at three resolutions, both ways round."""
    titles, columns, models = ["image"], [[downscale(digit, r) for r in SHOWN]], [None]
    for name, model in (("plain CNN", cnn), ("fourierscale", net)):
        columns.append([model(downscale(digit, r)) for r in SHOWN])
        columns.append([downscale(model(digit), r) for r in SHOWN])
        titles += [f"{name}:\nfeatures of the\ndownscaled image", f"{name}:\ndownscaled features\nof the image"]
        models += [None, model]
    figure, axes = plt.subplots(len(SHOWN), len(columns), figsize=(9.6, 6.8), layout="constrained")
    for j, (title, column, model) in enumerate(zip(titles, columns, models, strict=True)):
        axes[0, j].set_title(title, fontsize=10)
        for axis, r, value in zip(axes[:, j], SHOWN, column, strict=True):
            axis.imshow(value[0, channel if j else 0].numpy(), cmap="magma" if j else "gray")
            axis.set(xticks=[], yticks=[])
            if j == 0:
                axis.set_ylabel(f"{r} x {r}", rotation=0, ha="right", va="center")
            if model is not None:
                error = equivariance_error(model, digit, r)
                colour = "tab:green" if error <= TOLERANCE[digit.dtype] else "tab:red"
                axis.set_xlabel(f"difference {error:.0e}", color=colour, weight="bold")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/feature_maps.png"))
    parser.add_argument("--digits", type=int, default=64)
    args = parser.parse_args()
    raw = get_dataset("mnist")
    step = len(raw) // args.digits
    x = torch.from_numpy(raw.images[::step][: args.digits]).float() / 255
    torch.manual_seed(0)
    net, cnn = scale_net(), plain_cnn()
    with_the_same_weights(net, cnn)
    console = Console(width=120)
    console.print(f"digits from {raw.source}", highlight=False)
    with torch.inference_mode():
        console.print(equivariance_table(net, cnn, x))
        args.out.parent.mkdir(parents=True, exist_ok=True)
        digit = x[raw.labels[::step][: args.digits].tolist().index(5)][None]
        feature_maps(net, cnn, digit).savefig(args.out, dpi=110)
    console.print(f"picture: {args.out}")


if __name__ == "__main__":
    main()
