"""What all suites share: how they are told what to measure, how they take times, and the file they write."""

from __future__ import annotations

import csv
import importlib.metadata
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import torch

from fourierscale.models.files import replacing
from fourierscale.nn.checks import nearest

__all__ = ["Job", "OtherProcesses", "Precision", "Record", "Settings", "about", "chosen", "times", "write_csv"]

Precision: TypeAlias = Literal["highest", "high", "bfloat16"]
"""Of products: float32 as ``torch.set_float32_matmul_precision`` takes it, or bfloat16 through autocast."""
Job: TypeAlias = Callable[[], object]
Record: TypeAlias = tuple[str, dict[str, Any]]
"""Stem of a file, and one line of it: values by column."""
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        device: Where.
        precision: Of products, where a case does not say.
        quick: Fewer and smaller things.
        repeats: How often each time is taken, at least; 7 if not given, 3 of a quick run.
        batch: Images in a batch, where that is not what is measured.
        images: Folder of class folders with photographs.
    """

    device: torch.device
    precision: Precision = "highest"
    quick: bool = False
    repeats: int | None = None
    batch: int | None = None
    images: Path | None = None

    def times(self, jobs: Sequence[Job], seconds: float = 0.0) -> list[list[float]]:
        """See :func:`times`."""
        return times(jobs, self.device, seconds, self.repeats or (3 if self.quick else 7))


def chosen(names: Sequence[str], known: Mapping[str, T]) -> list[T]:
    """What is known under these names; all of it where no name is given."""
    for name in names:
        if name not in known:
            raise ValueError(f"unknown case {name!r}: {nearest(name, known)}")
    return [known[name] for name in names or known]


def times(jobs: Sequence[Job], device: torch.device, seconds: float, least: int) -> list[list[float]]:
    """Seconds of each job, measured in turns: whatever else the machine does hits all of them alike.

    Args:
        jobs: Each is run once before; very short ones are run several times and divided.
        device: Where they run.
        seconds: About how long all of it may take.
        least: Repeats at least.
    """
    for job in jobs:
        job()
    once = [max(_seconds(job, device, 1), 1e-7) for job in jobs]
    counts = [max(1, min(20, math.ceil(2e-3 / t))) for t in once]
    each_round = sum(t * count for t, count in zip(once, counts, strict=True))
    repeats = max(least, min(50, math.floor(seconds / each_round)))
    rounds = [[_seconds(job, device, n) for job, n in zip(jobs, counts, strict=True)] for _ in range(repeats)]
    return [list(own) for own in zip(*rounds, strict=True)]


def _seconds(job: Job, device: torch.device, count: int) -> float:
    wait: Job = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(count):
        job()
    wait()
    return (time.perf_counter() - start) / count


def about(device: torch.device) -> dict[str, str]:
    """Where a run took place: device, versions, commit."""
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = ""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "torch": torch.__version__,
        "triton": triton,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    """The CPU by its own name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # no Linux
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    threads = torch.get_num_threads()
    name = names[0] if names else f"{platform.processor() or platform.machine()} CPU"
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:  # there is no git
        return "unknown"
    return found.stdout.strip() or "unknown"


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], where: Mapping[str, str]) -> None:
    """One line for each row, figures in four digits, and where they were measured."""
    lines = [{name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*lines[0], *where])
        writer.writeheader()
        writer.writerows({**line, **where} for line in lines)


class OtherProcesses:
    """How much of the CPU everybody else takes while this process measures.

    Many short operations on all cores suffer more from a neighbour than few long ones, so taking turns is not enough.
    """

    def __init__(self) -> None:
        self.begun = self._seconds()

    def share(self) -> float | None:
        """Share of the CPU's time since the beginning that went to others; None where it cannot be known."""
        now = self._seconds()
        if self.begun is None or now is None:
            return None
        busy, total, own = (after - before for after, before in zip(now, self.begun, strict=True))
        return max(0.0, busy - own) / max(total, 1e-9)

    @staticmethod
    def _seconds() -> tuple[float, float, float] | None:
        """Seconds that all cores were busy, that have passed on all cores, and that this process had."""
        try:
            numbers = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:  # no Linux
            return None
        tick = os.sysconf("SC_CLK_TCK")
        idle = numbers[3] + numbers[4]  # waiting for a disk is idle too
        return (sum(numbers) - idle) / tick, sum(numbers) / tick, time.process_time()
