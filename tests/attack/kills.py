"""Processes that are killed while they write; what is left is whole, and the work ends as if nothing had happened."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import sys
import threading
import time
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from safetensors import safe_open

from fourierscale.data.registry import DATASETS
from fourierscale.training.checkpoints import read_checkpoint
from tests.attack.commands import CHANGES, WRITING, Step, call, start_server
from tests.attack.corpus import Corpus, settings
from tests.attack.files import last_line
from tests.attack.frame import BrokenError, Case, Part
from tests.data.small_sets import small_mnist

RUN = [
    *("--no-onnx", "--out", "run", *settings(), "--set", "train.epochs=2", "--set", "optim.ema_decay=0.9"),
    *("--set", "model.overrides.dropout=0.5", "--set", "train.keep=best"),
]
TIMES = ("seconds", "train_seconds")


class Kills(Part):
    """``SIGKILL`` at a write or at any moment, during training, evaluation, the report, an audit or an export."""

    name = "kills"
    what = "processes killed at a chosen write or at any moment: whole files, and the same result in the end"
    cases = 30

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        start_server()
        self.corpus = Corpus(folder)
        self.jobs: dict[str, Job] = {}

    def attack(self, case: Case) -> str:
        """One kill."""
        name = case.choose("command", ["train"] * 4 + ["evaluate", "audit", "export", "fetch"])
        if name not in self.jobs:
            self.jobs[name] = Job(name, self.corpus)
        job, work = self.jobs[name], case.folder / "work"
        job.lay_out(work)
        where, moment = self.draw(case, job)
        kill = (die_at_write, str(work), where, case.note("later", case.random.choice([0.0, 0.0, 0.001, 0.005])))
        told = call(job.arguments, work, 120, prepare=[*job.prepare(work), kill], kill_after=moment)
        if told.status == -signal.SIGKILL:
            check_whole(work, partial=True)
        elif told.status:
            raise BrokenError(f"ends with status {told.status}: {last_line(told.err)}")
        job.finish(work)
        check_whole(work)
        job.compare(work)
        return f"{name}, at a write" if where else f"{name}, at any moment"

    def draw(self, case: Case, job: Job) -> tuple[int, float | None]:
        """The number of a write, or a moment."""
        if case.often("at a write", 0.6):
            return case.whole("write", 1, job.writes), None
        return 0, case.note("moment", round(case.random.uniform(0.05, 1.0) * job.seconds, 2))


class Job:
    """A command that writes files, and what it gives when nobody disturbs it."""

    def __init__(self, name: str, corpus: Corpus) -> None:
        self.name, self.corpus = name, corpus
        run, images = str(corpus.run), str(corpus.images)
        self.arguments = {
            "train": ["train", images, *RUN],
            "evaluate": ["evaluate", "run", "--sample", "4"],
            "audit": ["audit", run, "--data", images, "--images", "2", "--resolutions", "8,12", "--out", "audit"],
            "export": ["export", run, "net.pt2", "--resolutions", "8"],
            "fetch": ["data", "get", "mnist"],
        }[name]
        whole = corpus.folder / "whole" / name
        self.lay_out(whole)
        told = call(self.arguments, whole, 300, prepare=[*self.prepare(whole), (count_writes, str(whole))])
        if told.status:
            raise BrokenError(f"{name} ends with status {told.status} undisturbed: {last_line(told.err)}")
        self.seconds = told.seconds
        self.room = sum((whole / name).stat().st_size for name in told.changed)
        self.writes = int((whole.parent / "around" / "writes").read_text())
        check_whole(whole)
        self.expected, self.names = results(whole), names(whole)

    def prepare(self, work: Path) -> list[Step]:
        """What its process has to do first."""
        return [(fetch_from, *self.corpus.mirror, str(work))] if self.name == "fetch" else []

    def lay_out(self, work: Path) -> None:
        """What the command finds."""
        work.mkdir(parents=True, exist_ok=True)
        if self.name == "evaluate":
            self.corpus.copy_run(work / "run")

    def finish(self, work: Path) -> None:
        """What the user does after a kill: the same again, or ``--resume``; nothing else may be needed."""
        arguments = self.arguments
        if self.name == "train" and (work / "run" / "config.toml").is_file():
            arguments = ["train", "--resume", "--no-onnx", "--out", "run"]
        told = call(arguments, work, 120, prepare=self.prepare(work))
        if told.status or told.hung:
            raise BrokenError(f"cannot go on, status {told.status}: {last_line(told.err)}")

    def compare(self, work: Path) -> None:
        """The files of the end are those of a process that nobody disturbed."""
        found = results(work)
        for name, content in self.expected.items():
            if found.get(name) != content:
                raise BrokenError(f"{name} differs from that of an undisturbed {self.name}")
        if names(work) != self.names:
            raise BrokenError(f"other files than undisturbed: {sorted(names(work) ^ self.names)}")


def fetch_from(folder: str, mirror: str, work: str) -> None:
    """Let ``data get mnist`` find the small files of a folder at an address, and keep its cache in another."""
    DATASETS["mnist"] = small_mnist(Path(folder), (mirror,))
    os.environ["FOURIERSCALE_DATA"] = f"{work}/cache"


def names(folder: Path) -> set[str]:
    """Every file but those of TensorBoard, of which each process writes one."""
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in files if "tensorboard" not in name and not name.endswith(".lock")}


def results(folder: Path) -> dict[str, Any]:
    """What has to be the same to the last bit, by file; times are left out."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.suffix in (".safetensors", ".gz"):
            found[name] = path.read_bytes()
        elif path.name == "metrics.json":
            found[name] = {key: value for key, value in json.loads(path.read_text()).items() if key not in TIMES}
        elif path.name == "log.csv":
            with path.open(newline="") as file:
                found[name] = [{key: row[key] for key in row if key != "seconds"} for row in csv.DictReader(file)]
        elif path.name in ("config.toml", "audit.json"):
            found[name] = path.read_text()
        elif path.name == "last.ckpt":
            state = read_checkpoint(path)["state_dict"]
            found[name] = {key: value.tolist() for key, value in state.items()}
    return found


