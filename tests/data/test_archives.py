"""Archives: only what was asked for, only where it was meant to go, never more than was promised."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourierscale.data.archives import extract
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from tests.data.small_sets import tar_gz


def test_only_the_named_members_are_written(tmp_path: Path) -> None:
    archive = tar_gz(tmp_path / "a.tgz", {"../evil": b"1", "/abs": b"2", "pkg/good": b"3", "pkg/other": b"4"})
    (tmp_path / "out").mkdir()
    with archive.open("rb") as stream:
        extract(stream, "a.tgz", {"pkg/good": "good"}, tmp_path / "out", 1 << 20)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {"good": b"3"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "out"]


def test_reading_stops_when_the_wanted_members_are_there(tmp_path: Path) -> None:
    archive = tar_gz(tmp_path / "a.tgz", {"wanted": b"x" * 100, "unlabelled": bytes(50 << 20)})
    with archive.open("rb") as stream:
        extract(stream, "a.tgz", {"wanted": "wanted"}, tmp_path, max_bytes=1 << 20)  # the rest alone is 50 times more
    assert (tmp_path / "wanted").read_bytes() == b"x" * 100


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        member = tarfile.TarInfo("wanted")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with (tmp_path / "a.tgz").open("rb") as stream, pytest.raises(CorruptFileError, match="a link or a device"):
        extract(stream, "a.tgz", {"wanted": "wanted"}, tmp_path, 1 << 20)
    assert not (tmp_path / "wanted").exists()


def test_an_archive_bomb_is_cut(tmp_path: Path) -> None:
    archive = tar_gz(tmp_path / "a.tgz", {"wanted": bytes(30 << 20)})
    with (
        archive.open("rb") as stream,
        pytest.raises(CorruptFileError, match="more bytes than this archive should hold"),
    ):
        extract(stream, "a.tgz", {"wanted": "wanted"}, tmp_path, max_bytes=1 << 20)


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    archive = tar_gz(tmp_path / "a.tgz", {"one": b"1"})
    with archive.open("rb") as stream, pytest.raises(MissingDataError, match="expected two in the archive"):
        extract(stream, "a.tgz", {"one": "one", "two": "two"}, tmp_path, 1 << 20)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), outside=st.booleans())
def test_mutated_archives_extract_or_raise_a_data_error(tmp_path: Path, data: st.DataObject, outside: bool) -> None:
    raw = gzip.decompress(tar_gz(tmp_path / "a.tgz", {"a": b"1" * 600, "b": b"2"}).read_bytes())[:3072]
    content = bytearray(gzip.compress(raw) if outside else raw)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        extract(io.BytesIO(cut if outside else gzip.compress(cut)), "fuzz", {"a": "a", "b": "b"}, tmp_path, 1 << 16)
    except DataError:
        return
    assert (tmp_path / "b").exists()
