"""read_idx returns exactly what was written, or one of the documented errors."""

from __future__ import annotations

import gzip
import os
import struct
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fourierscale.data.errors import CorruptFileError, DataError, FormatError
from fourierscale.data.idx import read_idx, write_idx

RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def header(*shape: int, kind: int = 0x08) -> bytes:
    return struct.pack(f">4B{len(shape)}I", 0, 0, kind, len(shape), *shape)


@RELAXED
@given(
    array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)), zipped=st.booleans()
)
def test_what_was_written_is_read_back(tmp_path: Path, array: np.ndarray, zipped: bool) -> None:
    path = tmp_path / ("a-ubyte.gz" if zipped else "a-ubyte")
    write_idx(path, array)
    got = read_idx(path, ndim=array.ndim)
    assert got.dtype == np.uint8
    assert got.shape == array.shape
    assert (got == array).all()
    assert got.flags.writeable


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(header(2) + b"ab"))
    assert read_idx(path).tolist() == [97, 98]


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (b"", FormatError, "not an idx file"),
        (b"\0\0\x08", FormatError, "not an idx file"),
        (b"PK\x03\x04" + b"\0" * 40, FormatError, "not an idx file"),
        (header(2, kind=0x0D) + b"\0" * 8, FormatError, "type 0x0d"),
        (b"\0\0\x08\0", FormatError, "expected 1 to 4 axes, got 0"),
        (b"\0\0\x08\xff" + b"\0" * 1020, FormatError, "expected 1 to 4 axes, got 255"),
        (b"\0\0\x08\x03\0\0", CorruptFileError, "axis lengths"),
        (header(2, 3) + b"12345", CorruptFileError, "2 x 3 = 6 bytes"),
        (header(2, 3) + b"1234567", CorruptFileError, "2 x 3 = 6 bytes"),
        (header(2**32 - 1, 2**32 - 1, 2**32 - 1), FormatError, "more than the limit"),
        (header(0, 2**32 - 1, 2**32 - 1), FormatError, "more than the limit"),
        (header(2**30), CorruptFileError, "promises 1073741824"),
    ],
)
def test_damaged_files_get_the_documented_error(
    tmp_path: Path, content: bytes, error: type[DataError], text: str
) -> None:
    plain, zipped = tmp_path / "plain", tmp_path / "zipped"
    plain.write_bytes(content)
    zipped.write_bytes(gzip.compress(content))
    with pytest.raises(error, match=text):
        read_idx(plain)
    with pytest.raises(error):
        read_idx(zipped)


def test_images_given_for_labels_are_refused(tmp_path: Path) -> None:
    write_idx(tmp_path / "images", np.zeros((1, 2, 2), np.uint8))
    with pytest.raises(FormatError, match="expected 1 axes, got 3"):
        read_idx(tmp_path / "images", ndim=1)


def test_a_gzip_bomb_is_never_unpacked_beyond_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(header(4) + b"\0" * (64 << 20), compresslevel=9))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match="bytes are left"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_small_gzip_that_promises_gigabytes_is_refused_before_allocation(tmp_path: Path) -> None:
    path = tmp_path / "liar"
    path.write_bytes(gzip.compress(header(1 << 30) + b"abc"))
    with pytest.raises(CorruptFileError, match="at most"):
        read_idx(path)


@pytest.mark.parametrize("spot", [-1, -6, 14])  # length, CRC, deflate data
def test_a_flipped_byte_in_gzip_is_noticed(tmp_path: Path, spot: int) -> None:
    path = tmp_path / "images.gz"
    write_idx(path, np.arange(200, dtype=np.uint8))
    content = bytearray(path.read_bytes())
    content[spot] ^= 0x55
    path.write_bytes(bytes(content))
    with pytest.raises(DataError):
        read_idx(path)


@RELAXED
@given(
    content=st.binary(max_size=64) | st.binary(max_size=40).map(lambda tail: b"\0\0\x08" + tail), zipped=st.booleans()
)
def test_random_bytes_give_an_array_of_their_size_or_a_data_error(tmp_path: Path, content: bytes, zipped: bool) -> None:
    path = tmp_path / "random"
    path.write_bytes(gzip.compress(content) if zipped else content)
    try:
        array = read_idx(path)
    except DataError:
        return
    assert 4 + 4 * array.ndim + array.size == len(content)


@RELAXED
@given(data=st.data(), zipped=st.booleans())
def test_mutated_files_give_the_array_or_a_data_error(tmp_path: Path, data: st.DataObject, zipped: bool) -> None:
    path = tmp_path / "mutated"
    content = bytearray(header(3, 4, 5) + bytes(range(60)))
    if zipped:
        content = bytearray(gzip.compress(bytes(content)))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(bytes(content[:cut]))
    try:
        array = read_idx(path)
    except DataError:
        return
    assert array.size == 60 if zipped else 4 + 4 * array.ndim + array.size == cut


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nothing")


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((1,) * 5, np.uint8), np.uint8(3)])
def test_only_bytes_with_one_to_four_axes_are_written(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(FormatError, match="idx holds uint8"):
        write_idx(tmp_path / "x", array)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a-ubyte")
    writer = threading.Timer(10, lambda: (tmp_path / "a-ubyte").write_bytes(b""))  # or the test would hang
    writer.start()
    try:
        with pytest.raises(OSError, match="a pipe or a device, and no file"):
            read_idx(tmp_path / "a-ubyte")
    finally:
        writer.cancel()
