"""``python -m tests.soak``: inference with changing sizes for half an hour; memory has to stay flat.

Nets, sizes, batches and backends change from pass to pass, most sizes come again, some never do. What the library keeps
(constants, plans, spectra) has limits; this shows that they hold. Memory is looked at after the first part, in which
caches fill, and until the end.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from fourierscale.kernels import Backend, backend
from fourierscale.models import ImageModel, create_model

WARM = 0.3  # share of the time in which caches fill
ALLOWED = 1.1  # of the memory at the end of that share
SAMPLES = 200
BACKENDS: tuple[Backend, ...] = ("auto", "gemm", "torch")


def resident() -> int:
    """Bytes of this process in memory, with those on a GPU."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") + (torch.cuda.memory_allocated() if torch.cuda.is_available() else 0)


def make_models(device: str) -> list[ImageModel]:
    """Small nets of each kind: levels, boundaries, pooling, residual blocks, and a baseline."""
    small = {"widths": (8, 8), "hidden": 8}
    models = [
        create_model("scalenet-tiny", **small),
        create_model("scalenet-tiny", **small, boundary="mirror", resolutions=(8, 16, 24)),
        create_model("scalenet-tiny", **small, head="average", grid="common", resolutions=range(8, 29), pool=1),
        create_model("scalenet-tiny", **small, residual=True, stem=4, oversample=2.0),
        create_model("cnn-small", widths=(4, 6, 6)),
    ]
    return [model.eval().to(device) for model in models]


def soak(minutes: float, device: str = "cpu", seed: int = 0, told: Callable[[str], object] = print) -> list[int]:
    """Passes for so many minutes; returns the memory after each of :data:`SAMPLES` equal parts of the time."""
    draw, models = random.Random(seed), make_models(device)
    started, passes, found = time.monotonic(), 0, list[int]()
    while (spent := (time.monotonic() - started) / (60 * minutes)) < 1:
        model = draw.choice(models)
        square = model is models[-1]  # a plain net whose poolings need some pixels
        height = draw.randint(12, 32) if square else draw.choice([draw.randint(8, 32), draw.choice((16, 24, 28))])
        width = height if square or draw.random() < 0.5 else draw.randint(8, 40)
        x = torch.rand(draw.randint(1, 8), 1, height, width, device=device)
        with backend(draw.choice(BACKENDS)), draw.choice([torch.inference_mode, torch.no_grad])():
            model(x)
        passes += 1
        if spent * SAMPLES >= len(found):
            found.append(resident())
            told(f"{60 * minutes * spent:6.0f} s {passes:8,} passes {found[-1] / 2**20:8.1f} MiB")
    return found


def grown(found: list[int]) -> float:
    """Memory of the last tenth over that at the end of the first part, medians of some looks."""
    few = len(found) // 10 + 1
    first = int(WARM * len(found))
    before, after = (sorted(part)[len(part) // 2] for part in (found[first : first + few], found[-few:]))
    return after / before


def main(arguments: list[str] | None = None) -> int:
    """Soak, and say by how much memory has grown; status 1 where it has."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    ratio = grown(soak(options.minutes, options.device, options.seed))
    print(f"memory at the end is {ratio:.3f} of that when caches were full; {ALLOWED} is allowed")
    return int(ratio > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
