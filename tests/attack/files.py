"""Damaged files of every format, read by the command line as a user would let it read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from tests.attack import damage
from tests.attack.commands import Told, call, start_server
from tests.attack.corpus import Corpus, Reading, settings
from tests.attack.frame import BrokenError, Case, Part
from tests.training.small_runs import NAMES

LONGEST = 40.0  # seconds of a call, many times what an undamaged file takes
AUDIT = ["--data", "random", "--size", "16", "--resolutions", "8,16", "--images", "2"]
LOST = 0.1  # share of the cases in which something stands where the file was that is no file


class Files(Part):
    """One damaged file and one call that reads it: an answer, or one line and status 2; nothing else happens."""

    name = "files"
    formats: ClassVar[tuple[str, ...]] = ()
    """Which of :data:`FORMATS`; all if none is named."""
    what = "damaged images, configs, descriptions, weights, checkpoints, ONNX, TorchScript, data and results"
    cases = 2_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        start_server()
        self.corpus = Corpus(folder)

    def attack(self, case: Case) -> str:
        """One damaged file."""
        kind = case.choose("format", self.formats or list(FORMATS))
        work = case.folder / "work"
        work.mkdir()
        reading = FORMATS[kind](case, self.corpus, work)
        judge(call(reading.arguments, work, LONGEST), reading)
        return kind


def judge(told: Told, reading: Reading) -> None:
    """Refuse whatever a call that reads a file must not do."""
    if told.hung:
        raise BrokenError(f"hangs for more than {told.seconds:.0f} s")
    if told.deeds:
        raise BrokenError(f"does what it was not asked for: {told.deeds[0]}")
    changed = [name for name in told.changed if name.split("/")[0] not in reading.asked]
    if changed:
        raise BrokenError(f"writes what it was not asked for: {changed[:3]}")
    if "Traceback" in told.err or told.status not in (0, 2):
        raise BrokenError(f"ends with status {told.status}: {last_line(told.err)}")
    if told.status == 2:
        lines = [line for line in told.err.splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("fourierscale: ")]
        if len(said) != 1 or lines[-1] != said[0]:
            raise BrokenError(f"status 2 with {len(said)} sentences in {len(lines)} lines: {told.err[-300:]!r}")
    elif reading.finite and re.search(r"\b(nan|inf)\b", told.out):
        raise BrokenError(f"answers with numbers that are none: {told.out[-300:]!r}")


def last_line(text: str) -> str:
    """What a traceback ends with."""
    lines = [line for line in text.splitlines() if line.strip()]
    places = [line.strip() for line in lines if line.startswith('  File "')]
    return f"{lines[-1] if lines else 'nothing'}{f' ({_place(places[-1])})' if places else ''}"[:300]


def _place(line: str) -> str:
    found = re.match(r'File "(?:.*/)?([^/"]+)", line (\d+)', line)
    return ":".join(found.groups()) if found else line


def put(case: Case, path: Path, content: bytes, mend: Callable[[Case, bytes], bytes] = damage.bytes_of) -> Path:
    """A damaged file, or something that is no file at its place."""
    path.unlink(missing_ok=True)
    if case.random.random() < LOST:
        damage.place_of(case, path)
    else:
        path.write_bytes(mend(case, content))
    return path


def image(case: Case, corpus: Corpus, work: Path) -> Reading:
    """A picture: to predict, or in a folder to show, to audit or to train on."""
    name = case.choose("picture", sorted(corpus.pictures))
    content = corpus.pictures[name]
    use = case.choose("use", ["predict", "predict", "predict", "show", "audit", "train"])
    if use == "predict":
        put(case, work / name, content)
        return Reading(["predict", str(corpus.run), name])
    for path in corpus.images.rglob("*.png"):
        target = work / "images" / path.relative_to(corpus.images)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    put(case, work / "images" / "a" / name, content)
    if use == "show":
        return Reading(["data", "show", "images", *case.random.choice([[], ["--skip-bad"]])], ("images.png",))
    if use == "audit":
        return Reading(["audit", str(corpus.run), "--data", "images", "--images", "2", "--resolutions", "8,12"])
    skip = case.random.choice([[], ["--skip-bad"]])
    return Reading(["train", "images", "--no-onnx", "--out", "run", *skip, *settings()], ("run",))


def config(case: Case, corpus: Corpus, work: Path) -> Reading:
    """A config; the images that it names are not there, so that a good one ends as soon as it is read."""
    content = (corpus.run / "config.toml").read_bytes().replace(b"images", b"nothing")
    suffix = case.choose("suffix", ["toml", "yaml", "yml"])
    yaml = suffix != "toml"
    if yaml:
        content = _as_yaml(content)
    put(case, work / f"config.{suffix}", content, lambda case, content: damage.config_of(case, content, yaml))
    return Reading(["train", "--config", f"config.{suffix}", "--data", "nothing", "--out", "run"], ("run", "runs"))


def _as_yaml(content: bytes) -> bytes:
    import tomllib

    import yaml

    return yaml.safe_dump(tomllib.loads(content.decode())).encode()


def settings_of_a_call(case: Case, corpus: Corpus, work: Path) -> Reading:
    """Fields of a config on the command line."""
    changes = [word for _ in range(case.whole("settings", 1, 2)) for word in ("--set", damage.setting(case))]
    there = ["--data", str(work / "nothing"), "--out", "run"]
    return Reading(["train", "--config", "tiny", *changes, *there], ("run", "runs"))


def _run(case: Case, corpus: Corpus, work: Path, name: str, mend: Callable[[Case, bytes], bytes]) -> str:
    run = corpus.copy_run(work / "run")
    put(case, run / name, (run / name).read_bytes(), mend)
    return case.choose("use", ["predict", "predict", "audit", "evaluate"])


def _use(use: str, corpus: Corpus) -> Reading:
    if use == "evaluate":
        return Reading(["evaluate", "run", "--sample", "4"], ("run",), finite=False)
    if use == "audit":
        return Reading(["audit", "run", *AUDIT], finite=False)
    return Reading(["predict", "run", str(corpus.picture)])


def description(case: Case, corpus: Corpus, work: Path) -> Reading:
    """What stands beside weights: ``model.json``."""
    return _use(_run(case, corpus, work, "model.json", damage.json_of), corpus)


def weights(case: Case, corpus: Corpus, work: Path) -> Reading:
    """Weights: ``model.safetensors``; damaged numbers are numbers, so answers need not be sensible."""
    return _use(_run(case, corpus, work, "model.safetensors", damage.weights_of), corpus)


def checkpoint(case: Case, corpus: Corpus, work: Path) -> Reading:
    """What a run continues from."""
    run = corpus.copy_run(work / "run")
    name = case.choose("file", ["checkpoints/last.ckpt", "checkpoints/last.ckpt", "config.toml", "log.csv"])
    mend = damage.archive_of if name.endswith("ckpt") else damage.bytes_of
    put(case, run / name, (run / name).read_bytes(), mend)
    more = ["--set", "train.epochs=2", "--data", str(corpus.images)]
    return Reading(["train", "--resume", "--no-onnx", "--out", "run", *more], ("run",), finite=False)


def onnx_file(case: Case, corpus: Corpus, work: Path) -> Reading:
    """An exported net."""
    put(case, work / "net.onnx", corpus.onnx, damage.onnx_of)
    if case.often("audited", 0.4):
        return Reading(["audit", "net.onnx", *AUDIT], finite=False)
    return Reading(["predict", "net.onnx", str(corpus.picture)])


def script(case: Case, corpus: Corpus, work: Path) -> Reading:
    """A net in TorchScript."""
    put(case, work / "net.pt", corpus.script, damage.archive_of)
    return Reading(["audit", "net.pt", *AUDIT, *_trusted(case)], finite=False)


def program(case: Case, corpus: Corpus, work: Path) -> Reading:
    """A net of ``torch.export``."""
    put(case, work / "net.pt2", corpus.program, damage.archive_of)
    return Reading(["audit", "net.pt2", *AUDIT, *_trusted(case)], finite=False)


def _trusted(case: Case) -> list[str]:
    """The user's word that a program may run; what the archive pickles may not, even then."""
    return ["--trust"] if case.often("trusted", 0.7) else []


