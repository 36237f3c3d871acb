"""The price of exact maps: what only the fine image shows cannot move the coarse part of an exact answer.

    python examples/price_of_maps.py --out price.png

A spot of fine stripes lies anywhere on a ground of the mean grey. Downscaled, every such image is the same flat grey,
so an exact map must give all of them the same coarse part; the best it can do is the mean over all places, with the
finer frequencies of the true mask. Expect an overlap of 1 where the lowest level still sees the stripes, and far less
where it does not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from fourierscale.functional import analyze, band, downscale, synthesize

SIDE, STRIPES, PLACES = 96, 40, 24  # stripes: waves along the side, above the band of 48 pixels
LOWEST = (8, 16, 32, 48, 96)


def striped_spot(row: float, column: float, width: float = 0.11) -> tuple[Tensor, Tensor]:
    """An image and its mask, ``(SIDE, SIDE)``; places and width are shares of the side."""
    line = torch.arange(SIDE, dtype=torch.float64) / SIDE
    across = [torch.minimum((line - place) % 1, (place - line) % 1) for place in (row, column)]
    spot = (-(across[0][:, None] ** 2 + across[1][None, :] ** 2) / (2 * width**2)).exp()
    stripes = (2 * torch.pi * STRIPES * line).cos()[None, :]
    return 0.5 + 0.5 * stripes * spot, (spot > 0.2).double()


def best_exact_answer(mask: Tensor, mean: Tensor, lowest: int) -> Tensor:
    """The true mask's frequencies above a level, and at and below it those of the mean over all places."""
    answer, coarse = analyze(mask), analyze(mean)
    keep = 2 * band(lowest) + 1
    answer[:keep, :keep] = coarse[:keep, :keep]
    return synthesize(answer, SIDE)


def overlap(found: Tensor, mask: Tensor) -> float:
    """Intersection over union at the threshold that suits best."""
    limits = torch.linspace(float(found.min()), float(found.max()), 64, dtype=found.dtype)
    both = [((found > limit) & (mask > 0.5), (found > limit) | (mask > 0.5)) for limit in limits]
    return max(float(inside.sum() / either.sum()) for inside, either in both)


def main() -> None:
    parser = argparse.ArgumentParser(description="The price of exact maps.")
    parser.add_argument("--out", type=Path, help="write a picture")
    arguments = parser.parse_args()
    places = [(i / PLACES, j / PLACES) for i in range(PLACES) for j in range(PLACES)]
    mean = torch.stack([striped_spot(*place)[1] for place in places]).mean(0)
    image, mask = striped_spot(0.4, 0.6)
    table = Table(title=f"a spot of {STRIPES} stripes on {SIDE} pixels")
    for column in ("lowest level, px", "image there varies by", "overlap of the best exact mask"):
        table.add_column(column, justify="right")
    answers = {}
    for lowest in LOWEST:
        seen = downscale(image, lowest)
        varies = float(seen.max() - seen.min())
        answers[lowest] = mask if varies > 0.1 else best_exact_answer(mask, mean, lowest)
        table.add_row(str(lowest), f"{varies:.0e}", f"{overlap(answers[lowest], mask):.2f}")
    Console(width=100).print(table)
    if arguments.out is not None:
        draw(image, mask, answers, arguments.out)
        print(f"wrote {arguments.out}")


def draw(image: Tensor, mask: Tensor, answers: dict[int, Tensor], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    rows = figure.subplots(2, 1 + len(answers))
    for axes in rows.flat:
        axes.set_xticks([])
        axes.set_yticks([])
    rows[0, 0].imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
    rows[0, 0].set_title(f"image, {SIDE} px", fontsize=9)
    rows[1, 0].imshow(mask.numpy(), cmap="viridis", vmin=0, vmax=1)
    rows[1, 0].set_title("true mask", fontsize=9)
    for place, (lowest, answer) in enumerate(answers.items(), 1):
        rows[0, place].imshow(downscale(image, lowest).numpy(), cmap="gray", vmin=0, vmax=1)
        rows[0, place].set_title(f"what {lowest} px show", fontsize=9)
        rows[1, place].imshow(answer.numpy(), cmap="viridis", vmin=0, vmax=1)
        rows[1, place].set_title(f"best answer exact\nfrom {lowest} px on: {overlap(answer, mask):.2f}", fontsize=9)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
