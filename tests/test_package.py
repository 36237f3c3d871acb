import subprocess
import sys
import tomllib
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
try:
    fourierscale.audit
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shape, needed = done.stdout.strip().splitlines()
    assert shape == "torch.Size([1, 2, 9, 9])"
    assert needed == "fourierscale.audit needs numpy: pip install 'fourierscale[train]'"


def test_the_version_is_the_same_everywhere():
    assert f"version: {fourierscale.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{fourierscale.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_extras_are_those_that_the_documentation_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == {"train", "data", "export", "dev", "all"}
    assert project["dependencies"] == ["torch>=2.6"]


def test_the_package_is_typed():
    assert (Path(fourierscale.__file__).parent / "py.typed").exists()
