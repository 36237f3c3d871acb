"""The picture of the page in the documentation: ``python -m tests.lab.explore.screenshot docs/images/explore.png``."""

from __future__ import annotations

import math
import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image

from fourierscale.cli.explore import find_nets
from fourierscale.lab.explore import ExploreServer, Viewer, build_page
from tests.lab.explore.browser import Browser

TURNS = 48


def eight() -> list[tuple[float, float]]:
    """An 8 in one stroke, in shares of the pad's side."""
    turns = [2 * math.pi * i / TURNS for i in range(TURNS + 1)]
    return [(0.5 + 0.17 * math.sin(2 * t) + 0.06 * math.cos(t), 0.5 - 0.33 * math.cos(t)) for t in turns]


def main(path: Path) -> None:
    viewer = Viewer(find_nets("scalenet-mnist", None))
    with ExploreServer(viewer, build_page(viewer.about())) as server, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Browser(Path(folder), 1120, 900) as browser:
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=1120, height=1250, deviceScaleFactor=1, mobile=False
            )
            browser.open(server.url)
            browser.wait("latest")
            browser.run("find('clear').click(), resolution = 11, null")
            box = browser.run("pad.canvas.getBoundingClientRect().toJSON()")
            browser.drag(*((box["left"] + box["width"] * x, box["top"] + box["height"] * y) for x, y in eight()))
            browser.wait("latest && document.body.dataset.swept === 'true'")
            browser.screenshot(path)
        server.shutdown()
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
