"""Folders of class folders: order, orientation, colours, and every kind of bad file."""

from __future__ import annotations

import io
import os
import struct
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from fourierscale.data.decode import decode_image
from fourierscale.data.errors import CorruptFileError, DataError, FormatError, MissingDataError
from fourierscale.data.folder import ImageFolder
from fourierscale.data.survey import survey_folder


def write_image(path: Path, seed: int = 0, size: tuple[int, int] = (6, 4), mode: str = "RGB") -> np.ndarray:
    """Write a random picture of ``size`` = (width, height) and return its pixels (H, W[, C])."""
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def test_classes_are_sorted_and_images_follow_their_paths(tmp_path: Path) -> None:
    expected = [
        write_image(tmp_path / name, seed) for seed, name in enumerate(["ant/b.png", "bee/a.png", "bee/c/d.PNG"])
    ]
    (tmp_path / "bee" / "notes.txt").write_text("not an image")
    (tmp_path / "bee" / ".hidden.png").write_text("not an image")
    folder = ImageFolder(tmp_path)
    assert folder.classes == ("ant", "bee")
    assert folder.labels.tolist() == [0, 1, 1]
    assert folder.splits == ("", "", "")
    assert len(folder) == 3
    for index, pixels in enumerate(expected):
        assert (folder[index] == pixels.transpose(2, 0, 1)).all()
    assert (folder.load_all() == np.stack(expected).transpose(0, 3, 1, 2)).all()


def test_train_and_val_are_merged_or_kept(tmp_path: Path) -> None:
    for seed, name in enumerate(["train/ant/1.png", "train/bee/1.png", "val/ant/2.png", "val/bee/2.png"]):
        write_image(tmp_path / name, seed)
    merged = ImageFolder(tmp_path)
    assert merged.classes == ("ant", "bee")
    assert merged.labels.tolist() == [0, 1, 0, 1]
    assert merged.splits == ("train", "train", "val", "val")
    assert [path.name for path in ImageFolder(tmp_path, split="val").paths] == ["2.png", "2.png"]
    with pytest.raises(MissingDataError, match="expected a folder 'test', got train, val"):
        ImageFolder(tmp_path, split="test")
    with pytest.raises(MissingDataError, match="holds no train or val folders"):
        ImageFolder(tmp_path / "train", split="train")


def test_grey_has_one_channel(tmp_path: Path) -> None:
    pixels = write_image(tmp_path / "a.png", mode="L")
    assert (decode_image(tmp_path / "a.png", colour="grey") == pixels[None]).all()
    assert (decode_image(tmp_path / "a.png") == pixels[None]).all()  # RGB: three equal channels
    assert decode_image(tmp_path / "a.png").shape == (3, 4, 6)


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to see it upright
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    assert (decode_image(tmp_path / "a.png") == np.rot90(pixels, -1).transpose(2, 0, 1)).all()


def test_palette_with_transparency_is_decoded_without_a_warning(tmp_path: Path) -> None:
    image = Image.fromarray(np.zeros((4, 4), np.uint8)).convert("P")
    image.save(tmp_path / "a.png", transparency=b"\0\1\2")
    assert decode_image(tmp_path / "a.png").shape == (3, 4, 4)


