"""A file is whole or as it was, whatever happens while it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from fourierscale.models.files import replacing, write_whole


def stop_half_way(target: Path) -> None:
    with replacing(target) as partial:
        partial.write_bytes(b"sec")
        raise OSError("disk full")


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path):
    target = tmp_path / "model.json"
    write_whole(target, "first")
    with pytest.raises(OSError, match="disk full"):
        stop_half_way(target)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"model.json": "first"}
    write_whole(target, b"second")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"model.json": "second"}
