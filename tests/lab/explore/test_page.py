"""The page in a real browser: draw, slide, drop, and see the numbers change."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fourierscale.lab.explore import ExploreServer
from tests.lab.explore.browser import Browser, needs_chromium

pytestmark = needs_chromium
LOOK = """({
  resolution: document.getElementById("resolution").textContent,
  ours: document.getElementById("ours-error").textContent,
  cnn: document.getElementById("cnn-error").textContent,
  kinds: ["ours", "cnn"].map((key) => document.getElementById(key + "-error").className),
  sides: ["small", "ours-small", "ours-shrunk", "cnn-small"].map((id) => document.getElementById(id).width),
  maps: ["small", "ours-small", "cnn-small", "cnn-shrunk"].map((id) => document.getElementById(id).toDataURL()),
  bars: ["ours", "cnn"].map((key) => document.getElementById(key + "-bars").innerHTML),
  answers: ["ours", "cnn"].map((key) => document.getElementById(key + "-answer").textContent),
  points: ["ours", "cnn"].map((key) => document.querySelectorAll("#errors circle." + key).length),
  problem: document.getElementById("problem").textContent,
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, server: ExploreServer) -> Iterator[Browser]:
    browser.open(server.url)
    browser.wait("latest")
    yield browser
    assert not browser.told


def settle(browser: Browser) -> None:
    """Until every resolution is in the charts."""
    browser.wait("document.body.dataset.swept === 'true' && !busy")


def act(browser: Browser, script: str) -> dict[str, Any]:
    """Do something, wait until the page shows its result, and read the page."""
    browser.run(f"window.before = latest, {script}, null")
    browser.wait("latest && latest !== before && !again")
    seen: dict[str, Any] = browser.run(LOOK)
    return seen


def slide(browser: Browser, resolution: int) -> dict[str, Any]:
    move = f"find('slider').value = choices().indexOf({resolution})"
    return act(browser, f"{move}, find('slider').dispatchEvent(new Event('input'))")


def drop(browser: Browser, content: bytes, name: str = "picture.png") -> dict[str, Any]:
    data = base64.b64encode(content).decode()
    browser.run(
        f"""(async () => {{
          const bytes = Uint8Array.from(atob("{data}"), (letter) => letter.charCodeAt(0));
          const carried = new DataTransfer();
          carried.items.add(new File([bytes], "{name}"));
          problem("");
          window.before = latest;
          document.dispatchEvent(new DragEvent("drop", {{dataTransfer: carried, bubbles: true}}));
        }})()"""
    )
    browser.wait("latest !== before || find('problem').textContent")
    seen: dict[str, Any] = browser.run(LOOK)
    return seen


def png(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_digit_is_there_from_the_start_with_both_nets_at_every_resolution(page: Browser) -> None:
    settle(page)
    seen = page.run(LOOK)
    assert float(seen["ours"]) < 1e-9 < 1e-2 < float(seen["cnn"])
    assert seen["kinds"] == ["good", "bad"]
    assert seen["points"] == [20, 20]  # 28 is the image itself
    assert [bars.count("<title>8 px") + bars.count("<title>27, 28") for bars in seen["bars"]] == [20, 20]
    assert not page.run("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_the_slider_changes_pictures_and_numbers(page: Browser) -> None:
    low, high = slide(page, 9), slide(page, 21)
    assert (low["resolution"], high["resolution"]) == ("9", "21")
    assert (low["sides"], high["sides"]) == ([9, 9, 9, 14], [21, 21, 21, 14])
    assert all(before != after for before, after in zip(low["maps"], high["maps"], strict=True))
    assert low["cnn"] != high["cnn"]
    assert "at 9 px" in low["answers"][0]
    assert float(high["ours"]) < 1e-9


def test_keys_move_the_slider(page: Browser) -> None:
    page.run("find('slider').focus()")
    page.press("End")
    page.wait("find('resolution').textContent === '28'")
    page.press("ArrowLeft")
    page.wait("find('resolution').textContent === '27'")
    assert page.run("find('slider').getAttribute('aria-valuetext')") == "27 pixels"
    page.wait("latest.resolution === 27")


@pytest.mark.parametrize("way", ["drag", "touch"])
def test_drawing_gives_another_image(page: Browser, way: str) -> None:
    page.run("find('clear').click()")
    page.wait("!latest")
    assert page.run("find('ours-error').textContent") == "-"
    left, top, side = page.run("(({left, top, width}) => [left, top, width])(pad.canvas.getBoundingClientRect())")
    points = [(left + side * x, top + side * y) for x, y in ((0.2, 0.2), (0.4, 0.25), (0.5, 0.5), (0.45, 0.8))]
    getattr(page, way)(*points)
    page.wait("latest && !again")
    seen = page.run(LOOK)
    assert float(seen["ours"]) < 1e-9 < 1e-2 < float(seen["cnn"])
    greys = page.run("Array.from(pad.image().bytes)")
    assert max(greys) == 255
    assert len({value for value in greys if 0 < value < 255}) > 20  # strokes have soft edges


def test_digits_are_centred_as_those_of_mnist_unless_switched_off(page: Browser) -> None:
    page.run("pad.clear(), pad.pencil(), pad.context.fillStyle = '#fff', pad.context.fillRect(20, 30, 40, 80)")
    image = np.array(page.run("Array.from(pad.image().bytes)")).reshape(28, 28) / 255
    places = np.arange(28) + 0.5
    assert [(image.sum(axis) * places).sum() / image.sum() for axis in (0, 1)] == pytest.approx([14, 14], abs=0.1)
    assert [int((image.max(axis) > 0.5).sum()) for axis in (0, 1)] == [10, 20]
    plain = act(page, "find('centre').click()")
    image = np.array(page.run("Array.from(pad.image().bytes)")).reshape(28, 28) / 255
    assert image[3:11, 2:6].min() == 1
    assert image.sum() == 32
    assert plain["problem"] == ""


def test_the_page_says_where_the_net_could_stop(page: Browser) -> None:
    page.wait("latest && !again")
    steps = page.run("about.looks[28]")
    assert [step[0] for step in steps] == [8, 14, 28]
    assert steps[0][1] == pytest.approx(7**2 / 28**2)
    assert page.run("find('first').textContent").startswith(
        ("Coarse first: of 8, 14, 28 px", "Coarse first: at none of")
    )


def test_a_transparent_picture_shows_its_ink(page: Browser) -> None:
    for colour in (0, 255):
        clear = np.full((30, 30, 4), colour, np.uint8)
        clear[..., 3] = 0
        clear[9:20, 13:16, 3] = 255
        drop(page, png(clear))
        settle(page)
        assert page.run("Math.max(...pad.image().bytes)") == 255
        assert page.run("pad.image().bytes[0]") == 0
        assert page.run("find('invert').checked") == (colour == 0)


def test_a_dropped_picture_is_looked_at_in_its_own_size(page: Browser) -> None:
    paper = np.full((30, 19), 255, np.uint8)
    paper[9:20, 8:11] = 0
    drop(page, png(paper))
    settle(page)
    seen = page.run(LOOK)
    assert page.run("[pad.image().side, find('invert').checked, find('centre').checked]") == [19, True, False]
    assert page.run("choices().at(-1)") == 19
    assert seen["points"] == [11, 11]
    assert page.run("pad.image().bytes[9 * 19 + 9]") == 255  # ink is white inside
    assert float(seen["ours"]) < 1e-9


def test_what_is_no_picture_is_refused_in_a_sentence(page: Browser) -> None:
    assert "notes.txt cannot be read as a picture" in drop(page, b"hello", "notes.txt")["problem"]
    assert "at least 8 x 8" in drop(page, png(np.zeros((5, 5), np.uint8)), "dot.png")["problem"]
    assert act(page, "find('examples').children[3].click()")["problem"] == ""


def test_the_page_says_what_the_server_says(page: Browser) -> None:
    page.run("image = {side: 28, bytes: new Uint8Array(3).map((_, i) => i)}, refresh(), null")
    page.wait("find('problem').textContent")
    assert "28 x 28 x 1 bytes of pixels, got 3" in page.run("find('problem').textContent")
    assert len(page.told) == 1  # the browser itself notes the status
    page.told.clear()


def test_on_a_phone_everything_is_in_sight(browser: Browser, server: ExploreServer) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
    try:
        browser.open(server.url)
        settle(browser)
        assert browser.run("document.documentElement.scrollWidth") <= 360
        small = "[...document.querySelectorAll('button, .button')].filter((b) => b.getBoundingClientRect().height < 34)"
        assert browser.run(f"{small}.length") == 0
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")
    assert not browser.told
