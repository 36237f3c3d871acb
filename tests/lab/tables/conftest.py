"""One thread, and no cache of the user's: these runs are tiny."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "cache"))
