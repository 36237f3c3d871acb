"""What a command is doing, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fourierscale.data.progress import ProgressCallback

__all__ = ["progress_bars"]

SILENCE = 10.0  # seconds after which what takes time says how far it is, where there is no terminal for bars


@contextmanager
def progress_bars() -> Iterator[ProgressCallback]:
    """Steps as lines, and what takes time as bars where there is a terminal.

    What is printed meanwhile goes above the bars; where standard output is a file, it goes there.
    """
    screen = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        disable=not screen.is_terminal,
    ) as progress:
        bars: dict[str, TaskID] = {}
        told = time.monotonic()

        def report(text: str, fraction: float | None) -> None:
            if fraction is None:
                screen.print(f"  {text}", style="dim", markup=False, soft_wrap=True)
                return
            nonlocal told
            if not screen.is_terminal and time.monotonic() - told > SILENCE:
                told = time.monotonic()
                screen.print(f"  {text}: {fraction:.0%}", style="dim", markup=False, soft_wrap=True)
            if text not in bars:
                bars[text] = progress.add_task(text, total=1.0)
            progress.update(bars[text], completed=fraction)

        yield report
