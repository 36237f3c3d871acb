from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fourierscale.data.errors import FormatError
from fourierscale.data.folder import ImageFolder
from fourierscale.functional import downscale
from fourierscale.models import Preprocessing
from fourierscale.predicting import prepare_image

DIGITS = Preprocessing(sizes=tuple(range(8, 29)), polarity="light on dark")
PHOTOS = Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, sizes=(16, 32))


@pytest.fixture
def ink() -> np.ndarray:
    """A light stroke on black, of an odd shape."""
    pixels = np.zeros((40, 60), dtype=np.uint8)
    pixels[10:30, 25:32] = 240
    return pixels


def test_every_kind_of_one_image_gives_the_same_pixels(ink: np.ndarray, tmp_path: Path) -> None:
    Image.fromarray(ink).save(tmp_path / "ink.png")
    colours = np.repeat(ink[..., None], 3, axis=-1)
    kinds = {
        "path": tmp_path / "ink.png",
        "text": str(tmp_path / "ink.png"),
        "picture": Image.fromarray(ink),
        "array": ink,
        "colours, channels last": colours,
        "colours, channels first": colours.transpose(2, 0, 1),
        "tensor": torch.from_numpy(ink),
        "floats": torch.from_numpy(ink)[None] / 255,
        "half": torch.from_numpy(ink)[None].double() / 255,
        "16 bits": ink.astype(np.uint16) * 257,
        "read from behind": ink[:, ::-1].copy()[:, ::-1],
    }
    expected = downscale(torch.from_numpy(ink[None, :, 10:50]) / 255, 28)
    for kind, source in kinds.items():
        found = prepare_image(source, DIGITS)
        assert found.notes == ("60 x 40", "centred square of 40 x 40", "downscaled to 28 x 28"), kind
        torch.testing.assert_close(found.pixels, expected, atol=1e-6, rtol=0, msg=kind)


def test_grey_becomes_colour_and_colour_grey(ink: np.ndarray) -> None:
    assert prepare_image(ink, PHOTOS).pixels.shape == (3, 32, 32)
    red = np.zeros((28, 28, 3), dtype=np.uint8)
    red[:14, :, 0] = 255
    assert prepare_image(red, DIGITS, invert="no").pixels.mean() == pytest.approx(0.299 / 2)


def test_dark_ink_on_paper_is_swapped_where_the_model_wants_light_ink_alone(ink: np.ndarray) -> None:
    light, dark = (prepare_image(pixels, DIGITS) for pixels in (ink, 255 - ink))
    torch.testing.assert_close(light.pixels, dark.pixels, atol=1e-6, rtol=0)
    assert light.notes == dark.notes[:-1]
    assert dark.notes[-1].startswith("black and white swapped")
    assert not any("swapped" in note for note in prepare_image(255 - ink, PHOTOS).notes)
    assert prepare_image(255 - ink, DIGITS, invert="no").pixels.mean() > 0.5
    assert prepare_image(ink, DIGITS, invert="yes").pixels.mean() > 0.5


def test_what_is_transparent_never_hides_the_ink(ink: np.ndarray, tmp_path: Path) -> None:
    expected = prepare_image(ink, DIGITS).pixels
    for colour, shown in ((0, "white"), (255, "black")):
        clear = np.full((40, 60, 4), colour, dtype=np.uint8)
        clear[..., 3] = ink
        Image.fromarray(clear).save(tmp_path / "clear.png")
        found = prepare_image(tmp_path / "clear.png", DIGITS)
        assert f"what is transparent shown {shown}" in found.notes
        torch.testing.assert_close(found.pixels, expected, atol=0.01, rtol=0)
    with pytest.raises(FormatError, match="it is blank"):  # shown on white, as for training
        prepare_image(tmp_path / "clear.png", PHOTOS)
    opaque = np.dstack([np.repeat(ink[..., None], 3, -1), np.full_like(ink, 255)])
    assert not any("transparent" in note for note in prepare_image(opaque, DIGITS).notes)


def test_a_blank_image_is_refused(ink: np.ndarray) -> None:
    with pytest.raises(FormatError, match="it is blank"):
        prepare_image(np.full((30, 30), 77, dtype=np.uint8), DIGITS)
    assert prepare_image(ink, DIGITS).pixels.shape[0] == 1


@pytest.mark.parametrize("shape", ["crop", "whole"])
def test_a_model_of_a_folder_takes_images_as_training_did(shape: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (70, 50, 3), dtype=np.uint8)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels).save(tmp_path / name / "1.png")
    trained = torch.from_numpy(ImageFolder(tmp_path).decode(0, 32, shape)).float() / 255
    prepare = replace(PHOTOS, shape=shape, only_sizes=True)
    for source in (tmp_path / "a" / "1.png", Image.fromarray(pixels), pixels, torch.from_numpy(pixels).float() / 255):
        found = prepare_image(source, prepare)
        torch.testing.assert_close(found.pixels, trained, atol=0, rtol=0)
        assert found.notes[-1] == ("all of it at 32 px" if shape == "whole" else "centred square at 32 px")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (np.zeros((28, 28), dtype=np.int64), "got torch.int64"),
        (np.full((28, 28), 255.0), "divide by 255"),
        (torch.randn(28, 28) - 2, "normalising them is done here"),
        (torch.full((28, 28), torch.nan), "got nan to nan"),
        (np.zeros((28, 28, 5), dtype=np.uint8), "with 1, 3 or 4 channels, got (28, 28, 5)"),
        (np.zeros((1, 0, 9), dtype=np.uint8), "expected pixels"),
        (np.zeros((7, 9), dtype=np.uint8), "scan: 9 x 7 pixels, the model needs at least 8 x 8"),
    ],
)
def test_what_is_no_image_is_refused_with_the_remedy(source: object, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        prepare_image(source, DIGITS, name="scan")  # type: ignore[arg-type]
    assert text in str(caught.value)
    assert str(caught.value).startswith("scan: ")
