"""Times, memory and errors of the contestants of a case, and what the device can do at best.

The repeats of a case and its peers are interleaved: whatever else the machine does hits all of them alike.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.kernels import backend
from fourierscale.lab.bench.cases import PAIR, Case, Precision
from fourierscale.lab.bench.contestants import BACKENDS, Contestant, make_contestants
from fourierscale.lab.bench.cost import cost
from fourierscale.training.graphs import GraphedTraining

__all__ = ["Ceilings", "Row", "measure_case", "measure_ceilings", "precision_of_products"]

Step = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What was measured of one contestant in a case; ``None`` where something does not apply."""

    case: str
    contestant: str
    model: str
    size: int
    batch: int
    channels: int
    levels: int
    mode: str
    grid: str
    precision: str
    median_ms: float
    quartile1_ms: float
    quartile3_ms: float
    repeats: int
    ours_ratio: float
    """Median over the repeats of the time of ours divided by this one's: below 1, ours is faster."""
    peak_mib: float | None
    """Most memory that a step takes beyond parameters and input."""
    error: float
    """Relative error against the specification in float64; of a peer, against itself in float64."""
    gflop: float | None
    """By the cost model."""
    mbyte: float | None
    floor_ms: float | None
    """What the device's measured ceilings allow at best."""
    times_floor: float | None


@dataclass(frozen=True)
class Ceilings:
    """Best rates that were measured: a large product, and a copy (bytes read plus bytes written)."""

    flops_per_second: float
    bytes_per_second: float