def idx(case: Case, corpus: Corpus, work: Path) -> Reading:
    """The files of digits."""
    folder = work / "digits"
    folder.mkdir()
    for name, content in corpus.digits.items():
        (folder / name).write_bytes(content)
    name = case.choose("file", [*NAMES[:3], f"{NAMES[3]}.gz"])
    put(case, folder / name, corpus.digits[name])
    return Reading(["data", "get", "mnist", "--data-dir", "digits", "--offline"])


def stl10(case: Case, corpus: Corpus, work: Path) -> Reading:
    """The files of STL-10."""
    folder = work / "stl10_binary"
    folder.mkdir()
    for name, content in corpus.stl10.items():
        (folder / name).write_bytes(content)
    name = case.choose("file", sorted(corpus.stl10))
    put(case, folder / name, corpus.stl10[name])
    return Reading(["data", "get", "stl10", "--data-dir", case.choose("given", ["stl10_binary", "."]), "--offline"])


def result(case: Case, corpus: Corpus, work: Path) -> Reading:
    """A file of results."""
    folder = work / "results" / "mnist-all"
    folder.mkdir(parents=True)
    put(case, folder / "ours-seed0.json", corpus.result, damage.json_of)
    if case.often("status", 0.5):
        return Reading(["reproduce", "status", "mnist-all", "--results", "results"], finite=False)
    return Reading(["reproduce", "report", "--results", "results", "--no-figures"], ("report.html",), finite=False)


FORMATS: dict[str, Callable[[Case, Corpus, Path], Reading]] = {
    "image": image,
    "config": config,
    "--set": settings_of_a_call,
    "description": description,
    "weights": weights,
    "checkpoint": checkpoint,
    "ONNX": onnx_file,
    "TorchScript": script,
    "torch.export": program,
    "idx": idx,
    "STL-10": stl10,
    "result": result,
}
