"""Everything the pages show is true: commands run, or are parsed to the last option; links and names exist.

``pytest tests/test_docs.py -v`` lists what each line got: ``run`` means that it was run, on small stand-ins of the data
and with fewer images or epochs where that is needed; ``parsed`` that its options, config, fields, and names of models,
data and tables were resolved by the command itself, without the work. Python blocks are doctests, run by pytest itself.
"""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
import yaml
from PIL import Image

import fourierscale
from fourierscale import training
from fourierscale.cli import main
from fourierscale.data import MaskSurvey, find_protocol, get_augmentation, load_fields
from fourierscale.data.folder import ImageFolder
from fourierscale.data.mask_opening import open_masks
from fourierscale.data.opening import open_folder
from fourierscale.data.protocols import folder_path
from fourierscale.data.registry import DATASETS
from fourierscale.lab.bench import SUITES
from fourierscale.lab.bench.cases import choose_cases
from fourierscale.models import list_models, load_pretrained
from fourierscale.training import load_config
from fourierscale.training.run import resolve_model
from tests.attack.__main__ import read_options
from tests.data.small_sets import IDX_NAMES, small_mnist
from tests.data.test_stl10 import write_part
from tests.docs.pages import PAGES, ROOT, Command, anchors, blocks, commands, links
from tests.training.small_pairs import write_fields, write_masks
from tests.training.small_runs import write_digits

SMALL = [
    "model.overrides.widths=[4]",
    "model.overrides.pool=1",
    "model.overrides.hidden=8",
    "train.progress=false",
    "train.epochs=1",
    "eval.limit=60",
    "eval.sample=9",
]
# the commands that are run, and what makes them quick enough
QUICK: dict[str, list[str]] = {
    "data": [],
    "predict": [],
    "evaluate": ["--limit", "30", "--sample", "3"],
    "reproduce list": [],
    "reproduce status": [],
    "reproduce run": ["--dry-run"],
    "reproduce report": ["--no-figures"],
    "train --resume": [],
}
LANGUAGES = {"python", "bash", "toml", "yaml", "text"}
DONE: set[tuple[str, ...]] = set()
COMMANDS = commands()


def quick(words: list[str]) -> list[str] | None:
    """What to add to a line of ``fourierscale`` to run it; None: it is only parsed."""
    maps = {"runs/scans", "runs/flow"} & set(words)  # runs that tests/cli/test_maps.py makes and uses
    if "--onnx" in words or "runs/digits" in words or maps:  # files that tests/export and test_tutorial.py make and use
        return None
    for start, more in QUICK.items():
        if words[1 : 1 + len(start.split())] == start.split():
            return more
    return None


