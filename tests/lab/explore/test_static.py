"""The page without a server: its own arithmetic gives the library's numbers, from a file, in a real browser."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourierscale.cli import main
from fourierscale.lab.explore import Net, Viewer, write_page
from fourierscale.models import WeightsError, create_model
from fourierscale.models.saved import save_model
from tests.lab.explore.browser import Browser, needs_chromium
from tests.lab.explore.conftest import COLOUR, DIGITS, small_nets
from tests.lab.explore.test_viewer import pixels

VARIANTS: dict[str, dict[str, Any]] = {
    "as-shipped": {"grid": "common"},
    "pooled": {"pool": (2, 1), "resolutions": range(8, 29, 4), "head": "plain"},
    "pooled-common": {
        "pool": (1, 3),
        "grid": "common",
        "pool_kind": "average",
        "head": "average",
        "head_pool": "average",
    },
    "oversampled": {"oversample": 1.5, "norm": "none", "head": "cumulative", "kernel_size": 4, "pointwise": False},
    "between-levels": {"resolutions": [9, 14, 25], "cells": 3},
    "colour": {"in_channels": 3, "classes": 3},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def variant(name: str) -> Viewer:
    """Nets whose every parameter matters, and images that they take."""
    options = VARIANTS[name]
    nets = small_nets(**options)
    for parameter in nets[0].model.parameters():
        if parameter.ndim < 3:
            parameter.data += 0.3 * parameter.new_empty(parameter.shape).normal_()
    for norm in (module for module in nets[1].model.modules() if hasattr(module, "running_mean")):
        norm.running_mean.normal_(std=0.2)
        norm.running_var.uniform_(0.5, 1.5)
    channels = options.get("in_channels", 1)
    if channels > 1:
        return Viewer([Net("ours", "ours", nets[0].model, COLOUR)])
    return Viewer(nets)


@needs_chromium
@pytest.mark.parametrize("name", VARIANTS)
def test_the_browser_computes_what_the_library_computes(name: str, browser: Browser, tmp_path: Path) -> None:
    viewer = variant(name)
    browser.open(write_page(viewer, tmp_path).as_uri())
    browser.wait("latest")
    looks = ((28, viewer.highest, 0), (28, 14, 0), (28, 11, 2), (40, 13, 1), (18, 9, 0))
    for side, resolution, rank in looks:
        image = pixels(side, viewer.prepare.channels, seed=side)
        code = base64.b64encode(image).decode()
        bytes_of = f"Uint8Array.from(atob('{code}'), (letter) => letter.charCodeAt(0))"
        seen = browser.run(f"engine.look({{side: {side}, bytes: {bytes_of}}}, {resolution}, {rank})")
        expected = viewer.look(image, side, resolution, rank)
        assert (seen["size"], seen["resolution"]) == (expected["size"], expected["resolution"])
        assert np.array(seen["levels"]) == pytest.approx(np.array(expected["levels"]), abs=2e-4)
        assert np.abs(np.subtract(seen["image"]["values"], expected["image"]["values"])).max() <= 1
        for key, net in expected["nets"].items():
            mine = seen["nets"][key]
            assert (mine["channel"], mine["channels"]) == (net["channel"], net["channels"])
            assert mine["probabilities"] == pytest.approx(net["probabilities"], abs=2e-4)
            for which in ("small", "shrunk"):
                assert mine[which]["side"] == net[which]["side"]
                assert np.abs(np.subtract(mine[which]["values"], net[which]["values"])).max() <= 2
        if "cnn" in expected["nets"]:
            assert seen["nets"]["cnn"]["error"] == pytest.approx(expected["nets"]["cnn"]["error"], rel=1e-3, abs=1e-12)
        if resolution in viewer.nets[0].model.net.levels.resolutions:
            assert seen["nets"]["ours"]["error"] < 1e-24
    assert not browser.told


@needs_chromium
def test_the_page_works_from_a_file_and_needs_nothing_from_outside(browser: Browser, tmp_path: Path) -> None:
    path = write_page(variant("as-shipped"), tmp_path / "site" / "deep")
    assert not re.search(
        r"(?:src|href)\s*=\s*[\"'](?!data:|#)|url\(|@import|https?://|fetch\(", path.read_text("utf-8")
    )
    assert [file.name for file in path.parent.iterdir()] == ["index.html"]
    browser.open(path.as_uri())
    browser.wait("document.body.dataset.swept === 'true'")
    before = browser.run("find('cnn-error').textContent")
    browser.run("find('slider').value = 0, find('slider').dispatchEvent(new Event('input')), null")
    browser.wait(f"find('cnn-error').textContent !== '{before}'")
    assert float(browser.run("find('ours-error').textContent")) < 1e-24
    assert not browser.told


def test_what_the_page_cannot_compute_is_refused_or_left_out(tmp_path: Path) -> None:
    ours, cnn = small_nets()
    plain = create_model("cnn-mnist", widths=(3, 4, 5), hidden=8).eval()
    path = write_page(Viewer([ours, Net("cnn", "other CNN", plain, cnn.preprocessing)]), tmp_path)
    assert "other CNN" not in path.read_text("utf-8")
    for net, reason in (
        (Net("ours", "other CNN", plain, cnn.preprocessing), "neither a ScaleClassifier nor a small CNN"),
        (small_nets(residual=True)[0], "residual blocks"),
        (small_nets(activation="gelu")[0], "other than ReLU"),
        (small_nets(boundary="mirror")[0], "another boundary"),
        (small_nets(widths=(300, 500))[0], "parameters, more than"),
        (Net("ours", "ours", ours.model, replace(DIGITS, kind="gaussian")), "'gaussian'"),
    ):
        with pytest.raises(WeightsError, match=reason):
            write_page(Viewer([net]), tmp_path)


def test_the_command_writes_the_page_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"widths": (4, 6), "hidden": 8, "residual": False}
    info = {"model": "scalenet-tiny", "overrides": options, "preprocessing": DIGITS.to_dict()}
    save_model(create_model("scalenet-tiny", **options), tmp_path / "run", info)
    arguments = ["explore", "--model", str(tmp_path / "run"), "--build", str(tmp_path / "site")]
    assert main(arguments) == 0
    assert f"wrote {tmp_path / 'site' / 'index.html'}" in " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "small CNN" in page  # it takes the same digits
    save_model(create_model("scalenet-tiny", residual=True), tmp_path / "run", info | {"overrides": {"residual": True}})
    assert main(arguments) == 2
    assert "leave --build out" in capsys.readouterr().err
