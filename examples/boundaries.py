"""What a net sees beyond the edge of an image under each boundary, and how far a change there reaches: a picture.

    python examples/boundaries.py [--out docs/images/boundary.png]

The right eighth of a drawn landscape changes. With a circular boundary the features at the left edge change too, with
the others hardly: the table has the share of the change that is in the left eighth.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from fourierscale import create_model
from fourierscale.functional import extend, synthesize

SIDE = 64
BOUNDARIES = ("circular", "mirror", "canvas")


def landscape(n: int) -> Tensor:
    """Its four edges differ: sky, ground, a sun, a dark tower near the right edge."""
    row, column = torch.meshgrid(torch.arange(n) / n, torch.arange(n) / n, indexing="ij")
    x = torch.where(row < 0.62 + 0.06 * torch.sin(7 * column), 0.75 - 0.35 * row, 0.3 - 0.15 * column)
    sun, tower = (row - 0.22).square() + (column - 0.25).square() < 0.012, (column > 0.84) & (row > 0.15)
    return torch.where(tower, 0.05, torch.where(sun, 1.0, x))[None, None]


def change_of_features(x: Tensor, boundary: str) -> Tensor:
    """Change of the features of a net with random weights when the right eighth of the image changes."""
    torch.manual_seed(0)
    model = create_model(
        "scalenet-tiny", resolutions=[16, 32, 64], norm="none", grid="common", boundary=boundary
    ).eval()
    changed = x.clone()
    changed[..., -SIDE // 8 :] = 0.9 - x[..., -SIDE // 8 :]
    return synthesize(model.features(changed) - model.features(x), SIDE, boundary)[0].square().mean(0).sqrt()


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("boundary.png"))
    args = parser.parse_args()
    x, table = landscape(SIDE), Table("boundary", "change in the left eighth")
    figure, axes = plt.subplots(2, 3, figsize=(8.4, 5.6), layout="constrained", subplot_kw={"xticks": [], "yticks": []})
    for (upper, lower), boundary in zip(axes.T, BOUNDARIES, strict=True):
        whole = extend(x, boundary)[0, 0]
        first = len(whole) - SIDE // 2
        shown = whole.tile(3, 3)[first : first + 2 * SIDE, first : first + 2 * SIDE]
        upper.imshow(shown.numpy(), cmap="gray", vmin=0, vmax=1)
        upper.add_patch(plt.Rectangle((SIDE // 2 - 0.5,) * 2, SIDE, SIDE, fill=False, edgecolor="tab:red", linewidth=2))
        upper.set_title(f'boundary="{boundary}"')
        change = change_of_features(x, boundary)
        lower.imshow((change / change.max()).clamp(min=1e-3).log10().numpy(), cmap="magma", vmin=-3, vmax=0)
        lower.axvline(SIDE - SIDE // 8 - 0.5, color="white", linewidth=1, linestyle=":")
        share = change[:, : SIDE // 8].square().sum() / change.square().sum()
        table.add_row(boundary, f"{share:.0e}")
    axes[0, 0].set_ylabel("what the net sees; red: the image")
    axes[1, 0].set_ylabel("change of the features when the\nright eighth changes (log, 3 decades)")
    figure.savefig(args.out, dpi=90)
    Console().print(table)


if __name__ == "__main__":
    main()
