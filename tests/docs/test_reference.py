"""docs/api.md names every public name, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest
import yaml

import fourierscale
from tests.docs.pages import ROOT

# Packages that are how the command line and the kernels work inside, not something to import.
INSIDE = {"fourierscale.cli", "fourierscale.__main__"}


def public() -> dict[str, set[str]]:
    """``__all__`` of every package and of every module beside them."""
    names = {}
    for found in pkgutil.walk_packages(fourierscale.__path__, "fourierscale."):
        if (found.ispkg or found.name.count(".") == 1) and not any(found.name.startswith(name) for name in INSIDE):
            module = importlib.import_module(found.name)
            own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == found.name]
            names[found.name] = set(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))
    return names


def documented() -> dict[str, set[str]]:
    """What docs/api.md names: the members listed below each package, and objects named by their whole path."""
    names: dict[str, set[str]] = {}
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    for target, options in re.findall(r"^::: ([\w.]+)\n((?:    .*\n|\n(?=    ))*)", text, flags=re.MULTILINE):
        settings = (yaml.safe_load(options) or {}).get("options", {})
        names.setdefault(target, set()).update(settings.get("members") or [])
        *parent, name = target.split(".")
        if parent[-1] == name:  # in a module of its own name, which hides it from the package's members
            parent.pop()
        names.setdefault(".".join(parent), set()).add(name)
    return names


@pytest.mark.parametrize("package", sorted(public()))
def test_the_reference_names_every_public_name(package: str) -> None:
    wanted, named = public()[package], documented().get(package, set())
    missing = sorted(wanted - named)
    assert not missing, f"docs/api.md lacks {', '.join(missing)}: add them to the members of {package}"


def test_the_reference_names_nothing_that_is_not_there() -> None:
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    for target in re.findall(r"^::: ([\w.]+)$", text, flags=re.MULTILINE):
        parent, _, name = target.rpartition(".")
        module = importlib.import_module(parent)
        thing = getattr(module, name, None) or importlib.import_module(target)
        for member in documented()[target] if target in public() else ():
            assert hasattr(thing, member), f"docs/api.md: {target} has no {member}"


def test_the_reference_says_where_short_names_lead() -> None:
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert [name for name in fourierscale.__all__ if f"`{name}`" not in text] == []
