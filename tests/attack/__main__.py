"""``python -m tests.attack``: run the attack and print what became of it."""

from __future__ import annotations

import argparse
import csv
import io
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from fourierscale.models.files import write_whole
from tests.attack import PARTS
from tests.attack.frame import Outcome, one_case, run_part

KINDS_SHOWN = 8  # of failures of a part


def main(arguments: list[str] | None = None) -> int:
    """Run parts one after the other; status 1 where a case failed."""
    options = read_options(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="attack-", dir=options.folder) as name:
        folder = Path(name)
        if options.case is not None:
            (part,) = options.parts
            with PARTS[part](folder) as opened, one_case(part, options.seed, options.case, folder) as case:
                try:
                    print(f"held: {opened.attack(case)}")
                finally:
                    print(f"{part}, case {options.case}: {case}")
            return 0
        outcomes = []
        end = time.monotonic() + 60 * options.minutes
        for place, part in enumerate(options.parts):
            now = time.monotonic()
            share = now + max(end - now, 0) / (len(options.parts) - place)  # what a part leaves goes to those behind it
            outcomes.append(run_part(PARTS[part], getattr(options, part), options.seed, share, folder))
            _tell(outcomes[-1])
    print(f"\n{'part':10} {'cases':>8} {'of':>8} {'failed':>7} {'seconds':>8}")
    for outcome in outcomes:
        line = f"{outcome.part:10} {outcome.done:8,} {outcome.asked:8,} {len(outcome.failures):7,}"
        print(f"{line} {outcome.seconds:8.0f}  {outcome.left_out}".rstrip())
    if options.result:
        write_counts(options.result, options.seed, outcomes)
    return int(any(outcome.failures for outcome in outcomes))


def _tell(outcome: Outcome) -> None:
    """The failures of a part, the smallest case of each kind."""
    print(f"{outcome.part}: {outcome.done:,} cases, {len(outcome.failures):,} failed", flush=True)
    for failure, count in outcome.smallest()[:KINDS_SHOWN]:
        print(f"  {count} x {failure.message}\n    {failure.arguments}\n    {failure.again}", flush=True)


def write_counts(path: Path, seed: int, outcomes: list[Outcome]) -> None:
    """A line for each part, as ``make tables`` reads it."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    where = {"torch": torch.__version__, "python": platform.python_version(), "commit": done.stdout.strip()}
    lines = [outcome.to_dict() | {"seed": seed} | where for outcome in outcomes]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue())


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command; what it does not know ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Attack the library; see the README.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    for part in PARTS.values():
        parser.add_argument(f"--{part.name}", type=int, default=part.cases, metavar="N", help=part.what)
    parser.add_argument("--seed", type=int, default=0, help="decides every case")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="in all; a part gets an equal share of what is left"
    )
    parser.add_argument("--case", type=int, help="run this case of one part alone, with its traceback")
    parser.add_argument("--folder", type=Path, help="where a folder is made and removed; the system's if not given")
    parser.add_argument("--result", type=Path, help="a CSV file to write the counts into")
    options = parser.parse_args(arguments)
    options.parts = options.parts or list(PARTS)
    for name in options.parts:
        if name not in PARTS:
            parser.error(f"no part {name!r}: choose among {', '.join(PARTS)}")
    if options.case is not None and len(options.parts) != 1:
        parser.error("--case needs the name of one part")
    return options


if __name__ == "__main__":
    sys.exit(main())
