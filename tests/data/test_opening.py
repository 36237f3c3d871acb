"""The user's own folder: own resolutions, splits of small sets, and one clear sentence for everything that is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fourierscale.data import (
    FolderOptions,
    ImageFolder,
    ScaledDataset,
    ScaledSplits,
    SizedImages,
    load_protocol,
    make_loader,
    survey_folder,
)
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError
from fourierscale.data.survey import choose_resolutions, own_resolutions


def write(path: Path, width: int = 12, height: int = 12, mode: str = "RGB", seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def photos(root: Path, classes: tuple[str, ...] = ("ant", "bee"), count: int = 5) -> Path:
    for label, name in enumerate(classes):
        for index in range(count):
            write(root / name / f"{index}.png", 12 + 4 * index, 16 + 3 * index, seed=10 * label + index)
    return root


def load(root: Path, **options: object) -> ScaledSplits:
    return load_protocol(str(root), folder=FolderOptions(**options))  # type: ignore[arg-type]


def test_every_image_is_used_at_the_highest_level_that_it_has(tmp_path: Path) -> None:
    splits = load(photos(tmp_path, count=10), size=32)
    assert splits.protocol.resolutions == (8, 10, 13, 16, 20, 25, 32)
    sides = [min(12 + 4 * index, 16 + 3 * index) for index in range(10)]
    expected = set(own_resolutions(sides, splits.protocol.resolutions).tolist())
    assert {int(m) for part in splits for m in part.item_resolutions} == expected == {10, 16, 20, 25, 32}
    folder = ImageFolder(tmp_path)
    seen = 0
    for part in splits:
        for batch in make_loader(part, 4):
            assert batch.images.shape[2:] == (batch.resolution, batch.resolution)
            seen += len(batch.labels)
    assert seen == len(folder) == 20


def test_a_large_image_is_resized_to_the_top_and_nothing_is_ever_enlarged(tmp_path: Path) -> None:
    root = photos(tmp_path, count=4)
    write(root / "ant" / "large.png", 300, 200)
    assert load(root, size=24).protocol.resolutions[-1] == 24
    assert max(load(root, size=512).train.item_resolutions) <= 200


def test_resolutions_follow_the_sizes() -> None:
    assert choose_resolutions([500] * 9) == (24, 30, 38, 48, 60, 76, 96)
    assert choose_resolutions([500] * 9, most=64)[-1] == 64
    assert choose_resolutions([8, 8, 8]) == (4, 5, 6, 7, 8)
    assert choose_resolutions([40, 50, 60], size=40, lowest=40) == (40,)
    with pytest.raises(DataError, match="lowest resolution from 1 to the size 40, got 41"):
        choose_resolutions([40], size=40, lowest=41)


def test_every_class_is_in_every_split_however_few_there_are(tmp_path: Path) -> None:
    root = photos(tmp_path, ("ant", "bee", "cat"), 3)
    for index in range(30):
        write(root / "ant" / f"more{index}.png", 14, 14)
    splits = load(root)
    assert [part.labels.bincount().tolist() for part in splits] == [[23, 1, 1], [3, 1, 1], [7, 1, 1]]


def test_splits_of_the_folder_hold(tmp_path: Path) -> None:
    for part, count in (("train", 4), ("valid", 2), ("Test", 3)):
        photos(tmp_path / part, count=count)
    splits = load(tmp_path)
    assert [len(part) for part in splits] == [8, 4, 6]
    assert "own train, val and test" in splits.note


@pytest.mark.parametrize("name", ["val", "test"])
def test_what_the_splits_lack_is_cut_from_train(tmp_path: Path, name: str) -> None:
    photos(tmp_path / "train", count=20)
    photos(tmp_path / name, count=3)
    splits = load(tmp_path)
    assert [len(part) for part in splits] == [36, 4, 6]
    assert f"tested on the folder '{name}'" in splits.note


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    assert load(photos(tmp_path, ("bus", "train"))).classes == ("bus", "train")


def test_grey_files_make_grey_images_and_one_coloured_file_makes_all_coloured(tmp_path: Path) -> None:
    for name in ("ant", "bee"):
        for index in range(4):
            write(tmp_path / name / f"{index}.png", mode="L", seed=index)
    assert load(tmp_path).train.images.shape[1] == 1
    assert load(tmp_path, colour="rgb").train.images.shape[1] == 3
    write(tmp_path / "ant" / "colour.png")
    assert load(tmp_path).train.images.shape[1] == 3


def test_streamed_images_of_several_sizes_equal_those_in_memory(tmp_path: Path) -> None:
    root = photos(tmp_path, count=8)
    memory, streamed = load(root), load(root, memory_limit=100)
    assert streamed.source.endswith("streamed")
    assert streamed.hashes == memory.hashes
    for a, b in zip(memory, streamed, strict=True):
        for x, y in zip(make_loader(a, 3), make_loader(b, 3), strict=True):
            torch.testing.assert_close(x, y)


def test_images_of_several_sizes_are_taken_size_by_size() -> None:
    images = SizedImages([np.full((1, side, side), side, np.uint8) for side in (8, 12, 8)])
    assert images[torch.tensor([2, 0])].unique().tolist() == [8]
    assert images.numel() == 2 * 64 + 144
    with pytest.raises(ValueError, match="images of one size, got sizes"):
        images[torch.tensor([0, 1])]
    with pytest.raises(ValueError, match="no image smaller than its own resolution"):
        ScaledDataset(images, [0, 1, 0], [8, 12], own=[8, 12, 12])
    with pytest.raises(ValueError, match="own resolutions among"):
        ScaledDataset(images, [0, 1, 0], [8, 12], own=[8, 11, 8])


def truncated(path: Path) -> None:
    write(path, 40, 40)
    path.write_bytes(path.read_bytes()[:-600])


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere.png")


def huge(path: Path) -> None:
    Image.new("1", (10_000, 10_000)).save(path)


BAD = {
    "empty.jpg": (lambda path: path.write_bytes(b""), "the file is empty"),
    "text.png": (lambda path: path.write_text("hello"), "not in a format that Pillow knows"),
    "cut.png": (truncated, "image file is truncated"),
    "link.png": (link_to_nothing, "no such file or directory"),
    "huge.png": (huge, "10000 x 10000 pixels, more than the limit of 64000000"),
    "dot.png": (lambda path: write(path, 5, 30), "5 x 30 pixels, smaller than 8"),
    "float.tiff": (lambda path: Image.new("F", (20, 20)).save(path), "expected 8 bits per channel, got mode F"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_image_that_cannot_be_used_stops_the_run_or_is_left_out_and_named(tmp_path: Path, name: str) -> None:
    root = photos(tmp_path / "photos", count=6)
    make, why = BAD[name]
    make(root / "ant" / name)
    with pytest.raises(CorruptFileError, match="1 of 13 images cannot be used") as caught:
        load(root, size=16)
    assert f"ant/{name} ({why}" in str(caught.value)
    assert "leave it out with --skip-bad" in str(caught.value)
    said: list[tuple[str, float | None]] = []
    skipping = FolderOptions(size=16, skip_bad=True)
    splits = load_protocol(str(root), folder=skipping, report=lambda text, share: said.append((text, share)))
    lines = [text for text, share in said if share is None]
    assert sum(map(len, splits)) == 12
    assert f"ant/{name}" in splits.note
    assert len(lines) == 1
    assert f"ant/{name}" in lines[0]


def test_many_bad_images_are_counted_and_some_are_named(tmp_path: Path) -> None:
    root = photos(tmp_path, count=4)
    for index in range(9):
        (root / "bee" / f"x{index}.png").write_bytes(b"")
    with pytest.raises(CorruptFileError, match=r"9 of 17 images .* and 4 more; mend or remove them") as caught:
        load(root)
    assert str(caught.value).count(".png") == 5
    for path in (root / "bee" / "2.png", root / "bee" / "3.png"):
        path.unlink()
    with pytest.raises(MissingDataError, match=r"at least 3 usable images of every class, .* but 'bee' has 2"):
        load(root, skip_bad=True)


def test_wrong_folders_get_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    root = tmp_path / "photos"

    def refused(text: str) -> None:
        with pytest.raises(MissingDataError, match=text) as caught:
            load(root)
        assert "\n" not in str(caught.value)

    refused("photos: expected a folder of class folders, there is no such folder")
    root.mkdir()
    refused(
        "at least two class folders with images, got none; images go in one folder for each class, .*/CLASS/IMAGE.jpg"
    )
    write(root / "1.jpg")
    write(root / "2.jpg")
    refused("got 2 images directly inside; images go in one folder for each class")
    write(root / "photos" / "1.png")
    refused("got only 'photos'; images go in")
    photos(root / "photos", ("ant", "bee"))
    refused(r"got only 'photos', which holds the folders 'ant', 'bee': did you mean .*photos/photos\?")
    (root / "empty").mkdir()
    refused("expected images of class 'empty', got none; remove the folder or fill it")
    (root / "empty" / "notes.txt").write_text("no image")
    refused("expected images of class 'empty', got none")
    write(root / "empty" / "one.png")
    refused(
        "expected at least 3 usable images of every class, to train, validate and test, but 'empty' has 1: add images"
    )


def test_splits_that_are_not_whole_get_one_sentence(tmp_path: Path) -> None:
    photos(tmp_path / "train")
    with pytest.raises(MissingDataError, match="expected a folder 'test' beside 'train'"):
        load(tmp_path)
    (tmp_path / "val").mkdir()
    with pytest.raises(MissingDataError, match="val: expected class folders, got none; remove it or fill it"):
        load(tmp_path)
    photos(tmp_path / "val", ("ant", "bee", "cat"))
    with pytest.raises(
        MissingDataError, match="2 usable images of every class, to train and validate, but 'cat' has 0"
    ):
        load(tmp_path)
    photos(tmp_path / "extra")
    with pytest.raises(MissingDataError, match="holds the split 'train' beside 'extra': keep only train, val and test"):
        load(tmp_path)


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    root = photos(tmp_path, ("Ant", "ant"))
    write(root / "loose.png")
    (root / "ant" / "notes.txt").write_text("no image")
    (root / "ant" / "IMG_1.HEIC").write_bytes(b"?")
    (root / "ant" / ".DS_Store").write_bytes(b"?")
    notes = " / ".join(ImageFolder(root).notes)
    assert "1 image beside the class folders" in notes
    assert "2 files that are no images by their names left out (.txt 1, .heic 1)" in notes or ".heic 1, .txt 1" in notes
    assert "classes 'Ant', 'ant' differ in case alone" in notes
    assert notes.split(" / ")[0] in load(root).note


def test_nested_folders_links_and_any_name_belong_to_their_class(tmp_path: Path) -> None:
    root = photos(tmp_path / "photos", ("Käfer", "蜂"), 3)
    write(root / "Käfer" / "2024" / "Mai" / "0.png", 20, 20)  # the name of another image of the class
    elsewhere = write(tmp_path / "elsewhere.png", 20, 20)
    (root / "蜂" / "ein Bild.png").symlink_to(elsewhere)
    (root / "蜂" / "circle").symlink_to(root / "蜂")
    os.link(elsewhere, root / "蜂" / "again.png")
    folder = ImageFolder(root)
    assert folder.classes == ("Käfer", "蜂")
    assert folder.labels.tolist() == [0] * 4 + [1] * 5
    assert folder.short(0) == "Käfer/0.png"
    assert sum(map(len, load(root))) == 9


def test_headers_tell_sizes_upright_and_colours(tmp_path: Path) -> None:
    root = photos(tmp_path, count=2)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("CMYK", (30, 20)).save(root / "ant" / "turned.jpg", exif=exif)
    found = survey_folder(root)
    index = next(i for i in range(5) if found.folder.short(i) == "ant/turned.jpg")
    assert (found.heights[index], found.widths[index]) == (30, 20)
    assert found.modes == {"RGB": 4, "CMYK": 1}
    assert found.colour == "rgb"
    assert found.elongated == 5
