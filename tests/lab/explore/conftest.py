"""Two small nets to look through, one of them ours, and a server that ends with the tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fourierscale.lab.explore import ExploreServer, Net, Viewer, build_page
from fourierscale.models import create_model

DATA: dict[str, Any] = {
    "channels": 1,
    "classes": list("0123456789"),
    "mean": [0.1],
    "std": [0.3],
    "kind": "ideal",
    "resolutions": list(range(8, 29)),
    "equivariance": list(range(8, 29)),
    "fit": None,
    "fit_size": None,
}


def small_nets(**options: Any) -> list[Net]:
    torch.manual_seed(0)
    shape = {"widths": (6, 8), "hidden": 8, "resolutions": range(8, 29), "pool": 1, "head": "temperature"} | options
    ours = create_model("scalenet-tiny", **shape).eval()
    cnn = create_model("cnn-small", widths=(4, 6, 6)).eval()
    return [Net("ours", "ours", ours, DATA), Net("cnn", "small CNN", cnn, DATA | {"fit": "zero", "fit_size": 28})]


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
