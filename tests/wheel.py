"""What ``make wheel`` does with a finished wheel: look into it, install it in an empty environment, use it there.

``python tests/wheel.py dist`` makes a virtual environment in a temporary folder, so nothing of this tree is imported.
First the wheel is installed alone, which brings torch, and a layer is used. With the extra ``predict`` pictures become
labels, in Python and by the command. Then the extra ``all`` is added, and the lines of Python in README.md are run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYER = """
import torch
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
from fourierscale.testing import assert_scale_equivariant

net = ScaleEquivariant(torch.nn.Sequential(LocalFourierConv2d(1, 2, 3, 9), ScaleActivation2d(2, [5, 9]))).double()
assert_scale_equivariant(net, torch.rand(1, 1, 9, 9, dtype=torch.float64), [5])
"""
README = """
import doctest, sys

failed, tried = doctest.testfile(sys.argv[1], module_relative=False, optionflags=doctest.ELLIPSIS)
print(f"README.md: {tried} lines run, {failed} failed")
sys.exit(failed or not tried)
"""
PICTURES = """
from PIL import Image, ImageDraw

ink = Image.new("L", (28, 28), 0)
ImageDraw.Draw(ink).line([(14, 4), (14, 23)], fill=255, width=3)
ink.save("digit.png")
paper = Image.new("L", (200, 300), 215)  # a photograph of a dark digit
ImageDraw.Draw(paper).line([(100, 80), (100, 215)], fill=30, width=20)
paper.save("paper.jpg")
clear = Image.new("RGBA", (28, 28), (0, 0, 0, 0))
clear.putalpha(ink)
clear.save("clear.png")
"""
LABELS = """
import importlib.util, sys
from fourierscale import Classifier

classifier = Classifier("scalenet-mnist")
labels = [classifier(name).label for name in ("digit.png", "paper.jpg", "clear.png")]
print("labels", *labels)
others = ("pytorch_lightning", "torchmetrics", "pooch")
sys.exit(labels != ["1", "1", "1"] or any(map(importlib.util.find_spec, others)))
"""


def check_contents(wheel: Path) -> None:
    """The wheel holds every file of ``src/`` that git knows, and of the rest its metadata alone."""
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name.removeprefix("src/") for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    if wanted != held:
        raise SystemExit(f"{wheel.name} lacks {sorted(wanted - held)} and holds too much: {sorted(held - wanted)}")
    print(f"{wheel.name}: {len(held)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def use_elsewhere(wheel: Path) -> None:
    """Install the wheel outside the tree and run it there."""
    with tempfile.TemporaryDirectory(prefix="fourierscale-wheel-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        binaries = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

        def call(program: str, *arguments: str) -> str:
            done = subprocess.run([str(binaries / program), *arguments], cwd=folder, stdout=subprocess.PIPE, text=True)
            print(done.stdout, end="")
            if done.returncode:
                raise SystemExit(f"{program} {' '.join(arguments)} ended with status {done.returncode}")
            return done.stdout

        install = ["-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
        call("python", *install, str(wheel))
        call("python", "-W", "ignore", "-c", LAYER)  # torch warns that there is no numpy
        call("python", *install, f"{wheel}[predict]")
        call("python", "-c", PICTURES)
        started = time.perf_counter()
        call("python", "-c", LABELS)
        print(f"three pictures in {time.perf_counter() - started:.1f} s, the start of Python included")
        told = call("fourierscale", "predict", "scalenet-mnist", "digit.png", "paper.jpg", "clear.png", "--csv")
        if [row.split(",")[1] for row in told.splitlines()] != ["label", "1", "1", "1"]:
            raise SystemExit("fourierscale predict did not read the digits")
        call("python", *install, f"{wheel}[all]")
        where = call("python", "-c", "import fourierscale; print(fourierscale.__file__)")
        if not Path(where.strip()).is_relative_to(folder):
            raise SystemExit(f"{where.strip()} is not what was installed")
        call("python", "-c", README, str(ROOT / "README.md"))


if __name__ == "__main__":
    (built,) = Path(sys.argv[1]).resolve().glob("*.whl")
    check_contents(built)
    use_elsewhere(built)
