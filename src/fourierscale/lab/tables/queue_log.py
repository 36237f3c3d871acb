"""What a queue of trainings has used and still needs: hours of the processor, hours between, an estimate a row."""

from __future__ import annotations

import csv
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fourierscale.lab.tables.runs import Run
from fourierscale.models.files import write_whole
from fourierscale.training.callbacks import read_log

__all__ = ["QueueLog", "cpu_seconds", "seconds_left", "shown_hours"]

COLUMNS = ("began", "ended", "cpu_hours", "finished")
LATELY = 3  # epochs whose mean time is taken for those that come


@dataclass(frozen=True)
class QueueLog:
    """The times at which trainings were run into one folder, in its ``queue.csv``.

    Attributes:
        rows: For each time when it began and ended, in seconds since 1970, the processor's hours and how many runs
            finished.

    >>> log = QueueLog(((0.0, 3600.0, 1.5, 1), (7200.0, 9000.0, 0.8, 0)))
    >>> log.cpu_hours, log.idle_hours
    (2.3, 1.0)
    """

    rows: tuple[tuple[float, float, float, int], ...] = ()

    @classmethod
    def read(cls, folder: Path) -> QueueLog:
        """The log of a folder; empty where there is none, without lines that are damaged."""
        try:
            with (folder / "queue.csv").open(newline="", encoding="utf-8") as file:
                lines = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error):
            return cls()
        rows = []
        for line in lines:
            try:
                began, ended, cpu, finished = (float(line[name]) for name in COLUMNS)
                rows.append((began, ended, cpu, int(finished)))
            except (KeyError, TypeError, ValueError):
                continue
        return cls(tuple(rows))

    def write(self, folder: Path) -> None:
        """Write it as a whole."""
        lines = [",".join(COLUMNS), *(f"{a:.0f},{b:.0f},{cpu:.6f},{done}" for a, b, cpu, done in self.rows)]
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "queue.csv", "\n".join(lines) + "\n")

    def added(self, began: float, cpu_hours: float, finished: int) -> QueueLog:
        """With what ran from then until now."""
        return QueueLog((*self.rows, (began, time.time(), cpu_hours, finished)))

    @property
    def cpu_hours(self) -> float:
        """Hours of the processor in all."""
        return sum(row[2] for row in self.rows)

    @property
    def idle_hours(self) -> float:
        """Hours between the first beginning and the last end in which nothing ran."""
        if not self.rows:
            return 0.0
        whole = max(row[1] for row in self.rows) - min(row[0] for row in self.rows)
        return max(0.0, whole - sum(ended - began for began, ended, *_ in self.rows)) / 3600


def cpu_seconds(processes: Iterable[subprocess.Popen[bytes]]) -> float:
    """What running processes have used of the processor, with what their children that ended have used.

    Zero where the system does not tell.
    """
    total, tick = 0.0, os.sysconf("SC_CLK_TCK")
    for process in processes:
        try:
            after_name = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, after_name[11:15])) / tick  # user, system, and both of children
    return total


def seconds_left(runs: Sequence[tuple[Run, Path, bool]]) -> list[float | None]:
    """How long each run will still take, as far as the epochs of this and of like runs tell; None where none does.

    Args:
        runs: Each with its folder and whether it is finished.
    """
    rates: list[tuple[Run, float]] = []  # seconds for each pass of an image
    taken: list[tuple[int, float | None]] = []
    for run, folder, _ in runs:
        rows = read_log(folder / "log.csv")
        lately = [float(row["seconds"]) for row in rows[-LATELY:]]
        mean = sum(lately) / len(lately) if lately else None
        taken.append((len(rows), mean))
        if mean is not None:
            rates.append((run, mean * run.config.train.epochs / run.work))
    found: list[float | None] = []
    for (run, _, finished), (epochs, mean) in zip(runs, taken, strict=True):
        whole = None if mean is None else mean * run.config.train.epochs
        if whole is None:
            like = [rate for other, rate in rates if other.config.model == run.config.model] or [r for _, r in rates]
            whole = run.work * sum(like) / len(like) if like else None
        left = 1 - epochs / run.config.train.epochs
        found.append(0.0 if finished else None if whole is None else max(0.0, whole * left))
    return found


def shown_hours(seconds: float | None) -> str:
    """A time to be read at a glance.

    >>> shown_hours(90.0), shown_hours(5400.0), shown_hours(None)
    ('2 min', '1.5 h', '?')
    """
    if seconds is None:
        return "?"
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{round(seconds / 60)} min"