@contextmanager
def precision_of_products(precision: Precision) -> Iterator[None]:
    """Set how torch multiplies float32 matrices and convolves, within a ``with`` block."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "bfloat16" else precision)
    torch.backends.cudnn.allow_tf32 = precision != "highest"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def measure_ceilings(device: torch.device, precision: Precision, side: int | None = None) -> Ceilings:
    """Rates of a square product in this precision and of a copy, the best of several."""
    n = side or (4096 if device.type == "cuda" else 1024)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    with precision_of_products(precision):
        a, b = torch.randn(2, n, n, device=device, dtype=dtype)
        output = torch.empty_like(a)
        product = min(_times([lambda: torch.mm(a, b, out=output)], device, 0.2, 5)[0])
        source = torch.zeros(16 * n * n, device=device)
        target = torch.empty_like(source)
        copying = min(_times([lambda: target.copy_(source)], device, 0.2, 5)[0])
    return Ceilings(2 * n**3 / product, 2 * source.nbytes / copying)


def measure_case(
    case: Case,
    device: torch.device,
    precision: Precision = "highest",
    seconds: float = 2.0,
    least: int = 5,
    ceilings: Ceilings | None = None,
) -> list[Row]:
    """Measure ours and its peers.

    Args:
        case: What to measure.
        device: Where.
        precision: Of products, where the case does not say.
        seconds: About how long the repeats may take together.
        least: Repeats at least.
        ceilings: For the floor.

    Returns:
        A row for each contestant, ours first.
    """
    precision = case.precision or precision
    with precision_of_products(precision):
        contestants = make_contestants(case, device)
        names: list[str] = []
        steps: list[Step] = []
        peaks: list[float | None] = []
        errors: list[float] = []
        for contestant in contestants:
            step = _step(contestant, case, contestant.model)
            step()
            errors.append(_error(contestant, case))
            names.append(contestant.name)
            peaks.append(_peak(contestant, step))
            steps.append(step)
        if device.type == "cuda":
            for contestant, error in zip(contestants, list(errors), strict=True):
                if contestant.name in case.graphed:
                    names.append(f"{contestant.name} graphed")
                    steps.append(_graphed(contestant, case))
                    steps[-1]()
                    peaks.append(None)
                    errors.append(error)
        times = _times(steps, device, seconds, least)
    rows = []
    work = cost(case, device.type)
    ours = names[0]
    for name, own, peak, error in zip(names, times, peaks, errors, strict=True):
        alike = f"{ours} graphed" if name.endswith(" graphed") else ours  # both as CUDA graphs, or neither
        beside = times[names.index(alike if alike in names else ours)]
        low, middle, high = (1e3 * t for t in statistics.quantiles(own, n=4, method="inclusive"))
        floor = None if ceilings is None else 1e3 * work.seconds(ceilings.flops_per_second, ceilings.bytes_per_second)
        is_ours = name.split()[0] in BACKENDS
        rows.append(
            Row(
                case=case.name,
                contestant=name,
                model=case.model,
                size=case.size,
                batch=case.batch,
                channels=case.channels,
                levels=case.levels,
                mode="train" if case.train else "inference",
                grid=case.grid,
                precision=precision,
                median_ms=middle,
                quartile1_ms=low,
                quartile3_ms=high,
                repeats=len(own),
                ours_ratio=statistics.median(a / b for a, b in zip(beside, own, strict=True)),
                peak_mib=None if peak is None else peak / 2**20,
                error=error,
                gflop=work.flops / 1e9 if is_ours else None,
                mbyte=work.bytes / 1e6 if is_ours else None,
                floor_ms=floor if is_ours else None,
                times_floor=middle / floor if is_ours and floor else None,
            )
        )
    return rows


def _step(contestant: Contestant, case: Case, forward: Callable[[Tensor], Tensor]) -> Step:
    """One training step without the optimizer, or one forward pass for inference."""
    model, x = contestant.model, contestant.x

    def run() -> Tensor:
        with backend(contestant.backend), _autocast(case, x.device):
            return forward(x)

    if not case.train:
        return torch.no_grad()(run)
    if case.model == PAIR:  # in the middle of a network: the input has a gradient too
        x.requires_grad_()
        with torch.no_grad():
            gradient = torch.randn_like(run())
    labels = torch.arange(len(x), device=x.device) % 10

    def train() -> None:
        x.grad = None
        model.zero_grad(set_to_none=True)
        y = run()
        if case.model == PAIR:
            y.backward(gradient)  # type: ignore[no-untyped-call, unused-ignore]
            return
        levels = y[:, None] if y.ndim == 2 else y  # (B, levels, classes)
        loss = nn.functional.cross_entropy(levels.flatten(0, 1).float(), labels.repeat_interleave(levels.shape[1]))
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]

    return train


def _graphed(contestant: Contestant, case: Case) -> Step:
    """The same step with its passes replayed as CUDA graphs."""
    if case.train:
        return _step(contestant, case, GraphedTraining(contestant.model))
    step = _step(contestant, case, contestant.model)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call, unused-ignore]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):  # libraries set themselves up on first use, which cannot be captured
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def _autocast(case: Case, device: torch.device) -> Any:
    return torch.autocast(device.type, torch.bfloat16) if case.precision == "bfloat16" else nullcontext()


@torch.no_grad()
def _error(contestant: Contestant, case: Case) -> float:
    """Relative error of the output for the first images, against the same module in float64."""
    model, x = contestant.model.eval(), contestant.x[:2].detach()
    with backend(contestant.backend), _autocast(case, x.device):
        y = model(x)
    with backend("torch"):
        exact = copy.deepcopy(model).double()(x.to(torch.complex128 if x.is_complex() else torch.float64))
    model.train(case.train)
    return float((y.to(exact.dtype) - exact).norm() / exact.norm())


def _peak(contestant: Contestant, step: Step) -> float:
    """Most bytes that were allocated at a time during a step, beyond those before it and those that layers keep."""
    step()  # the model may have been switched to evaluation since its last step, which forgets what layers keep
    contestant.model.zero_grad(set_to_none=True)
    contestant.x.grad = None
    if contestant.x.is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return float(torch.cuda.max_memory_allocated() - before)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with _silent(), torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]")
    return float(max(itertools.accumulate((change for _, change in changes), initial=0)))


@contextmanager
def _silent() -> Iterator[None]:
    """Without the lines that the profiler's C++ code writes on standard error whenever it starts or stops."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _times(steps: Sequence[Step], device: torch.device, seconds: float, least: int) -> list[list[float]]:
    """Seconds of each step, measured in turns; very short steps are run several times and divided.

    Args:
        steps: Already warm.
        device: Where they run.
        seconds: About how long all of it may take.
        least: Repeats at least.
    """
    once = [max(_seconds(step, device, 1), 1e-7) for step in steps]
    counts = [max(1, min(20, math.ceil(2e-3 / t))) for t in once]
    round_seconds = sum(t * count for t, count in zip(once, counts, strict=True))
    repeats = max(least, min(50, math.floor(seconds / round_seconds)))
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(repeats):
        for own, step, count in zip(times, steps, counts, strict=True):
            own.append(_seconds(step, device, count))
    return times


def _seconds(step: Step, device: torch.device, count: int) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(count):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / count
