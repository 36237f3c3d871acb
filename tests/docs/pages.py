"""README.md and docs/ as data: the code blocks, the lines of the shell blocks, the links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, what it says it is, and what is in it."""

    page: str
    line: int
    language: str
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One line of a shell block, its continuations included, or a command within a sentence."""

    page: str
    line: int
    text: str
    in_sentence: bool = False

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    """Every fenced block of every page."""
    found = []
    for path in PAGES:
        page, start, language, inside = str(path.relative_to(ROOT)), 0, "", []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fence = re.match(r"\s*```(.*)$", line)
            if fence and not start:
                start, language, inside = number, fence[1].split(" ")[0], []
            elif fence:
                found.append(Block(page, start, language, tuple(inside)))
                start = 0
            elif start:
                inside.append(line)
        if start:
            raise ValueError(f"{page}:{start}: the block never ends")
    return found


def commands() -> list[Command]:
    """Every line of every shell block, and every whole ``fourierscale ...`` in the middle of a sentence."""
    found = []
    for block in blocks():
        if block.language == "bash":
            pending = ""
            for number, line in enumerate(block.lines, block.line + 1):
                pending += line.removesuffix("\\")
                if not line.endswith("\\"):
                    command = Command(block.page, number, pending.strip())
                    found += [command] if command.words else []
                    pending = ""
    for path in PAGES:
        text = _prose(path)
        for match in re.finditer(r"`(fourierscale [a-z][^`]*|make [a-z][^`]*|python [a-z]+/[^`]*)`", text):
            words = " ".join(match[1].split())
            if not re.search(r"\b[A-Z]{3,}\b|\||\.\.\.", words):  # NAME, list | get: a pattern, not a command
                number = text.count("\n", 0, match.start()) + 1
                found.append(Command(str(path.relative_to(ROOT)), number, words, in_sentence=True))
    return found


def links() -> list[tuple[str, int, str]]:
    """Page, line and target of every link and picture that does not lead outside."""
    found = []
    for path in PAGES:
        for number, line in enumerate(_prose(path).splitlines(), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if not re.match(r"[a-z]+:", target):
                    found.append((str(path.relative_to(ROOT)), number, target))
    return found


def anchors(path: Path) -> set[str]:
    """The headings of a page as the site names them."""
    titles = [re.sub(r"[`*]", "", title) for title in re.findall(r"^#+ (.*)$", _prose(path), flags=re.MULTILINE)]
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


def _prose(path: Path) -> str:
    """A page with its fenced blocks emptied; lines keep their numbers."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
