"""Elements of the pages: text is escaped, no number is broken, no label is cut, one point is no chart."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pytest
import torch
from PIL import Image

from fourierscale.pages.charts import Series, error_map, heat_map, line_chart, share_map
from fourierscale.pages.elements import card, facts, legend, png, row, said, section, skeleton, table, two
from tests.lab.explore.browser import Browser, needs_chromium

LOSSES = Series("ours", {1.0: 2e-13, 2.0: 3e-4, 3.0: 0.5}, "ours & others")


def picture(address: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,"))))


def test_what_is_text_is_escaped() -> None:
    evil = "<script>"
    made = [
        section(evil),
        card(evil),
        table([evil], [row(evil, note=evil)]),
        legend([("ours", evil)]),
        facts({evil: evil}),
    ]
    made += [line_chart([Series("ours", {1.0: 1.0, 2.0: 2.0}, evil)], evil, evil), heat_map([[0.5]], [evil], [evil])]
    assert evil not in skeleton(evil, *made)


def test_a_chart_without_points_says_so() -> None:
    assert "nothing to draw" in line_chart([Series("ours", {8.0: None})], "x", "y")


def test_a_chart_of_one_position_is_a_table() -> None:
    text = line_chart(
        [Series("ours", {1.0: 0.25}, "training"), Series("cnn", {1.0: 0.5}, "validation")], "epoch", "loss"
    )
    assert "<svg" not in text
    assert "epoch 1" in text
    assert re.findall(r"<td>(.*?)</td>", text) == ["0.25", "0.5"]


def test_a_line_has_a_point_for_each_value() -> None:
    text = line_chart(
        [LOSSES, Series("cnn", {1.0: 1.0, 2.0: None, 3.0: 0.0}, "cnn")], "epoch", "loss", "log", whole=True
    )
    assert text.count("<circle") == 3 + 1  # neither what is missing nor 0 has a logarithm
    assert "ours &amp; others" in text


def test_errors_of_one_power_are_not_all_full() -> None:
    cells = re.findall(r'fill-opacity="([\d.]+)"', error_map([[0.01, 0.1, 1.0]], ["a"], ["1", "2", "3"], "cnn"))
    assert [float(cell) for cell in cells] == [0.5, 0.75, 1.0]
    exact = re.findall(r'fill-opacity="([\d.]+)"', error_map([[1e-14, 0.0]], ["a"], ["1", "2"], "ours"))
    assert max(map(float, exact)) < 0.2


def test_pictures_have_the_values() -> None:
    grey = picture(png(torch.tensor([[0.0, 0.5], [1.0, 2.0]]), 0.0, 1.0))
    assert list(grey.tobytes()) == [0, 128, 255, 255]
    colour = picture(png(torch.eye(3)[:, :, None]))
    assert colour.mode == "RGB"
    assert list(colour.tobytes()) == [255, 0, 0, 0, 255, 0, 0, 0, 255]
    assert picture(png(torch.rand(4, 5), colours="magma")).size == (5, 4)


PROBE = r"""(() => {
  const found = [], root = document.documentElement;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  if (root.scrollWidth > root.clientWidth) found.push("the page is too wide");
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const match of node.data.matchAll(/\d[\d.]*(?:e[+-]\d+)?/g)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(`${match[0]} is broken`);
    }
  }
  for (const text of document.querySelectorAll("svg text")) {
    const whole = text.ownerSVGElement.getBoundingClientRect(), box = text.getBoundingClientRect();
    if (box.left < whole.left || box.right > whole.right + 0.5) found.push(`${text.textContent} is cut`);
  }
  return found;
})()"""


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_no_number_is_broken_and_no_label_cut(width: int, tmp_path: Path) -> None:
    figures = ["7.8e-14", "0.9876 ± 0.0012", "-0.0123", "1,234,567", "0.5"]
    names = [f"{number} LocalFourierConv2d" for number in range(3)]
    maps = error_map([[1e-13] * 8] * 3, names, ["8", "16", "24", "32", "64", "96", "128", "224"], "ours")
    text = skeleton(
        "a page with numbers",
        f"<p>{said('An error of 7.8e-14 is rounding, one of 1.2e-03 is none; ' * 9)}</p>",
        table(["a name", *figures], [row("a name of several words", *figures, note="below 7.8e-14")] * 2),
        two(card("lines", line_chart([LOSSES], "epoch", "loss", "log")), card("cells", maps)),
        share_map([[0.5, 0.0]], ["a"], ["0", "1"], ["100%"], "cnn"),
    )
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "profile").mkdir()
    with Browser(tmp_path / "profile", width) as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.open(path.as_uri())
        assert browser.run(PROBE) == []
        assert browser.told == []
