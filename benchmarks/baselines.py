"""What does a training step of each network cost? Ours and every baseline, in one run.

    python benchmarks/baselines.py [--device cuda] [--models cnn-mnist scalenet-mnist] [--out results/bench]

A step is forward pass, loss, backward pass and optimizer, with the model's own recipe, on a full batch of the largest
images the model was made for: 128 of 28 x 28, 16 of 96 x 96. On a GPU the step is also timed as training in single
precision runs it, with the passes replayed as CUDA graphs. ``--precision bf16`` is mixed, as the colour tables were
trained; on a GPU a wide residual net then lies channels last in memory.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import subprocess
import time
from pathlib import Path

import torch

from fourierscale.models import create_model, list_models, model_cost, model_info
from fourierscale.training import load_config, scale_loss
from fourierscale.training.graphs import GraphedTraining
from fourierscale.training.optim import make_optimizer

BATCH = {28: 128, 96: 16}
WARM_UP = 3


def times_ms(step, device: str, repeats: int) -> list[float]:
    times = []
    for i in range(repeats + WARM_UP):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= WARM_UP:
            times.append(1e3 * (time.perf_counter() - start))
    return times


def measure(name: str, device: str, batch: int | None, repeats: int, precision: str = "32") -> dict:
    info, cost = model_info(name), model_cost(name)
    channels, side, _ = info.largest_input
    images = batch or BATCH[side]
    config = load_config(info.recipe)
    torch.manual_seed(0)
    model, half = create_model(name).to(device).train(), precision == "bf16"
    if half and device == "cuda" and name.startswith("wrn"):  # on CPUs torch 2.13 then writes beyond its memory
        model.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model, config.optim)
    x = torch.randn(images, channels, side, side, device=device)
    labels = torch.arange(images, device=device) % info.default("classes")
    loss = config.loss

    def step(forward=model) -> None:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            logits = forward(x)
        scale_loss(logits.float(), labels, loss.hinge, loss.weight, loss.margin, loss.levels).backward()
        optimizer.step()

    result = {"model": name, "parameters": cost.parameters, "flops": cost.flops, "fixed_flops": cost.fixed_flops}
    result |= {"side": side, "batch": images}
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = times_ms(step, device, repeats)
    result |= {"step_ms": statistics.median(times), "spread_ms": max(times) - min(times)}
    if device == "cuda":
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
        graphed = None if half else GraphedTraining(model)
        result["graphed_ms"] = graphed and statistics.median(times_ms(lambda: step(graphed), device, repeats))
    return result


def commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", nargs="+", default=list_models(), metavar="NAME", help="default: all of them")
    parser.add_argument("--batch", type=int, help="images in a batch, if not 128 of 28 x 28 and 16 of 96 x 96")
    parser.add_argument("--precision", choices=("32", "bf16"), default="32")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, help="folder for the table as CSV")
    args = parser.parse_args()
    machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    header = f"{machine}, torch {torch.__version__}, Python {platform.python_version()}, commit {commit()}"
    print(f"{header}, {'bfloat16, mixed' if args.precision == 'bf16' else 'float32'}, median of {args.repeats}")
    print(f"{'model':26} {'batch':>16} {'step ms':>9} {'graphed ms':>11} {'peak MiB':>9}")
    rows = []
    for name in args.models:
        row = measure(name, args.device, args.batch, args.repeats, args.precision)
        rows.append(row)
        size = f"{row['batch']} of {row['side']} x {row['side']}"
        graphed = f"{row['graphed_ms']:11.2f}" if row.get("graphed_ms") else " " * 11
        rest = f"{graphed} {row['peak_mib']:9.0f}" if args.device == "cuda" else ""
        print(f"{name:26} {size:>16} {row['step_ms']:9.2f} {rest}", flush=True)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / f"baselines-{args.device}{'-bf16' if args.precision == 'bf16' else ''}.csv"
        with path.open("w", newline="") as file:
            file.write(f"# {header}\n")
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
