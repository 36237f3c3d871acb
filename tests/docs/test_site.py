"""The site as readers see it: it needs nothing from outside, and nothing on it is cut, on a screen or a phone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_reference import public
from tests.lab.explore.browser import Browser, needs_chromium

pytestmark = pytest.mark.slow
PAGES = [str(path.relative_to(ROOT / "docs").with_suffix(".html")) for path in sorted((ROOT / "docs").rglob("*.md"))]
CUT = """[...document.querySelectorAll('.md-content pre > code')]
  .filter(code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent)"""
BROKEN_NUMBERS = """(() => {
  const broken = [], walk = document.createTreeWalker(document.querySelector('.md-content'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (!node.parentElement.closest('td, th')) continue;
    for (const number of node.data.matchAll(/(?<![\\w:.-])[0-9][^\\s]*/g)) {
      const range = document.createRange();
      range.setStart(node, number.index);
      range.setEnd(node, number.index + number[0].length);
      const lines = new Set([...range.getClientRects()].filter(box => box.width).map(box => Math.round(box.top)));
      if (lines.size > 1) broken.push(number[0]);
    }
  }
  return broken;
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def test_the_site_needs_nothing_from_outside(site: Path) -> None:
    for page in PAGES:
        shown = (site / page).read_text(encoding="utf-8")
        assert not re.search(r"<(script|img)[^>]* src=\"?http|<link[^>]*stylesheet[^>]*http", shown), page
    assert not list(site.rglob("*.py"))


def test_the_reference_shows_every_public_name(site: Path) -> None:
    reference = (site / "api.html").read_text(encoding="utf-8")
    for package, names in public().items():
        for name in names - {inner.rpartition(".")[2] for inner in public()}:  # packages have sections of their own
            assert re.search(rf'id="{re.escape(package)}\.({name}\.)?{name}"', reference), f"{package}.{name}"


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_cut_and_no_number_is_broken(site: Path, browser: Browser, page: str, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    browser.open((site / page).as_uri())
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT) == []
    assert browser.run(BROKEN_NUMBERS) == []
    assert not browser.told


@needs_chromium
def test_the_search_box_is_there_and_finds(site: Path, browser: Browser) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.open((site / "index.html").as_uri())
    browser.wait("document.querySelector('.md-search__input').offsetWidth > 100")
    browser.run("document.querySelector('.md-search__input').focus()")
    browser.call("Input.insertText", text="nyquist")
    browser.press("End")
    browser.wait("document.querySelector('.md-search-result__link[href*=theory]')")
