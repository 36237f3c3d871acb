"""The tables of docs/limits.md: other downscalings, shifts, and precision, on the shipped weights and real digits.

    python benchmarks/limits.py [--digits 64]

Half a minute on one CPU core.
"""

from __future__ import annotations

import argparse

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import downscale, load_pretrained
from fourierscale.data import find_protocol, get_dataset
from fourierscale.functional import crop
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import relative_error

RESOLUTIONS = (8, 14, 20, 27)
MOVED = (3, 5)


def digits(count: int) -> tuple[Tensor, str]:
    """Digits as the shipped weights take them, ``(count, 1, 28, 28)``, and where they come from."""
    raw, protocol = get_dataset("mnist", offline=True), find_protocol("mnist-scale")
    x = torch.from_numpy(raw.images[:: len(raw) // count][:count]).float() / 255
    return (x - protocol.mean[0]) / protocol.std[0], raw.source


def downscalings(model: nn.Module, x: Tensor) -> Table:
    table = Table("downscaling", "", *(f"{r} px" for r in RESOLUTIONS), title="28 px against each resolution")
    features, logits = model.net(x), model(x)
    for kind in ("ideal", "gaussian", "bicubic"):
        images, maps, same = [], [], []
        for r in RESOLUTIONS:
            small = downscale(x, r, kind)
            level = len(model.levels_of((r, r))) - 1
            images.append(f"{relative_error(small, downscale(x, r)):.0e}")
            maps.append(f"{relative_error(crop(features, r), model.net(small)):.0e}")
            same.append(f"{(model(small)[:, -1].argmax(-1) == logits[:, level].argmax(-1)).float().mean():.2f}")
        table.add_row(kind, "images", *images)
        table.add_row("", "features", *maps)
        table.add_row("", "same prediction", *same, end_section=True)
    return table


def precisions(model: nn.Module, x: Tensor) -> Table:
    table = Table("type", "relative squared error", title="28 px against 15 px")

    def error(net: nn.Module, image: Tensor) -> str:
        return f"{relative_error(crop(net(image), 15), net(downscale(image, 15))):.0e}"

    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        net = model.net.to(dtype)
        table.add_row(str(dtype).removeprefix("torch."), error(net, x.to(dtype)))
    return table


def autocast_error(model: nn.Module, x: Tensor) -> str:
    with torch.autocast("cpu", torch.bfloat16):
        return f"{relative_error(crop(model.net(x), 15), model.net(downscale(x, 15))):.0e}"


def shifts(x: Tensor) -> Table:
    table = Table("", *(f"oversample={n}" for n in (1, 2, 4)), title=f"one layer, digits moved by {MOVED} samples")
    for grid, size in (("level", 28), ("common", 27), ("common", 28)):
        image = downscale(x, size)
        errors = []
        for oversample in (1, 2, 4):
            torch.manual_seed(0)
            activation = ScaleActivation2d(8, range(8, 29), grid=grid, oversample=oversample)
            net = ScaleEquivariant(nn.Sequential(LocalFourierConv2d(1, 8, 5, 28), activation))
            moved = torch.roll(net(image), MOVED, (-2, -1))
            errors.append(f"{relative_error(net(torch.roll(image, MOVED, (-2, -1))), moved):.0e}")
        table.add_row(f"grid={grid!r}, {size} px", *errors)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=64)
    args = parser.parse_args()
    x, source = digits(args.digits)
    console = Console(width=110)
    console.print(f"{len(x)} digits from {source}; relative squared errors", highlight=False)
    with torch.inference_mode():
        model = load_pretrained("scalenet-mnist")
        console.print(downscalings(model, x))
        console.print(shifts(x))
        autocast = autocast_error(model, x)
        table = precisions(model, x)  # leaves the model in the last type
        table.add_row("autocast to bfloat16", autocast)
        console.print(table)


if __name__ == "__main__":
    main()