def check_whole(folder: Path, partial: bool = False) -> None:
    """Refuse half a file under the name of a whole one.

    Args:
        folder: Looked through.
        partial: Whether a file whose name says that it is unfinished may be there.
    """
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        if ".partial" in path.name or ".staging-" in str(path):
            if not partial:
                raise BrokenError(f"{path.name} is left behind")
            continue
        check = CHECKS.get(path.suffix)
        try:
            if check is not None:
                check(path)
        except Exception as error:
            raise BrokenError(
                f"{path.name} is not whole: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
            ) from None


def _picture(path: Path) -> None:
    with Image.open(path) as image:
        image.load()


def _page(path: Path) -> None:
    if not path.read_text().rstrip().endswith("</html>"):
        raise ValueError("it does not end where a page ends")


def _rows(path: Path) -> None:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not all(row["epoch"] and None not in row.values() for row in rows):
        raise ValueError("a row is not complete")


def _weights(path: Path) -> None:
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118
            file.get_tensor(name)


def _program(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        if archive.testzip() is not None:
            raise ValueError("a member is damaged")


CHECKS: dict[str, Callable[[Path], object]] = {
    ".toml": lambda path: tomllib.loads(path.read_text()),
    ".json": lambda path: json.loads(path.read_text()),
    ".ckpt": read_checkpoint,
    ".safetensors": _weights,
    ".html": _page,
    ".png": _picture,
    ".csv": _rows,
    ".pt2": _program,
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
}


def is_write(event: str, arguments: Sequence[Any], folder: str) -> bool:
    """Whether an event of Python's audit hooks changes a file of a folder."""
    if event == "open":
        path, mode, flags = arguments
        if not isinstance(path, str | bytes) or not (
            flags & WRITING if isinstance(flags, int) else "r" not in str(mode)
        ):
            return False
    elif event in CHANGES:
        path = arguments[0]
    else:
        return False
    return os.path.realpath(os.fsdecode(path)).startswith(folder)


def count_writes(folder: str) -> None:
    """Count the writes of this process; the number is beside its folder."""
    target = Path(folder).parent / "around" / "writes"
    handle, root, count = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), os.path.realpath(folder), [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if is_write(event, arguments, root):
            count[0] += 1
            os.pwrite(handle, str(count[0]).encode(), 0)

    sys.addaudithook(hook)


def die_at_write(folder: str, number: int, later: float) -> None:
    """Kill this process at a write, or shortly after it; at none for number 0."""
    root, count = os.path.realpath(folder), [0]

    def die() -> None:
        time.sleep(later)
        os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if number and is_write(event, arguments, root):
            count[0] += 1
            if count[0] == number:
                die() if later == 0 else threading.Thread(target=die, daemon=True).start()

    sys.addaudithook(hook)
