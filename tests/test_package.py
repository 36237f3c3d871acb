import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import fourierscale

ROOT = Path(__file__).parents[1]


def test_import_needs_torch_alone():
    """Every other third-party package is hidden, then the core is imported and used."""
    code = """
import sys
hidden = {"numpy", "PIL", "scipy", "matplotlib", "typer", "rich", "pooch", "mlxtend", "pytorch_lightning",
          "torchmetrics", "safetensors", "onnx", "triton"}
class Blind:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in hidden else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Blind(finder) for finder in sys.meta_path]
import warnings
warnings.simplefilter("ignore")  # torch itself says that numpy is missing
import torch, fourierscale
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
net = ScaleEquivariant(torch.nn.Sequential(LocalFourierConv2d(1, 2, 3, 9), ScaleActivation2d(2, [5, 9])))
print(net(torch.rand(1, 1, 9, 9)).shape)
print(fourierscale.audit(net, torch.rand(2, 1, 9, 9), [5]).broken)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["torch.Size([1, 2, 9, 9])", "None", ""]


def test_predicting_needs_its_extra_alone(tmp_path: Path):
    """Python and the command line, with every package hidden that only other extras install."""
    code = """
import sys
hidden = {"matplotlib", "pooch", "mlxtend", "pytorch_lightning", "torchmetrics", "filelock", "platformdirs", "yaml",
          "tensorboard", "onnx", "onnxruntime", "onnxscript", "scipy", "sklearn", "pandas"}
class Blind:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in hidden else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Blind(finder) for finder in sys.meta_path]
import torch, fourierscale
from PIL import Image
image = torch.zeros(28, 28, dtype=torch.uint8)
image[4:24, 13:16] = 255
print(fourierscale.Classifier("scalenet-mnist")(image).label)
Image.fromarray(image.numpy()).save("one.png")
from fourierscale.cli import main
sys.exit(main(["--help"]) or main(["models"]) or main(["predict", "scalenet-mnist", "one.png"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1\n")
    assert "one.png: 1 1.0000" in done.stdout


def test_the_version_is_the_same_everywhere():
    assert f"version: {fourierscale.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{fourierscale.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_extras_are_those_that_the_documentation_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == {"predict", "train", "export", "hub", "all", "dev"}
    assert project["dependencies"] == ["torch>=2.6"]


def test_the_import_contract_names_every_package_that_an_extra_installs():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    wanted = {re.match(r"[\w-]+", line)[0] for name in ("predict", "train", "export", "hub") for line in extras[name]}
    modules = {"pillow": "PIL", "pyyaml": "yaml"}
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "forbidden")
    assert {modules.get(name, name).replace("-", "_") for name in wanted - {"fourierscale"}} == set(
        contract["forbidden_modules"]
    )


def public_callables() -> dict[str, Callable]:
    """Functions, classes and methods whose names do not begin with an underscore; those of the command line aside."""
    found: dict[str, Callable] = {}
    for info in pkgutil.walk_packages(fourierscale.__path__, "fourierscale."):
        if info.name.startswith(("fourierscale.cli", "fourierscale.__main__")):
            continue
        for name, thing in vars(importlib.import_module(info.name)).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != info.name:
                continue
            if inspect.isfunction(thing):
                found[f"{info.name}.{name}"] = thing
            elif inspect.isclass(thing) and not issubclass(thing, Exception):
                methods = {key: way for key, way in vars(thing).items() if inspect.isfunction(way) and key[0] != "_"}
                found |= {f"{info.name}.{name}": thing} | {f"{info.name}.{name}.{key}": methods[key] for key in methods}
    return found


def test_no_public_callable_has_more_than_ten_parameters():
    counts = {
        place: len(set(inspect.signature(thing).parameters) - {"self"})
        for place, thing in public_callables().items()
        if not dataclasses.is_dataclass(thing)
    }
    assert {place: count for place, count in counts.items() if count > 10} == {}


def test_no_public_function_is_named_like_its_module():
    functions = [place for place, thing in public_callables().items() if inspect.isfunction(thing)]
    assert {place for place in functions if len(set(place.split(".")[-2:])) == 1} == set()
