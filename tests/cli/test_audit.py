"""``fourierscale audit``: names, files and functions; tables, a sentence, and three files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from fourierscale.auditing import Audit, audit
from fourierscale.auditing.page import build_page
from fourierscale.cli import main
from fourierscale.models import Preprocessing
from tests.training.small_runs import spots, write_digits

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUICK = ["--images", "2", "--resolutions", "8,13", "--kinds", "ideal,bicubic", "--offline"]
FACTORY = """
from torch import nn

def colour():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())

def number(of):
    return 7

def nothing():
    return 7
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder)
    return folder


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "cache"))
    (tmp_path / "made_here.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)


def test_the_shipped_net_is_found_equivariant_and_three_files_are_written(digits, tmp_path, capsys):
    arguments = ["audit", "scalenet-mnist", *QUICK, "--data-dir", str(digits), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"scalenet-mnist is equivariant to \de-1\d through all 10 layers, 8 to 13 px against 28\.", printed
    )
    assert "2 test images of mnist-scale" in printed
    assert "head ScaleHead" in printed
    assert "normalised by mean 0.0607 and std 0.2161" in printed
    assert "same class" in printed
    told = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert told["accuracy"] is not None
    assert len(told["layers"]) == 10
    assert (tmp_path / "out" / "audit.png").read_bytes()[:4] == b"\x89PNG"
    assert "through all 10 layers" in (tmp_path / "out" / "audit.html").read_text()


def test_a_run_is_audited_on_the_test_images_that_its_own_seed_split_off(digits, tmp_path, capsys):
    from fourierscale.data import load_protocol
    from fourierscale.models import create_model
    from fourierscale.models.saved import save_model

    splits = load_protocol("mnist-scale", data_dir=digits, offline=True, seed=5)
    data = {"protocol": "mnist-scale", "channels": 1, "classes": list(splits.classes), "fit": None, "fit_size": None}
    data |= {"resolutions": list(range(8, 29)), "mean": [0.1], "std": [0.3], "kind": "ideal"}
    overrides = {"widths": [2, 3], "hidden": 4}
    info = {"model": "scalenet-tiny", "overrides": overrides, "data": data}
    info["config"] = {"data": {"seed": 5, "data_dir": str(digits), "size": None}}
    model = create_model("scalenet-tiny", **overrides)
    save_model(model, tmp_path / "run", info)
    options = ["--images", "4", "--resolutions", "8", "--kinds", "ideal", "--offline", "--out", str(tmp_path / "out")]
    assert main(["audit", str(tmp_path / "run"), *options]) == 0
    step = len(splits.test) // 4
    x, labels = splits.test.images[: 4 * step : step].float() / 255, splits.test.labels[: 4 * step : step]
    expected = audit(
        model, x, [8], labels=labels, preprocessing=Preprocessing(mean=(0.1,), std=(0.3,)), kinds=["ideal"]
    )
    told = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert told["shift"][-1]["error"] == pytest.approx(expected.shift[-1].error, rel=1e-3)
    assert told["accuracy"] == expected.accuracy


def test_a_baseline_by_name_has_random_weights_and_is_padded(digits, capsys):
    assert main(["audit", "cnn-mnist", *QUICK, "--data-dir", str(digits)]) == 0
    printed = " ".join(capsys.readouterr().out.split())  # a line is as wide as its table
    assert "cnn-mnist has random weights (seed 0)" in printed
    assert "same class" not in printed
    assert "relative squared error, 2 images, ideal, enlarge zero" in printed
    assert "cnn-mnist breaks first at layer 1 of 14 (Conv2d convs.0)" in printed


def test_a_function_of_the_users_is_built_and_gets_random_images(capsys):
    assert main(["audit", "made_here:colour", "--size", "20", *QUICK]) == 0
    printed = capsys.readouterr().out
    assert "2 random band-limited images of 3 x 20 x 20, since MNIST does not suit it" in printed
    assert "colour breaks first at layer 1 of 2 (Conv2d 0)" in printed


def test_without_real_data_random_images_are_used_and_said_so(monkeypatch, capsys):
    from fourierscale.data import DataError

    def nowhere(*_: object, **__: object) -> None:
        raise DataError("no source could supply mnist")

    monkeypatch.setattr("fourierscale.data.load_protocol", nowhere)
    assert main(["audit", "scalenet-tiny", *QUICK]) == 0
    assert "since there is no real data (no source could supply mnist)" in capsys.readouterr().out


def test_a_folder_of_images_is_used_at_the_size_of_a_file(tmp_path, capsys):
    from PIL import Image

    images, labels = spots(20, 24, 0, classes=2)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = tmp_path / "photos" / f"class {label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).convert("RGB").save(place / f"{number}.png")
    model = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.Flatten(), nn.Linear(2 * 16 * 16, 3)).eval()
    torch.export.save(torch.export.export(model, (torch.rand(2, 3, 16, 16),)), tmp_path / "fixed.pt2")
    options = ["--data", str(tmp_path / "photos"), "--size", "24", "--images", "3", "--kinds", "ideal"]
    assert main(["audit", str(tmp_path / "fixed.pt2"), *options]) == 2
    assert "fixed.pt2 is a program that can do whatever you can" in capsys.readouterr().err
    assert main(["audit", str(tmp_path / "fixed.pt2"), "--trust", *options]) == 0
    printed = " ".join(capsys.readouterr().out.split())  # a line is as wide as its table
    assert "enlarge zero" in printed
    assert "fixed.pt2 is not equivariant: its output is off by" in printed


