"""The cache: where it is, and that two holders never overlap."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from fourierscale.data import cache as caching
from fourierscale.data.errors import DataError


def test_the_environment_variable_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "here"))
    assert caching.cache_folder() == tmp_path / "here"
    monkeypatch.delenv("FOURIERSCALE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert caching.cache_folder().name == "fourierscale"


def test_a_second_holder_waits_for_the_first(tmp_path: Path) -> None:
    events: list[str] = []

    def hold() -> None:
        with caching.locked(tmp_path, waiting=lambda: events.append("waits")):
            events.append("second")

    with caching.locked(tmp_path):
        thread = threading.Thread(target=hold)
        thread.start()
        while not events:
            time.sleep(0.01)
        events.append("first done")
    thread.join()
    assert events == ["waits", "first done", "second"]


def test_a_lock_that_stays_taken_gives_up_with_a_sentence(tmp_path: Path) -> None:
    with (
        caching.locked(tmp_path),
        pytest.raises(DataError, match="another process has held the lock"),
        caching.locked(tmp_path, timeout=0.1),
    ):
        pass


def test_a_folder_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="set FOURIERSCALE_DATA"), caching.locked(tmp_path / "file" / "cache"):
        pass


def test_staging_leaves_nothing_and_clears_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / ".staging-old").mkdir()
    with caching.staging(tmp_path) as stage:
        (stage / "half").write_text("half a file")
        assert stage.parent == tmp_path
    assert list(tmp_path.glob(".staging-*")) == []
