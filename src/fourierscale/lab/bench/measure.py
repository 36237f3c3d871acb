"""Times, memory and errors of the contestants of a case, and what the device can do at best."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.kernels import backend
from fourierscale.lab.bench.cases import PAIR, Case, choose_cases
from fourierscale.lab.bench.contestants import BACKENDS, Contestant, make_contestants
from fourierscale.lab.bench.cost import step_cost
from fourierscale.lab.bench.suites import Job, Precision, Record, Settings, times
from fourierscale.training.graphs import GraphedTraining

__all__ = ["Ceilings", "measure_case", "measure_cases", "measure_ceilings", "peak_bytes", "precision_of_products"]


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
        product = min(times([lambda: torch.mm(a, b, out=output)], device, 0.2, 5)[0])
        source = torch.zeros(16 * n * n, device=device)
        target = torch.empty_like(source)
        copying = min(times([lambda: target.copy_(source)], device, 0.2, 5)[0])
    return Ceilings(2 * n**3 / product, 2 * source.nbytes / copying)


def measure_cases(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Measure cases one after the other, with the ceilings of each precision before the first that needs them.

    Args:
        names: Cases or groups of them; see :func:`fourierscale.lab.bench.cases.choose_cases`.
        settings: A quick run has fewer cases and peers.
    """
    device, ceilings = settings.device, {}
    for case in choose_cases(names, device.type, settings.quick):
        products = case.precision or settings.precision
        if products not in ceilings:
            ceilings[products] = found = measure_ceilings(device, products)
            rates = {"gflop_per_s": found.flops_per_second / 1e9, "gbyte_per_s": found.bytes_per_second / 1e9}
            yield f"ceilings-{device.type}", {"products": products, **rates}
        try:
            for row in measure_case(case, settings, ceilings[products]):
                yield f"bench-{device.type}", row
        except torch.OutOfMemoryError:
            logging.getLogger(__name__).warning("%s: out of memory, left out", case.name)
        if device.type == "cuda":
            torch.cuda.empty_cache()


def measure_case(case: Case, settings: Settings, ceilings: Ceilings | None = None) -> list[dict[str, Any]]:
    """Measure ours and its peers.

    Args:
        case: What to measure.
        settings: How.
        ceilings: For the floor.

    Returns:
        A row for each contestant, ours first, with ``None`` where something does not apply. ``ours_ratio`` is the
        median over the repeats of the time of ours divided by this one's: below 1, ours is faster. ``peak_mib`` is what
        a step takes beyond parameters and input. ``error`` is relative, against the specification in float64; that of a
        peer against itself. ``floor_ms`` is what the ceilings allow for the work of the cost model.
    """
    case, device = replace(case, precision=case.precision or settings.precision), settings.device
    jobs: dict[str, Job] = {}
    peaks: dict[str, float] = {}
    errors: dict[str, float] = {}
    with precision_of_products(case.precision or "highest"):
        contestants = make_contestants(case, device)
        for contestant in contestants:
            jobs[contestant.name] = job = _step(contestant, case, contestant.model)
            job()
            errors[contestant.name] = _error(contestant, case)
            peaks[contestant.name] = _peak(contestant, job) / 2**20
        for contestant in contestants:
            if device.type == "cuda" and contestant.name in case.graphed:
                jobs[f"{contestant.name} graphed"] = _graphed(contestant, case)
        budget = 0.3 if settings.quick else 1.0 if device.type == "cuda" else 4.0
        taken = dict(zip(jobs, settings.times(list(jobs.values()), budget), strict=True))
    work = step_cost(case, device.type)
    floor = None if ceilings is None else 1e3 * work.seconds(ceilings.flops_per_second, ceilings.bytes_per_second)
    rows = []
    for name, own in taken.items():
        plain, *graphed = name.split()
        beside = taken["ours graphed" if graphed and "ours graphed" in taken else "ours"]  # both as graphs, or neither
        low, middle, high = (1e3 * t for t in statistics.quantiles(own, n=4, method="inclusive"))
        row = {"case": case.name, "contestant": name, "model": case.model, "size": case.size, "batch": case.batch}
        row |= {"channels": case.channels, "levels": case.levels, "mode": "train" if case.train else "inference"}
        row |= {"grid": case.grid, "precision": case.precision, "median_ms": middle, "quartile1_ms": low}
        row |= {"quartile3_ms": high, "repeats": len(own)}
        row["ours_ratio"] = statistics.median(a / b for a, b in zip(beside, own, strict=True))
        row |= {"peak_mib": None if graphed else peaks[plain], "error": errors[plain]}
        modelled = {"gflop": work.flops / 1e9, "mbyte": work.bytes / 1e6, "floor_ms": floor}
        modelled["times_floor"] = None if floor is None else middle / floor
        rows.append(row | (modelled if plain in BACKENDS else dict.fromkeys(modelled)))
    return rows


def _step(contestant: Contestant, case: Case, forward: Callable[[Tensor], Tensor]) -> Job:
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


def _graphed(contestant: Contestant, case: Case) -> Job:
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


def _peak(contestant: Contestant, step: Job) -> float:
    """Most bytes that were allocated at a time during a step, beyond those before it and those that layers keep."""
    step()  # the model may have been switched to evaluation since its last step, which forgets what layers keep
    contestant.model.zero_grad(set_to_none=True)
    contestant.x.grad = None
    return peak_bytes(step, contestant.x.device)


def peak_bytes(step: Job, device: torch.device) -> float:
    """Most bytes that are allocated at a time during a step, beyond those before it."""
    if device.type == "cuda":
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