def test_sixteen_bits_are_scaled_not_clipped_and_floats_are_refused(tmp_path: Path) -> None:
    pixels = np.array([[0, 256, 257], [32896, 60000, 65535]], np.uint16)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert decode_image(tmp_path / "a.png", colour="grey")[0].tolist() == [[0, 1, 1], [128, 233, 255]]
    Image.fromarray(np.zeros((4, 4), np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(FormatError, match="8 bits per channel, got mode F"):
        decode_image(tmp_path / "a.tiff")


def test_what_is_transparent_shows_white(tmp_path: Path) -> None:
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0] = (200, 100, 0, 255)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert decode_image(tmp_path / "a.png").transpose(1, 2, 0).tolist() == [
        [[200, 100, 0], [255, 255, 255]],
        [[255, 255, 255], [255, 255, 255]],
    ]


def test_ink_in_four_colours_is_turned_into_light(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    red, green, blue = decode_image(tmp_path / "a.jpg").reshape(3, -1).mean(1)
    assert red > 250
    assert max(green, blue) < 5


def test_a_whole_image_is_squeezed_where_a_crop_loses_its_ends(tmp_path: Path) -> None:
    pixels = np.zeros((10, 40, 3), np.uint8)
    pixels[:, :10] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert decode_image(tmp_path / "a.png", size=10).max() == 0
    whole = decode_image(tmp_path / "a.png", size=8, shape="whole")
    assert whole.shape == (3, 8, 8)
    assert whole[:, :, :2].min() > 200
    assert whole[:, :, 3:].max() < 30


def test_images_of_many_sizes_stack_only_with_a_size(tmp_path: Path) -> None:
    write_image(tmp_path / "ant" / "1.png", size=(20, 10))
    write_image(tmp_path / "bee" / "1.png", size=(10, 30))
    folder = ImageFolder(tmp_path)
    with pytest.raises(FormatError, match=r"is 30 x 10 but .* is 10 x 20: give size="):
        folder.load_all()
    assert folder.load_all(size=8).shape == (2, 3, 8, 8)


def test_a_centred_square_is_kept_when_resizing(tmp_path: Path) -> None:
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert (decode_image(tmp_path / "a.png", size=10) == 200).all()


def test_more_pixels_than_the_limit_are_refused_before_decoding(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", size=(20, 20))
    with pytest.raises(FormatError, match=r"a\.png: 20 x 20 pixels, more than the limit of 399"):
        decode_image(tmp_path / "a.png", max_pixels=399)


@pytest.mark.parametrize("side", [9_000, 12_000, 100_000])  # above our limit, Pillow's warning, Pillow's error
def test_a_decompression_bomb_is_refused(tmp_path: Path, side: int) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    (tmp_path / "bomb.png").write_bytes(bomb)
    with pytest.raises(FormatError, match="pixels"):
        decode_image(tmp_path / "bomb.png")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    write_image(tmp_path / "ant" / "1.png")
    (tmp_path / "bee").mkdir()
    (tmp_path / "bee" / "broken.jpg").write_bytes(b"\xff\xd8\xff not a picture")
    folder = ImageFolder(tmp_path)
    with pytest.raises(CorruptFileError, match=r"broken\.jpg"):
        folder[1]
    with pytest.raises(CorruptFileError, match=r"broken\.jpg"):
        folder.load_all()


def _encoded(kind: str) -> bytes:
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    picture.save(buffer, kind, **({} if kind in ("BMP", "GIF") else {"exif": exif}))
    return buffer.getvalue()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]))
@pytest.mark.filterwarnings("ignore")  # Pillow warns of some kinds of damage that it can read past
def test_mutated_images_decode_or_raise_a_data_error(tmp_path: Path, data: st.DataObject, kind: str) -> None:
    content = bytearray(_encoded(kind))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "image"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        assert decode_image(path, max_pixels=1 << 20).shape[0] == 3
    except DataError:
        return


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_among_images_is_named_instead_of_waited_for(tmp_path: Path) -> None:
    for name in ("ant/a.png", "bee/a.png"):
        write_image(tmp_path / name)
    os.mkfifo(tmp_path / "bee" / "b.png")
    writer = threading.Timer(10, lambda: (tmp_path / "bee" / "b.png").write_bytes(b""))  # or the test would hang
    writer.start()
    try:
        folder = ImageFolder(tmp_path)
        with pytest.raises(CorruptFileError, match=r"b\.png: cannot be read as an image \(a pipe or a device"):
            folder[2]
        assert survey_folder(tmp_path).bad == {2: "a pipe or a device, and no file"}
    finally:
        writer.cancel()


def test_photographs_of_telephones_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / name / "1.png")
    (tmp_path / "a" / "2.HEIC").write_bytes(b"x")
    assert "1 HEIC files left out: convert them to JPEG or PNG first" in ImageFolder(tmp_path).notes
    (tmp_path / "a" / "1.png").unlink()
    with pytest.raises(MissingDataError, match="convert its HEIC files"):
        ImageFolder(tmp_path)
