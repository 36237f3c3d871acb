"""A folder of images is used whole, in class folders or not; what cannot be used is counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fourierscale.data.errors import MissingDataError
from fourierscale.data.plain import open_images
from fourierscale.data.survey import FolderOptions
from tests.data.test_folder import write_image


def write_images(root: Path, names: list[str], side: int = 20) -> None:
    for seed, name in enumerate(names):
        write_image(root / name, seed, (side, side + 4))


def test_all_images_of_a_flat_folder_can_be_had(tmp_path):
    write_images(tmp_path, [f"{number:02}.png" for number in range(24)])
    found = open_images(tmp_path, 8, FolderOptions())
    assert found.pixels.shape == (8, 3, 20, 20)
    assert len(torch.unique(found.pixels, dim=0)) == 8
    assert found.labels(["cat"]) is None
    assert found.note == f"8 of 24 images of {tmp_path}, 20 x 20"
    assert max(found.resolutions) == 20
    assert len(open_images(tmp_path, 100, FolderOptions()).pixels) == 24


def test_as_many_images_as_are_asked_for_decide_the_size(tmp_path):
    write_images(tmp_path, ["a.png", "b.png", "c.png"], 12)
    write_images(tmp_path, ["d.png", "e.png"], 30)
    assert open_images(tmp_path, 2, FolderOptions()).pixels.shape == (2, 3, 30, 30)
    assert open_images(tmp_path, 3, FolderOptions()).pixels.shape == (3, 3, 12, 12)
    found = open_images(tmp_path, 5, FolderOptions(size=16, colour="grey"))
    assert found.pixels.shape == (2, 1, 16, 16)
    assert found.note.endswith("2 of 5 images of " + f"{tmp_path}, 16 x 16, 3 are smaller")
    with pytest.raises(MissingDataError, match="at least 40 x 40 pixels, got none: lower the size"):
        open_images(tmp_path, 5, FolderOptions(size=40))


def test_class_folders_give_labels_where_the_model_knows_them(tmp_path):
    write_images(tmp_path, ["train/ant/a.png", "train/bee/a.png", "test/bee/b.png"])
    found = open_images(tmp_path, 9, FolderOptions())
    assert found.classes == ("bee", "ant", "bee")
    assert found.labels(["wasp", "bee", "ant"]).tolist() == [1, 2, 1]
    assert found.labels(["bee"]) is None


def test_what_cannot_be_read_is_left_out_and_counted(tmp_path):
    write_images(tmp_path, ["a.png", "b.png"])
    (tmp_path / "c.png").write_bytes(b"nothing")
    whole = (tmp_path / "b.png").read_bytes()
    (tmp_path / "d.png").write_bytes(whole[: len(whole) // 2])
    found = open_images(tmp_path, 4, FolderOptions())
    assert (len(found.pixels), found.note) == (2, f"2 of 4 images of {tmp_path}, 20 x 20, 2 cannot be read")
    with pytest.raises(MissingDataError, match="there is no such folder"):
        open_images(tmp_path / "nowhere", 1, FolderOptions())
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingDataError, match="expected images, got 0 files"):
        open_images(tmp_path / "empty", 1, FolderOptions())
