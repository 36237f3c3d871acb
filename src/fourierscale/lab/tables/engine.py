"""Run many trainings, several at a time, each a process of its own that can be stopped and resumed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from fourierscale.data.cache import locked
from fourierscale.data.errors import DataError
from fourierscale.lab.tables.queue_log import QueueLog, cpu_seconds
from fourierscale.lab.tables.results import collect, is_finished, read_results
from fourierscale.lab.tables.runs import Run
from fourierscale.models.files import write_whole
from fourierscale.training.callbacks import read_log
from fourierscale.training.errors import NoMemoryError

__all__ = ["Job", "run_all"]

State: TypeAlias = Literal["waiting", "running", "done", "failed", "stopped"]
LOG = "run.log"
PATIENCE = 60.0  # seconds that a process gets to end by itself


@dataclass
class Job:
    """A run on its way.

    Attributes:
        run: What to train.
        folder: Where; ``run.log`` there holds what the process printed.
        state: ``"waiting"``, ``"running"``, ``"done"``, ``"failed"`` or ``"stopped"`` (resumes next time).
        epoch: Epochs that are done.
        reason: Why it failed, in one line.
        known: Whether it was finished before; then nothing was run.
        process: Set while it runs and afterwards.
        logged: Bytes that were in the log before this process.
        hold: Keeps the folder from other engines while it runs.
    """

    run: Run
    folder: Path
    state: State = "waiting"
    epoch: int = 0
    reason: str = ""
    known: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    logged: int = 0
    hold: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)

    @property
    def log(self) -> Path:
        """What the process printed."""
        return self.folder / LOG


Watch: TypeAlias = Callable[[Sequence[Job]], None]


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end this process as an exit does, by way of ``finally``; only the main thread can ask for that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@_terminable()
def run_all(
    runs: Sequence[Run],
    out: str | os.PathLike[str],
    results: str | os.PathLike[str],
    jobs: int = 1,
    limit: float | None = None,
    watch: Watch | None = None,
    interval: float = 0.5,
    in_order: bool = False,
    nice: int = 0,
    cpu_hours: float | None = None,
) -> list[Job]:
    """Train every run that is not finished yet, and collect the results of those that are.

    A run whose result is in ``results``, or whose folder holds metrics of the same config, is never trained again. A
    run that was stopped or that failed continues from its last checkpoint; one that found too little memory on the GPU
    beside others does so when one of them has ended, and from then on fewer run at a time. Those with more training
    images and epochs start first, unless they are a queue. When this function ends, by itself, by an interrupt or
    because this process is told to terminate, no process of its own is left, and ``queue.csv`` in ``out`` says how many
    hours it took.

    Args:
        runs: What to train.
        out: Each run gets a folder in this one.
        results: Folder of the small JSON files.
        jobs: How many processes at a time.
        limit: Seconds after which everything is stopped, to be resumed another time.
        watch: Told the state of all jobs, again and again.
        interval: Seconds between two looks at the processes.
        in_order: A queue: runs start in the order in which they are given, those under way first.
        nice: How far they give way to other processes, as ``nice -n`` takes it.
        cpu_hours: Hours of the processor after which everything is stopped, to be resumed another time.

    Returns:
        The jobs in the order of the runs.
    """
    known = read_results(results)
    everything = [Job(run, Path(out) / run.folder) for run in runs]
    for job in everything:
        if known.has(job.run) or is_finished(job.folder, job.run):
            job.state, job.known, job.epoch = "done", True, job.run.config.train.epochs
    collect([(job.run, job.folder) for job in everything if job.known and not known.has(job.run)], results)
    # the longest first, so that none of them is left alone at the end
    waiting = [job for job in everything if job.state == "waiting"]
    if in_order:
        waiting.sort(key=lambda job: not read_log(job.folder / "log.csv"))  # those under way first
    else:
        waiting.sort(key=lambda job: -job.run.work)
    running: list[Job] = []
    end = None if limit is None else time.monotonic() + limit
    environment, queue, began = _environment(jobs), QueueLog.read(Path(out)), time.time()
    before = _waited_for()

    def used() -> float:
        """Hours of the processor so far."""
        return (_waited_for() - before + cpu_seconds(job.process for job in running if job.process)) / 3600

    def goes_on() -> bool:
        return (end is None or time.monotonic() < end) and (cpu_hours is None or used() < cpu_hours)

    try:
        while (waiting or running) and goes_on():
            while waiting and len(running) < jobs:
                job = waiting.pop(0)
                if _start(job, environment, nice):
                    running.append(job)
            time.sleep(interval if end is None else max(0.0, min(interval, end - time.monotonic())))
            for job in list(running):
                if _look(job):
                    running.remove(job)
                    job.hold.close()
                    collect([(job.run, job.folder)], results)
                    if running and _found_no_memory(job):
                        job.state, jobs = "waiting", len(running)
                        waiting.insert(0, job)
            if watch is not None:
                watch(everything)
    finally:
        _stop(running)
        for job in running:
            job.hold.close()
        if any(job.process for job in everything):
            finished = sum(job.state == "done" and not job.known for job in everything)
            queue.added(began, (_waited_for() - before) / 3600, finished).write(Path(out))
    for job in running:  # one may have reached its end while it was being stopped
        _look(job, stopped=True)
        collect([(job.run, job.folder)], results)
    for job in waiting:
        job.state = "stopped"
    if watch is not None:
        watch(everything)
    return everything


def _waited_for() -> float:
    """Seconds of the processor that this process's children used, of those that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _start(job: Job, environment: Mapping[str, str], nice: int = 0) -> bool:
    """Start or resume a run; one that another engine is training right now is left to it."""
    try:
        job.hold.enter_context(locked(job.folder, timeout=0))
    except DataError as error:
        job.state, job.reason = "failed", str(error)
        return False
    write_whole(job.folder / "config.toml", job.run.config.to_toml())
    output: IO[bytes]
    with job.log.open("ab") as output:
        job.logged = output.tell()
        # a session of its own: an interrupt typed in the terminal reaches this process alone, which then ends them all
        job.process = subprocess.Popen(
            [*(["nice", "-n", str(nice)] if nice else []), *_command(job.folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    job.state = "running"
    return True


def _command(folder: Path) -> list[str]:
    """Train what the config in a folder says; the same to start and to resume."""
    return [sys.executable, "-m", "fourierscale", "train", "--resume", "--out", str(folder)]


def _look(job: Job, stopped: bool = False) -> bool:
    """Bring the job up to date; returns whether its process has ended."""
    rows = read_log(job.folder / "log.csv")
    job.epoch = int(rows[-1]["epoch"]) + 1 if rows else 0
    status = None if job.process is None else job.process.poll()
    if status is None:
        return False
    if is_finished(job.folder, job.run):
        job.state = "done"
    elif stopped:
        job.state = "stopped"
    else:
        job.state, job.reason = "failed", _reason(job.log.read_bytes()[job.logged :], status)
    return True


def _found_no_memory(job: Job) -> bool:
    return job.state == "failed" and job.process is not None and job.process.returncode == NoMemoryError.status


def _reason(printed: bytes, status: int) -> str:
    """Why a process failed: the line meant for the user, or the last one it wrote."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
    told = [line.removeprefix("fourierscale: ") for line in lines if line.startswith("fourierscale: ")]
    return (told or lines or [f"exit status {status}"])[-1]


def _stop(running: Sequence[Job]) -> None:
    """Ask the processes to end; one that does not in time is killed. What they saved stays."""
    processes = [job.process for job in running if job.process is not None and job.process.poll() is None]
    for process in processes:
        _signal(process, signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _environment(jobs: int) -> dict[str, str]:
    """Ours, with the processor's cores shared among the jobs where the user has not said otherwise."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    return {"OMP_NUM_THREADS": str(threads), **os.environ}
