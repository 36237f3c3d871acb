"""The walks of CONTRIBUTING.md lead through files that exist, none of them twice, and the code takes them."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest
import torch

from fourierscale import load_pretrained
from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "fourierscale"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def walks() -> dict[str, list[str]]:
    """The files of each numbered list, by the sentence in front of it."""
    found: dict[str, list[str]] = {}
    for line in TEXT[TEXT.index("## Three walks") : TEXT.index("## How it is written")].splitlines():
        if line.startswith("**"):
            name = line.split("**")[1]
            found[name] = []
        elif re.match(r"\d+\. ", line):
            found[name] += re.findall(r"`([\w/]+\.py)`", line)
    return found


@pytest.mark.parametrize("name", walks())
def test_a_walk_visits_files_that_exist_and_none_twice(name: str) -> None:
    files = walks()[name]
    assert len(files) >= 8
    assert len(set(files)) == len(files)
    assert [file for file in files if not (SOURCE / file).is_file()] == []


def test_an_image_takes_the_walk_to_logits() -> None:
    visited: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            file = frame.f_code.co_filename.removeprefix(f"{SOURCE}/")
            if file not in visited:
                visited.append(file)

    sys.setprofile(note)
    try:
        with torch.no_grad():
            load_pretrained("scalenet-mnist")(torch.rand(1, 1, 28, 28))
    finally:
        sys.setprofile(None)
    files = walks()["An image to logits, on a CPU"]
    assert set(files) <= set(visited)


def test_the_map_names_every_folder() -> None:
    table = TEXT[TEXT.index("## The map") : TEXT.index("## Three walks")]
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert {name for name in folders if f"`{name}/`" not in table} == set()
