"""Images per second: digits at their resolutions, cut and downscaled a batch at a time, against one by one.

Both paths make the same images; the script checks that before it measures. The published set is fetched if it is not
there yet.

    python benchmarks/data.py --out results/bench/data.csv
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import fourierscale
from fourierscale.data import ResolutionBatchSampler, ScaledDataset, load_protocol, make_loader


def one_by_one(dataset: ScaledDataset, batch_size: int) -> float:
    """The loop of a map-style dataset: every item alone, then stacked. Returns a checksum."""
    total = 0.0
    for items in ResolutionBatchSampler(dataset.item_resolutions, batch_size):
        total += float(torch.stack([dataset[item][0] for item in items]).sum())
    return total


def batched(dataset: ScaledDataset, batch_size: int) -> float:
    """One vectorised call per batch, through the loader."""
    return sum(float(batch.images.sum()) for batch in make_loader(dataset, batch_size))


def check_equal(dataset: ScaledDataset, batch_size: int) -> None:
    """Every image, both ways; also a warm-up."""
    for batch in make_loader(dataset, batch_size):
        alone = torch.stack([dataset[item][0] for item in batch.indices.tolist()])
        torch.testing.assert_close(batch.images, alone, atol=1e-5, rtol=0)


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="mnist-scale")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--limit", type=int, help="use only so many test images")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the rows as CSV")
    options = parser.parse_args()

    start = time.perf_counter()
    splits = load_protocol(options.protocol, data_dir=options.data_dir)
    loading = time.perf_counter() - start
    test = splits.test
    if options.limit is not None:
        few, protocol = slice(options.limit), splits.protocol
        test = ScaledDataset(test.images[few], test.labels[few], test.resolutions, mean=protocol.mean, std=protocol.std)
    check_equal(test, options.batch_size)
    versions = f"torch {torch.__version__}, numpy {np.__version__}, python {platform.python_version()}"
    print(
        f"{splits.protocol.name}: {len(test):,} test images from {splits.source}; loaded and split in {loading:.2f} s"
    )
    print(f"{versions}, {torch.get_num_threads()} threads, batch {options.batch_size}, commit {commit()}")
    rows = []
    for name, path in (("batched", batched), ("one by one", one_by_one)):
        seconds = median_seconds(lambda path=path: path(test, options.batch_size), options.repeats)
        rate = round(len(test) / seconds)
        rows.append({"path": name, "images": len(test), "seconds": round(seconds, 4), "images_per_s": rate})
        print(f"{name:10}  {seconds:8.3f} s  {rate:12,} images/s")
    print(f"ratio {rows[0]['images_per_s'] / rows[1]['images_per_s']:.1f}, medians of {options.repeats}")
    if options.out is not None:
        extra = {
            "protocol": splits.protocol.name,
            "batch_size": options.batch_size,
            "repeats": options.repeats,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "fourierscale": fourierscale.__version__,
            "commit": commit(),
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=[*rows[0], *extra])
            writer.writeheader()
            writer.writerows({**row, **extra} for row in rows)
        print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
