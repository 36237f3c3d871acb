"""Two small nets to look through, one of them ours, and a server that ends with the tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from fourierscale.lab.explore import ExploreServer, Net, Viewer, build_page
from fourierscale.models import Preprocessing, create_model

DIGITS = Preprocessing(mean=(0.1,), std=(0.3,), sizes=tuple(range(8, 29)), classes=tuple("0123456789"))
DIGITS = replace(DIGITS, polarity="light on dark")
COLOUR = Preprocessing(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), classes=("cat", "dog", "eel"))
PADDED = replace(DIGITS, enlarge="zero", enlarge_size=28)


def small_nets(**options: Any) -> list[Net]:
    torch.manual_seed(0)
    shape = {"widths": (6, 8), "hidden": 8, "resolutions": range(8, 29), "pool": 1, "head": "temperature"} | options
    ours = create_model("scalenet-tiny", **shape).eval()
    cnn = create_model("cnn-small", widths=(4, 6, 6)).eval()
    return [Net("ours", "ours", ours, DIGITS), Net("cnn", "small CNN", cnn, PADDED)]


@pytest.fixture(scope="session")
def viewer() -> Viewer:
    return Viewer(small_nets())


@pytest.fixture(scope="session")
def server(viewer: Viewer) -> Iterator[ExploreServer]:
    with ExploreServer(viewer, build_page(viewer.about())) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