def test_a_folder_without_classes_is_used_whole(tmp_path, capsys):
    from PIL import Image

    (tmp_path / "flat").mkdir()
    for number, image in enumerate(spots(24, 24, 0)[0]):
        Image.fromarray(image[0]).convert("RGB").save(tmp_path / "flat" / f"{number}.png")
    options = ["--data", "flat", "--images", "8", "--kinds", "ideal", "--resolutions", "12"]
    assert main(["audit", "made_here:colour", *options]) == 0
    assert "8 of 24 images of flat, 24 x 24" in capsys.readouterr().out


MISTAKES = {
    "unknown name": (["scalenet-mnst"], "unknown model 'scalenet-mnst': did you mean 'scalenet-mnist'?"),
    "missing file": (["nowhere.onnx"], "nowhere.onnx: there is no such file"),
    "no module": (["not_there:build"], "cannot import not_there"),
    "no function": (["made_here:colours"], "made_here has no function colours"),
    "arguments": (["made_here:number"], "builds a model without arguments"),
    "no model": (["made_here:nothing"], "it gives int"),
    "wrong channels": (
        ["made_here:colour", "--data", "mnist-scale"],
        "takes images of 3 channel(s), mnist-scale has 1",
    ),
    "no numbers": (["scalenet-tiny", "--data", "random", "--resolutions", "8-x"], "expected numbers as 8,14,20"),
    "unknown kind": (["scalenet-tiny", "--data", "random", "--kinds", "cubic"], "unknown kind of downscaling 'cubic'"),
    "misspelt protocol": (["scalenet-tiny", "--data", "mnist-scal"], "did you mean 'mnist-scale'?"),
    "too small": (["cnn-mnist", "--data", "random", "--enlarge", "none"], "for a model of one input size"),
    "out is a file": (["scalenet-tiny", "--out", "made_here.py"], "--out names a folder"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line(name, digits, capsys):
    arguments, message = MISTAKES[name]
    assert main(["audit", *arguments, "--offline", "--images", "1", "--data-dir", str(digits)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def found() -> Audit:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return replace(audit(model, torch.rand(2, 1, 16, 16), [6, 9, 13], labels=[0, 2]), model="a <net>")


def test_the_page_needs_nothing_from_outside_and_holds_every_number(found):
    page = build_page(found)
    assert "a &lt;net&gt; breaks first" in page
    assert "a <net>" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert page.count('class="error ') == 3 * 4 + 2 * 3 + 6 * 4  # ideal; the images of two kinds; those kinds
    assert page.count('class="line ') == 3 + 2


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_in_a_narrow_browser_the_page_does_not_run_over(found, tmp_path):
    probe = (
        "<script>addEventListener('load', () => { const root = document.documentElement; const p = "
        "document.createElement('pre'); p.id = 'probe'; p.textContent = root.scrollWidth <= root.clientWidth; "
        "document.body.append(p); });</script></body>"
    )
    path = tmp_path / "audit.html"
    path.write_text(build_page(found).replace("</body>", probe), encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=500,900"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=1000", "--dump-dom"]
    done = subprocess.run(
        [str(CHROMIUM), *flags, path.as_uri()], capture_output=True, text=True, timeout=60, check=False
    )
    assert '<pre id="probe">true</pre>' in done.stdout, done.stderr[-2000:]
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_several_models_are_audited_one_after_the_other(digits, tmp_path, capsys):
    out = ["--data-dir", str(digits), "--out", str(tmp_path / "out")]
    assert main(["audit", "cnn-small", "scalenet-mnist", *QUICK, *out]) == 0
    printed = capsys.readouterr().out
    assert printed.index("cnn-small breaks first") < printed.index("scalenet-mnist is equivariant")
    for folder in ("1-cnn-small", "2-scalenet-mnist"):
        assert json.loads((tmp_path / "out" / folder / "audit.json").read_text())["layers"]


def test_a_narrow_terminal_keeps_the_path_and_the_normalisation_is_that_of_the_user(digits, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "70")
    arguments = ["audit", "scalenet-tiny", *QUICK, "--data-dir", str(digits), "--mean", "0.5", "--std", "0.25"]
    assert main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "normalised by mean 0.5 and std 0.25" in printed
    assert all(f"net.blocks.{block}.{layer} " in printed for block in (0, 1) for layer in (0, 1))
    assert main(["audit", "scalenet-tiny", "--device", "abacus", "--offline"]) == 2
    assert "cannot compute on abacus" in capsys.readouterr().err


def test_bad_files_of_a_folder_are_left_out_if_asked(tmp_path, capsys):
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            colours = torch.randint(0, 255, (40, 40, 3), generator=torch.Generator().manual_seed(number))
            Image.fromarray(colours.byte().numpy()).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "a" / "bad.png").write_text("no image")
    arguments = ["audit", "made_here:colour", "--data", "photos", "--images", "2", "--kinds", "ideal"]
    assert main(arguments) == 0  # none of the model's own folder, so what cannot be read is left out and counted
    assert "1 cannot be read" in capsys.readouterr().out
    assert main([*arguments, "--skip-bad"]) == 0