def outcome(command: Command) -> str:
    apart = (
        command.in_sentence or command.page == "docs/tutorial.md"
    )  # whose lines test_tutorial.py runs in their order
    runs = command.words[0] == "fourierscale" and not apart and quick(command.words) is not None
    return "run" if runs else "parsed"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with everything that the lines name: data, pictures, configs, a trained run."""
    folder = tmp_path_factory.mktemp("place")
    for name in ("cache/mnist", "downloads", "photos/cat", "photos/dog", "results", "docs"):
        (folder / name).mkdir(parents=True)
    write_digits(folder / "downloads", 700, 120)
    for name in IDX_NAMES:
        content = (folder / "downloads" / name).read_bytes()
        (folder / "cache/mnist" / name).write_bytes(content)
        (folder / "cache/mnist" / f"{name}.gz").write_bytes(content)
    write_part(folder / "downloads", "train", 40)
    write_part(folder / "downloads", "test", 60)
    rng = np.random.default_rng(0)
    pictures = [folder / name for name in ("digit.png", "scan.jpg")]
    pictures += [folder / f"photos/{name}/{number}.jpg" for name in ("cat", "dog") for number in range(10)]
    for path in pictures:
        Image.fromarray(rng.integers(0, 256, (80, 70, 3), dtype=np.uint8)).save(path)
    write_masks(folder / "scans")
    write_fields(folder / "flow")
    (folder / "my.yaml").write_text("model:\n  name: scalenet-tiny\noptim:\n  lr: 0.01\n")
    (folder / "mine.toml").write_text('model.name = "scalenet-tiny"\n')
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test is in the working folder, at home there, and knows small digits as the published ones."""
    monkeypatch.chdir(place)
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(place))
    monkeypatch.setenv("FOURIERSCALE_DATA", str(place / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setitem(DATASETS, "mnist", small_mnist(place / "cache/mnist"))
    return place


@pytest.fixture
def run(here: Path) -> Path:
    """``runs/tiny``, as the first line of docs/training.md makes it, but small."""
    if not (here / "runs/tiny").exists():
        settings = [part for setting in SMALL for part in ("--set", setting)]
        assert main(["train", "--config", "tiny", "--out", "runs/tiny", *settings]) == 0
    return here / "runs/tiny"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{outcome(c)}-{c.place}-{c.text.split('  ')[0]}")
def test_command(command: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(command, monkeypatch)


def use(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    words = command.words
    check = CHECKS.get(words[0])
    assert check is not None, f"{command.place}: no test knows {words[0]!r}; add it to CHECKS in tests/test_docs.py"
    if outcome(command) == "run":
        run_for_real(words)
    elif command.in_sentence and words[0] == "fourierscale" and len(words) == 2:
        assert main([words[1], "--help"]) == 0  # a sentence names a command without what it needs
    else:
        check(words, monkeypatch)


def run_for_real(words: list[str]) -> None:
    as_bash = (str(Path(word).expanduser()) if word.startswith("~") else word for word in words[1:])
    arguments = (*as_bash, *(quick(words) or []))
    assert arguments in DONE or main(arguments) == 0
    DONE.add(arguments)  # several pages name the same one


def check_fourierscale(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if words[1] == "train" and "--resume" not in words:
        monkeypatch.setattr(training, "load_splits", known_data)
        monkeypatch.setattr(training, "train", build_only)
        assert main(words[1:]) == 0
        return
    params = parsed(words[1:], monkeypatch)
    if words[1] == "bench":
        names = params["names"] or []
        assert set(names[:1]) & set(SUITES) or choose_cases(names, params["device"] or "cpu", params["quick"])


def parsed(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command line makes of its arguments: every command parses them and then does nothing."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", lambda self, context: seen.append(context.params))
    assert main(arguments) == 0
    assert len(seen) == 1, f"fourierscale {' '.join(arguments)}: no command was reached"
    return seen[0]


def known_data(config: Any, report: Any = None, survey: Any = None) -> Any:
    """In place of loading images: the protocol and the augmentation exist."""
    get_augmentation(config.data.augment, **config.data.augment_settings)
    if isinstance(survey, MaskSurvey):
        return open_masks(survey, config.data)[0]
    if config.data.task == "field" and folder_path(config.data.protocol) is not None:
        return load_fields(config.data.protocol).protocol
    return find_protocol(config.data.protocol) if survey is None else open_folder(survey, config.data)[0]


def build_only(config: Any, folder: Any, resume: bool, splits: Any) -> None:
    """In place of training: the model is built, without memory, as the config and the data say."""
    dataset = DATASETS.get(splits.dataset)
    if splits.task != "classification":
        resolved = resolve_model(config, splits, max(2, len(splits.classes)), len(splits.mean))
        with torch.device("meta"):
            fourierscale.create_model(resolved.model.name, **resolved.model.overrides)
        raise typer.Exit(0)
    classes = ImageFolder(splits.dataset).classes if dataset is None else dataset.classes
    resolved = resolve_model(config, splits, len(classes), 3 if dataset is None else dataset.shape[0])
    with torch.device("meta"):
        fourierscale.create_model(resolved.model.name, **resolved.model.overrides)
    raise typer.Exit(0)


def check_make(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words[1:]:
        name, _, value = word.partition("=")
        if value:  # make bench BENCH=--quick: what it passes on must be there, and mean something
            assert f"$({name})" in makefile, f"the Makefile knows no variable {name}"
            parsed([words[1], *value.split()], monkeypatch)
        else:
            assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), f"the Makefile has no target {name}"


def check_python(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if words[1:3] == ["-m", "tests.attack"]:
        read_options(words[3:])
        return
    (script,) = (word for word in words if word.endswith(".py"))
    assert (ROOT / script).is_file(), f"there is no {script}"
    source = (ROOT / script).read_text()
    for option in (word.split("=")[0] for word in words[words.index(script) :] if word.startswith("--")):
        assert f'"{option}"' in source, f"{script} has no option {option}"


def check_pip(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[1] == "install"
    for name in re.findall(r"\[([a-z,]+)\]", " ".join(words)):
        assert set(name.split(",")) <= set(extras), f"no extra {name} in pyproject.toml"


def check_export(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for word in words[1:]:
        assert f'"{word.split("=")[0]}"' in source, f"nothing in src reads {word}"


def check_source(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert words[1:] == [".venv/bin/activate"]
    assert "VENV ?= .venv\n" in (ROOT / "Makefile").read_text()


CHECKS: dict[str, Callable[[list[str], pytest.MonkeyPatch], None]] = {
    "fourierscale": check_fourierscale,
    "make": check_make,
    "python": check_python,
    "torchrun": check_python,
    "pip": check_pip,
    "export": check_export,
    "source": check_source,
}


def test_a_wrong_line_would_be_noticed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (
        "fourierscale train --config mnist-bets",
        "fourierscale train --config tiny --set optim.learning=3",
        "fourierscale train --config tiny --set model.overrides.heads=plain",
        "fourierscale train --config tiny --data minst-scale",
        "fourierscale train --config tiny --epoch 3",
        "fourierscale reproduce run mnist-all --rows ours-bset",
        "fourierscale demo --limits 3",
        "fourierscale evaluate scalenet-mnits",
        "fourierscale data show mnist-scaled",
        "make demos",
        "cmake demo",
        "make bench BENCH=--quickly",
        "python examples/none.py",
        "python examples/equivariance.py --output x",
        "pip install 'fourierscale[gpu]'",
        "export FOURIERSCALE_DATE=x",
    ):
        with monkeypatch.context() as patch, pytest.raises((AssertionError, ValueError)):
            use(Command("here", 1, line), patch)
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="nonesuch"):
        check_fourierscale(["fourierscale", "bench", "nonesuch"], patch)


def test_every_block_says_what_it_is() -> None:
    wrong = [f"{block.place}: {block.language!r}" for block in blocks() if block.language not in LANGUAGES]
    assert not wrong, f"a block is one of {', '.join(sorted(LANGUAGES))}"


def test_python_blocks_are_doctests() -> None:
    silent = [b.place for b in blocks() if b.language == "python" and not any(">>> " in line for line in b.lines)]
    assert not silent, "write it with >>>, so that it runs"


def test_configs_on_the_pages_load(tmp_path: Path) -> None:
    shown = [block for block in blocks() if block.language in ("toml", "yaml")]
    for block in shown:
        path = tmp_path / f"config.{block.language}"
        path.write_text("\n".join(block.lines))
        assert (tomllib.loads if block.language == "toml" else yaml.safe_load)(path.read_text()), block.place
        load_config(str(path))


def test_links_lead_somewhere() -> None:
    for page, number, target in links():
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page}:{number}: there is no {target}"
        if anchor:
            assert anchor in anchors(file), f"{page}:{number}: {file.name} has no heading #{anchor}"


def test_every_docstring_can_be_shown() -> None:
    """Examples, roles and formulas become Markdown; a formula that cannot be set fails here, not in make docs."""
    to_markdown = runpy.run_path(str(ROOT / "docs/theme/docstrings.py"))["to_markdown"]
    formulas = 0
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                shown = to_markdown(ast.get_docstring(node) or "")
                assert ":math:" not in shown
                assert ".. math::" not in shown
                formulas += shown.count("<svg")
    assert formulas > 50


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r"[\w/-]+\.md", text.split("nav:")[1].split("\nplugins:")[0]))
    assert named == {str(p.relative_to(ROOT / "docs")) for p in PAGES if p.is_relative_to(ROOT / "docs")}


def test_models_named_on_the_pages_exist() -> None:
    named = {
        name
        for path in PAGES
        for name in re.findall(r"load_pretrained\(\"([^\"]+)\"\)", path.read_text(encoding="utf-8"))
    }
    assert named
    for name in named:
        assert name in list_models()
        load_pretrained(name)


def test_prose_is_no_wider_than_code() -> None:
    """Rows of tables and pictures aside, which must be one line."""
    texts = {*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "src").rglob("*.md")}
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(texts)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120 and not line.startswith(("|", "!["))
    ]
    assert not wide, "break these lines at 120 letters"
