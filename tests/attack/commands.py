"""One call of the command line in a process of its own, and what it did there.

The process is forked from a server that has everything imported, so a call takes as long as its work. An audit hook of
Python writes down what a call that reads a file has no business doing: programs started, connections made, files
written outside its folder.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from fourierscale.cli import main

PROGRAMS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
CONNECTIONS = ("socket.connect", "socket.bind")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MEMORY = 16 << 30  # bytes of address space: torch takes 4 of them before it does anything

Step: TypeAlias = tuple[Any, ...]
"""A function and its arguments."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.attack.preloaded"])


@dataclass(frozen=True)
class Told:
    """How a call ended.

    Attributes:
        status: The exit status; minus the signal that ended it.
        out: Standard output.
        err: Standard error.
        seconds: How long it took.
        hung: Whether it was still running when its time was over.
        deeds: What the audit hook saw.
        changed: Files of its folder that are new, gone or other than before.
    """

    status: int
    out: str
    err: str
    seconds: float
    hung: bool
    deeds: tuple[str, ...]
    changed: tuple[str, ...]


def start_server() -> None:
    """Import everything once, in the process that calls are forked from."""
    process = _context.Process(target=_nothing)
    process.start()
    process.join()


def call(
    arguments: Sequence[str],
    folder: Path,
    seconds: float = 60.0,
    *,
    prepare: Sequence[Step] = (),
    kill_after: float | None = None,
) -> Told:
    """Run ``fourierscale ARGUMENTS`` in a folder.

    Args:
        arguments: What follows the program's name.
        folder: Its working directory; what is beside it, in ``folder.parent / "around"``, is no one's business.
        seconds: After these it hangs, and is killed.
        prepare: Called first in the process; functions of modules.
        kill_after: Kill it after so many seconds and say so by its status.
    """
    around = folder.parent / "around"
    for part in ("tmp", "home", "cache"):
        (around / part).mkdir(parents=True, exist_ok=True)
    before = listed(folder)
    process = _context.Process(target=_run, args=(list(arguments), str(folder), str(around), list(prepare)))
    started = time.monotonic()
    process.start()
    process.join(seconds if kill_after is None else kill_after)
    hung = process.is_alive()
    if hung:
        _kill(process.pid)
        process.join()
    took = time.monotonic() - started
    out, err, deeds = ((around / name).read_text(errors="replace") for name in ("out", "err", "deeds"))
    after = listed(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    status = process.exitcode if process.exitcode is not None else -signal.SIGKILL
    process.close()
    return Told(status, out, err, took, hung, tuple(deeds.splitlines()), tuple(changed))


def listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder with its size and time; folders alone are not told."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in (*files, *(one for one in folders if os.path.islink(os.path.join(root, one)))):
            path = os.path.join(root, name)
            about = os.lstat(path)
            found[os.path.relpath(path, folder)] = (about.st_size, about.st_mtime_ns)
    return found


def _kill(group: int | None) -> None:
    """End a process and all that it started; it leads a group of its own."""
    assert group is not None
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:  # not yet a leader, or gone
        try:
            os.kill(group, signal.SIGKILL)
        except ProcessLookupError:
            return


def _nothing() -> None:
    return


def _run(arguments: list[str], folder: str, around: str, prepare: Sequence[Step]) -> None:
    """The life of the process; it ends here, whatever happens."""
    status = 70
    try:
        os.setsid()
        for number, name in ((0, os.devnull), (1, f"{around}/out"), (2, f"{around}/err")):
            handle = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, number)
            os.close(handle)
        sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
        deeds = os.open(f"{around}/deeds", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.chdir(folder)
        for name in ("FOURIERSCALE_DATA", "XDG_CACHE_HOME"):
            os.environ[name] = f"{around}/cache"
        os.environ |= {"HOME": f"{around}/home", "TMPDIR": f"{around}/tmp", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
        sys.dont_write_bytecode = True
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for step, *given in prepare:
            step(*given)
        _watch(deeds, (os.path.realpath(folder), os.path.realpath(around)))
        status = main(arguments)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _watch(deeds: int, own: tuple[str, ...]) -> None:
    """Write down what an innocent call does not do."""

    def note(text: str) -> None:
        os.write(deeds, (" ".join(text.split())[:300] + "\n").encode(errors="replace"))

    def outside(path: Any) -> bool:
        if not isinstance(path, (str, bytes)):
            return False  # an open handle
        name = os.path.realpath(os.fsdecode(path))
        return not any(name == root or name.startswith(f"{root}/") for root in own) and not name.startswith("/dev/")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in PROGRAMS or event in CONNECTIONS:
            note(f"{event} {arguments}")
        elif event == "open":
            path, mode, flags = arguments
            writes = bool(flags & WRITING) if isinstance(flags, int) else "r" not in str(mode) or "+" in str(mode)
            if writes and outside(path):
                note(f"writes {path!r}")
        elif event in CHANGES and any(outside(one) for one in arguments[:2]):
            note(f"{event} {arguments}")

    sys.addaudithook(hook)
