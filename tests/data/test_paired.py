"""Images with masks: pairs that belong together, masks that move with their images, targets where maps are sampled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fourierscale.data import (
    BatchIndices,
    CorruptFileError,
    DataError,
    FolderOptions,
    MissingDataError,
    get_augmentation,
    load_masks,
    survey_masks,
)
from fourierscale.data.mask_opening import choose_levels, open_masks, resize_mask
from fourierscale.data.paired import PairedDataset, classes_of, targets_at
from fourierscale.functional import area_average, downscale
from tests.training.small_pairs import write_masks


def _dataset(augment: str | None = None, side: int = 24) -> PairedDataset:
    """Images whose first channel is their mask, so that what moves one has to move the other."""
    rows, columns = np.mgrid[:side, :side]
    masks = np.stack([(rows - r) ** 2 + (columns - c) ** 2 < 36 for r, c in ((8, 8), (12, 15), (15, 10), (9, 14))])
    images = np.repeat(255 * masks[:, None], 3, 1).astype(np.uint8)
    return PairedDataset(
        images,
        torch.from_numpy(masks[:, None].astype(np.uint8)),
        [12, side],
        classes=2,
        augment=None if augment is None else get_augmentation(augment),
    )


@pytest.mark.parametrize("augment", ["photo", "flip-warp", "shift"])
def test_a_mask_moves_with_its_image(augment: str) -> None:
    dataset, still = _dataset(augment), _dataset()
    changed = 0
    for number in range(4):
        batch = dataset.__getitems__(BatchIndices([0, 1, 2, 3], 0, number))
        bright, share = batch.images.mean(1), batch.labels[:, 1]
        for image, mask in zip(bright, share, strict=True):
            both = torch.stack([image.flatten(), mask.flatten()])
            assert float(torch.corrcoef(both)[0, 1]) > 0.95
        torch.testing.assert_close(batch.labels.sum(1), torch.ones_like(share), rtol=0, atol=1e-5)
        changed += int(not torch.allclose(share, still.__getitems__([0, 1, 2, 3]).labels[:, 1], atol=0.1))
    assert changed


def test_a_batch_depends_on_its_epoch_and_number_alone() -> None:
    first, again, other = (_dataset("photo").__getitems__(BatchIndices([1, 2], epoch, 3)) for epoch in (5, 5, 6))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, other.labels)


def test_a_smaller_resolution_has_the_ideal_image_and_the_mean_of_the_mask() -> None:
    whole, small = _dataset(), _dataset()
    small.item_resolutions = np.full(4, 12)
    large, batch = whole.__getitems__([0, 1]), small.__getitems__([0, 1])
    assert batch.resolution == 12
    torch.testing.assert_close(batch.images, downscale(large.images, 12))
    torch.testing.assert_close(batch.labels, area_average(large.labels, 12))
    torch.testing.assert_close(targets_at(large.labels, 12), batch.labels)
    fields = torch.randn(2, 1, 24, 24)
    torch.testing.assert_close(targets_at(fields, 12, fields=True), downscale(fields, 12))


def test_pixels_that_are_ignored_have_no_share() -> None:
    masks = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    masks[..., 4:] = 2
    dataset = PairedDataset(np.zeros((1, 3, 8, 8), np.uint8), masks, [4, 8], classes=2)
    labels = dataset.__getitems__([0]).labels
    assert labels[..., 4:].abs().sum() == 0
    assert (labels[:, 0, :, :4] == 1).all()
    assert set(classes_of(labels).unique().tolist()) == {-1, 0}


def test_what_does_not_fit_together_is_refused() -> None:
    images = np.zeros((2, 3, 8, 8), np.uint8)
    for masks, classes in ((torch.zeros(2, 1, 9, 9, dtype=torch.uint8), 2), (torch.zeros(2, 1, 8, 8), 2)):
        with pytest.raises(ValueError, match="expected"):
            PairedDataset(images, masks, [8], classes=classes)
    dataset = _dataset()
    dataset.item_resolutions = np.array([12, 24, 24, 24])
    with pytest.raises(ValueError, match="items of one resolution"):
        dataset.__getitems__([0, 1])


def test_a_folder_becomes_three_sets_at_each_images_own_resolution(tmp_path: Path) -> None:
    splits = load_masks(str(write_masks(tmp_path, classes=3)), folder=FolderOptions(size=20, shape="whole"))
    assert splits.classes == ("0", "1", "2")
    assert splits.protocol.resolutions == (10, 14, 20)
    assert [len(part) for part in splits] == [17, 2, 5]
    assert sorted({int(r) for part in splits for r in part.item_resolutions}) == [14, 20]
    names = [name for part in splits.names.values() for name in part]
    assert sorted(names) == [f"{number:02}" for number in range(24)]


def test_own_splits_hold_and_names_come_from_a_file(tmp_path: Path) -> None:
    for split, count in (("train", 8), ("test", 3)):
        write_masks(tmp_path / split, count)
    (tmp_path / "classes.txt").write_text("ground\ndisc\n")
    splits = load_masks(str(tmp_path), folder=FolderOptions(size=16))
    assert [len(part) for part in splits] == [7, 1, 3]
    assert splits.classes == ("ground", "disc")
    assert all(name.startswith("test/") for name in splits.names["test"])
    (tmp_path / "classes.txt").write_text("ground\n")
    with pytest.raises(MissingDataError, match="a name of its own for each of 2 classes"):
        load_masks(str(tmp_path), folder=FolderOptions(size=16))


def test_every_bad_pair_is_named_with_its_reason(tmp_path: Path) -> None:
    root = write_masks(tmp_path)
    (root / "images" / "alone.png").write_bytes((root / "masks" / "00.png").read_bytes())
    (root / "masks" / "nobody.png").write_bytes((root / "masks" / "00.png").read_bytes())
    (root / "images" / "02.png").write_bytes((root / "masks" / "02.png").read_bytes())
    whole = (root / "masks" / "04.png").read_bytes()
    (root / "masks" / "04.png").write_bytes(whole[: len(whole) // 2])
    Image.new("L", (3, 3)).save(root / "masks" / "06.png")
    Image.new("RGB", (3, 3)).save(root / "images" / "08.jpg")
    Image.new("L", (3, 3)).save(root / "masks" / "08.png")
    survey = survey_masks(root)
    assert survey.alone == {
        "images/alone.png": "no mask of this name",
        "masks/nobody.png": "no image of this name",
        "images/02.jpg": "several files of this name",
        "images/02.png": "several files of this name",
        "masks/02.png": "several files of this name",
    }
    with pytest.raises(CorruptFileError) as error:
        open_masks(survey, FolderOptions(size=16))
    for part in ("8 of 28 pairs cannot be used", "skip-bad"):
        assert part in str(error.value)
    reasons: list[str] = []
    _, found = open_masks(
        survey, FolderOptions(size=16, skip_bad=True), report=lambda text, share: reasons.append(text)
    )
    assert len(found.names) == 24 - 4
    assert any("left out: 8 of 28" in text for text in reasons)
    assert "left out" in found.note


def test_numbers_become_classes_and_one_may_be_ignored(tmp_path: Path) -> None:
    root = write_masks(tmp_path, 12)
    for path in (root / "masks").iterdir():
        mask = np.asarray(Image.open(path)) * 7 + 3
        mask[0] = 255
        Image.fromarray(mask.astype(np.uint8)).save(path)
    _, found = open_masks(survey_masks(root), FolderOptions(size=16), ignore=255)
    assert found.classes == ("3", "10")
    assert {int(n) for mask in found.masks for n in np.unique(mask)} == {0, 1, 2}
    _, kept = open_masks(survey_masks(root), FolderOptions(size=16))
    assert kept.classes == ("3", "10", "255")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda root: (root / "masks").rename(root / "labels"), "expected the folders images and masks"),
        (lambda root: [path.unlink() for path in (root / "masks").iterdir()], "images and masks of the same names"),
        (
            lambda root: [Image.new("L", (16, 16)).save(path) for path in (root / "masks").iterdir()],
            "2 to 255 classes in the masks, got 1",
        ),
        (
            lambda root: [path.unlink() for path in sorted((root / "images").iterdir())[2:]],
            "cannot be used",
        ),
    ],
)
def test_a_folder_that_is_none_is_refused_in_one_sentence(tmp_path: Path, spoil, told: str) -> None:
    root = write_masks(tmp_path / "mine", sides=(16,))
    spoil(root)
    with pytest.raises(DataError, match=told) as error:
        load_masks(str(root), folder=FolderOptions(size=16))
    assert "\n" not in str(error.value)


def test_a_mask_is_resized_by_area_as_its_image_is() -> None:
    mask = np.zeros((8, 12), np.int64)
    mask[:, 6:] = 5
    assert resize_mask(mask, 4, "whole").tolist() == [[0, 0, 5, 5]] * 4
    assert resize_mask(mask, 4, "crop").tolist() == [[0, 0, 5, 5]] * 4
    mask[:, 9:] = 9
    assert resize_mask(mask, 4, "whole").tolist() == [[0, 0, 5, 9]] * 4


def test_levels_follow_from_the_sizes() -> None:
    assert choose_levels(np.array([0, 300, 400])) == (48, 68, 96)
    assert choose_levels(np.array([40, 40])) == (20, 28, 40)
    assert choose_levels(np.array([300]), size=64, lowest=64) == (64,)
    with pytest.raises(DataError, match="lowest resolution"):
        choose_levels(np.array([300]), size=64, lowest=65)
