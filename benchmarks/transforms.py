"""Where does a matrix product stop being faster than an FFT? Times both on one axis, forward and backward.

    python benchmarks/transforms.py [--device cuda] [--out benchmarks/results]

``FFT_FROM`` in ``fourierscale/functional/transform.py`` is set from its table: the first grid size from which the FFT
is faster for analysis and synthesis together.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import time
from pathlib import Path

import torch

from fourierscale.functional import analyze, band, grid, synthesize, transform

SIZES = (28, 48, 96, 128, 192, 224, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
NUMBERS = 2**22  # samples per image batch: every size moves the same amount of data


def step(x: torch.Tensor, n: int) -> None:
    """Analysis and synthesis of both axes, and their gradient."""
    synthesize(analyze(x), n).backward(x.detach())


def median_ms(function, device: str, repeats: int) -> tuple[float, float]:
    times = []
    for i in range(repeats + 2):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= 2:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), max(times) - min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--largest", type=int, default=2048, help="largest grid that is timed")
    parser.add_argument("--out", type=Path, help="folder for the table as CSV")
    args = parser.parse_args()
    name = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"{name}, torch {torch.__version__}, Python {platform.python_version()}, float32, median of {args.repeats}")
    print(f"{'size':>5} {'matrix ms':>10} {'FFT ms':>10} {'matrix/FFT':>11} {'difference':>11}")
    rows = []
    for n in (n for n in SIZES if n <= args.largest):
        images = max(1, NUMBERS // n**2)
        x = torch.randn(images, n, n, device=args.device, requires_grad=True)
        result = {"size": n, "images": images}
        coefficients = []
        for route, limit in (("matrix", 10**9), ("fft", 1)):
            transform.FFT_FROM = {args.device: limit, "cpu": limit}
            result[f"{route}_ms"], result[f"{route}_spread_ms"] = median_ms(
                lambda x=x, n=n: step(x, n), args.device, args.repeats
            )
            coefficients.append(analyze(x.detach()))
        assert coefficients[0].shape[-1] == grid(band(n))
        result["ratio"] = result["matrix_ms"] / result["fft_ms"]
        result["difference"] = float((coefficients[0] - coefficients[1]).norm() / coefficients[1].norm())
        rows.append(result)
        print(
            f"{n:5d} {result['matrix_ms']:10.2f} {result['fft_ms']:10.2f} {result['ratio']:11.2f} "
            f"{result['difference']:11.1e}"
        )
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / f"transforms-{args.device}.csv"
        with path.open("w", newline="") as file:
            file.write(f"# {name}, torch {torch.__version__}, Python {platform.python_version()}\n")
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
