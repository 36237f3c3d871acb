"""What an attack is: parts, their cases, and how cases are run, counted and told."""

from __future__ import annotations

import abc
import random
import re
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch

T = TypeVar("T")
SHOWN = 240  # letters of an argument or of a message


class BrokenError(AssertionError):
    """A promise that was not kept; its text says which one, and how."""


class LeftOutError(Exception):
    """A part that cannot be run on this machine; its text says why."""


class Case:
    """One case. All that is random in it follows from the seed, the name of the part and a number.

    Args:
        part: Name of its part.
        seed: That of the attack.
        number: Which case of the part.
        folder: An empty folder of its own.
    """

    def __init__(self, part: str, seed: int, number: int, folder: Path) -> None:
        self.part, self.seed, self.number, self.folder = part, seed, number, folder
        self.random = random.Random(f"{seed} {part} {number}")
        self.drawn: dict[str, str] = {}
        torch.manual_seed(self.random.getrandbits(32))

    def note(self, name: str, value: T) -> T:
        """Write down an argument of the case."""
        self.drawn[name] = repr(value)
        return value

    def choose(self, name: str, values: Sequence[T]) -> T:
        """One of some values."""
        return self.note(name, self.random.choice(values))

    def often(self, name: str, share: float) -> bool:
        """True in this share of the cases."""
        return self.note(name, self.random.random() < share)

    def whole(self, name: str, lowest: int, highest: int) -> int:
        """A whole number, both ends included."""
        return self.note(name, self.random.randint(lowest, highest))

    def __str__(self) -> str:
        return ", ".join(f"{name}={_short(value)}" for name, value in self.drawn.items())


class Part(abc.ABC):
    """Cases of one kind.

    Subclasses are opened once, as context managers, and then run case by case.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    """What its cases are, for the table."""
    cases: ClassVar[int]
    """How many, if nobody says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    @abc.abstractmethod
    def attack(self, case: Case) -> str:
        """Run a case and return its kind, for the counts; whatever it raises is a failure.

        Raises:
            BrokenError: A promise was not kept.
            LeftOutError: This machine cannot run the part.
        """


@dataclass(frozen=True)
class Failure:
    """A case that failed: all that is needed to run it again."""

    part: str
    seed: int
    number: int
    message: str
    arguments: str

    @property
    def kind(self) -> str:
        """The message without numbers and names in quotes: failures of one kind have one cause, mostly."""
        return re.sub(r"'[^']*'|\"[^\"]*\"|\S*/\S*|\S*\d\S*", "*", self.message)[:90]

    @property
    def again(self) -> str:
        """What runs it again."""
        return f"python -m tests.attack {self.part} --seed {self.seed} --case {self.number}"


@dataclass
class Outcome:
    """What became of a part."""

    part: str
    what: str
    asked: int
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    left_out: str = ""

    @property
    def done(self) -> int:
        """Cases that were run."""
        return sum(self.kinds.values()) + len(self.failures)

    def smallest(self) -> list[tuple[Failure, int]]:
        """Of each kind of failure the case with the fewest letters to describe it, and how many are of this kind."""
        kinds: dict[str, list[Failure]] = {}
        for failure in self.failures:
            kinds.setdefault(failure.kind, []).append(failure)
        found = [(min(same, key=lambda one: len(one.arguments)), len(same)) for same in kinds.values()]
        return sorted(found, key=lambda pair: -pair[1])

    def to_dict(self) -> dict[str, Any]:
        """As a line of a file."""
        return {
            "part": self.part,
            "cases": self.done,
            "failed": len(self.failures),
            "seconds": f"{self.seconds:.0f}",
            "what": self.what,
            "kinds": ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())),
            "left_out": self.left_out,
        }


def run_part(part: type[Part], count: int, seed: int, until: float, folder: Path) -> Outcome:
    """Run cases 0, 1, ... of a part, until there are enough or the time is over (``time.monotonic``)."""
    outcome, started = Outcome(part.name, part.what, count), time.monotonic()
    try:
        with part(_made(folder / part.name / "all")) as opened:
            for number in range(count):
                if number and time.monotonic() > until:
                    break
                with one_case(part.name, seed, number, folder) as case:
                    try:
                        outcome.kinds[opened.attack(case)] += 1
                    except LeftOutError:
                        raise
                    except Exception as error:
                        outcome.failures.append(Failure(part.name, seed, number, _message(error), str(case)))
    except LeftOutError as why:
        outcome.left_out = str(why)
    outcome.seconds = time.monotonic() - started
    return outcome


@contextmanager
def one_case(part: str, seed: int, number: int, folder: Path) -> Iterator[Case]:
    """A case and its folder, which is removed behind it."""
    own = Path(tempfile.mkdtemp(prefix=f"{number}-", dir=_made(folder / part)))
    try:
        yield Case(part, seed, number, own)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _message(error: Exception) -> str:
    if isinstance(error, BrokenError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {_short(str(error))}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}..."
