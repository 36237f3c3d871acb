"""A disk that is full: one sentence, the good files of before, and the same result once there is room again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.attack.commands import call, start_server
from tests.attack.corpus import Corpus
from tests.attack.files import last_line
from tests.attack.frame import BrokenError, Case, LeftOutError, Part
from tests.attack.kills import Job, check_whole

ROOMY = 256 << 20  # bytes, more than any command needs


class Disk(Part):
    """A small file system in memory under the folder of a command; needs the right to mount."""

    name = "disk"
    what = "a full disk in training, evaluation, audit, export and the cache: one line, nothing lost, and it goes on"
    cases = 40

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if shutil.which("mount") is None:
            raise LeftOutError("there is no command mount")
        start_server()
        self.corpus = Corpus(folder)
        self.jobs: dict[str, Job] = {}

    def attack(self, case: Case) -> str:
        """One command on one small disk."""
        name = case.choose("command", ["train", "train", "train", "evaluate", "audit", "export", "fetch"])
        if name not in self.jobs:
            self.jobs[name] = Job(name, self.corpus)
        job, work = self.jobs[name], case.folder / "work"
        work.mkdir()
        mount(work, ROOMY)
        try:
            job.lay_out(work)
            room = int(job.room * case.random.uniform(0, 1.1) ** 2)
            mount(work, used(work) + case.note("room", room // 4096 * 4096), "remount,")
            told = call(job.arguments, work, 120, prepare=job.prepare(work))
            if told.hung or told.status not in (0, 2) or "Traceback" in told.err:
                raise BrokenError(f"ends with status {told.status}: {last_line(told.err)}")
            said = [line for line in told.err.splitlines() if line.startswith("fourierscale: ")]
            if told.status == 2 and len(said) != 1:
                raise BrokenError(f"status 2 with {len(said)} sentences: {told.err[-200:]!r}")
            check_whole(work)
            mount(work, ROOMY, "remount,")
            job.finish(work)
            check_whole(work)
            job.compare(work)
        finally:
            subprocess.run(["umount", "--lazy", str(work)], check=False, capture_output=True)
        return f"{name}, {'full' if told.status else 'room enough'}"


def used(folder: Path) -> int:
    """Bytes of a file system that are taken."""
    return shutil.disk_usage(folder).used


def mount(folder: Path, size: int, how: str = "") -> None:
    """Put a file system of so many bytes at a folder, or change the size of the one there."""
    command = ["mount", "-t", "tmpfs", "-o", f"{how}size={max(size, 4096)}", "attack", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise LeftOutError(f"this machine does not let us mount: {done.stderr.strip()}")
