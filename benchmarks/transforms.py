"""Where does a matrix product stop being faster than an FFT? Times both, forward and backward.

    python benchmarks/transforms.py [axes | nested] [--device cuda] [--out results/bench]

``axes``: analysis and synthesis of images. ``FFT_FROM`` in ``fourierscale/functional/transform.py`` is the first grid
size of this table from which the FFT is faster.

``nested``: one scale-equivariant activation of six levels, 32 channels of one image, by products (features lie
frequency first) or as the specification, whose large grids take FFTs. ``LARGEST`` in
``fourierscale/kernels/products.py`` is set from this table.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from fourierscale.functional import analyze, band, grid, synthesize, transform
from fourierscale.kernels import products
from fourierscale.nn import ScaleActivation2d

SIZES = (28, 48, 96, 128, 192, 224, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
NUMBERS = 2**22  # samples per image batch: every size moves the same amount of data
CHANNELS = 32
LIMITS = {"matrix": 10**9, "fft": 1}


def axes(n: int, device: str) -> tuple[Callable[[], Tensor], Callable[[str], None]]:
    """Analysis and synthesis of both axes of images, with their gradient; gives the coefficients."""
    x = torch.randn(max(1, NUMBERS // n**2), n, n, device=device, requires_grad=True)

    def step() -> Tensor:
        coefficients = analyze(x)
        synthesize(coefficients, n).backward(x.detach())
        assert coefficients.shape[-1] == grid(band(n))
        return coefficients.detach()

    def choose(route: str) -> None:
        transform.FFT_FROM = {device: LIMITS[route], "cpu": LIMITS[route]}

    return step, choose


def nested(n: int, device: str) -> tuple[Callable[[], Tensor], Callable[[str], None]]:
    """An activation of six levels, with its gradient; gives its output."""
    layer = ScaleActivation2d(CHANNELS, [round(n * share / 10) for share in range(5, 11)]).to(device)
    side = grid(band(n))
    falling = 1 / torch.arange(1, side + 1, device=device)
    x = (torch.randn(1, CHANNELS, side, side, device=device) * falling[:, None] * falling).requires_grad_()

    def step() -> Tensor:
        y = layer(x)
        y.backward(x.detach())
        return y.detach()

    def choose(route: str) -> None:
        products.LARGEST = {device: LIMITS[route], "cpu": LIMITS[route]}

    return step, choose


def median_ms(function: Callable[[], object], device: str, repeats: int) -> tuple[float, float]:
    times = []
    for i in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= 1:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), max(times) - min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("axes", "nested"), default="axes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--largest", type=int, default=2048, help="largest grid that is timed")
    parser.add_argument("--out", type=Path, help="folder for the table as CSV")
    args = parser.parse_args()
    make = {"axes": axes, "nested": nested}[args.what]
    name = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"{name}, torch {torch.__version__}, Python {platform.python_version()}, float32, median of {args.repeats}")
    print(f"{'size':>5} {'matrix ms':>10} {'FFT ms':>10} {'matrix/FFT':>11} {'difference':>11}")
    rows = []
    for n in (n for n in SIZES if n <= args.largest):
        step, choose = make(n, args.device)
        result: dict[str, float] = {"size": n}
        outputs = []
        for route in LIMITS:
            choose(route)
            outputs.append(step())
            times = median_ms(step, args.device, args.repeats)
            result[f"{route}_ms"], result[f"{route}_spread_ms"] = times
        result["ratio"] = result["matrix_ms"] / result["fft_ms"]
        result["difference"] = float((outputs[0] - outputs[1]).norm() / outputs[1].norm())
        rows.append(result)
        print(
            f"{n:5d} {result['matrix_ms']:10.2f} {result['fft_ms']:10.2f} {result['ratio']:11.2f} "
            f"{result['difference']:11.1e}",
            flush=True,
        )
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / f"{'transforms' if args.what == 'axes' else 'nested'}-{args.device}.csv"
        with path.open("w", newline="") as file:
            file.write(f"# {name}, torch {torch.__version__}, Python {platform.python_version()}\n")
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
