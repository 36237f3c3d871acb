"""Augmentations: reproducible, shape-preserving, and nothing above an image's band leaks into a warp."""

from __future__ import annotations

import json

import pytest
import torch
from torch.nn import functional as F

from fourierscale.data.augment import STEPS, Augmentation, get_augmentation, list_augmentations
from fourierscale.data.errors import UnknownNameError
from fourierscale.data.steps import CircularShift, Cutout, HorizontalFlip, RandomCrop, RandomScaling, zoom_matrix
from fourierscale.data.warp import Padding, Warp
from fourierscale.functional import analyze, downscale, synthesize


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", list_augmentations())
@pytest.mark.parametrize("shape", [(5, 1, 28, 28), (3, 3, 9, 9), (1, 1, 1, 1)])
def test_every_augmentation_keeps_the_shape_and_follows_the_generator(name: str, shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    before = x.clone()
    augment = get_augmentation(name)
    y = augment(x, seeded(3))
    assert y.shape == x.shape
    assert y.isfinite().all()
    assert torch.equal(augment(x, seeded(3)), y)
    assert torch.equal(x, before)
    if name != "none" and shape[-1] > 1:
        assert not torch.equal(y, augment(x, seeded(4)))


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_images_that_are_not_square_are_refused(step: type) -> None:
    with pytest.raises(ValueError, match="expected square images"):
        step()(torch.rand(1, 1, 4, 5), seeded())


def test_a_circular_shift_is_a_roll_of_less_than_the_fraction() -> None:
    x = torch.rand(200, 1, 12, 12)
    y = CircularShift(max_fraction=0.25, p=1.0)(x, seeded())
    shifts = set()
    for a, b in zip(x[:, 0], y[:, 0], strict=True):
        found = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if torch.equal(a.roll((i, j), (0, 1)), b)]
        assert len(found) == 1
        shifts.add(found[0])
    assert len(shifts) == 25  # -2 .. 2 along both axes
    assert torch.equal(CircularShift(p=0.0)(x, seeded()), x)


def test_a_random_crop_is_a_window_of_the_padded_image() -> None:
    x = torch.rand(100, 2, 8, 8)
    y = RandomCrop(padding=0.25)(x, seeded())
    padded = F.pad(x, (2, 2, 2, 2))
    windows = padded.unfold(2, 8, 1).unfold(3, 8, 1).flatten(2, 3)  # (B, C, 25, 8, 8)
    matches = (windows == y[:, :, None]).all(dim=(1, 3, 4))
    assert (matches.sum(dim=1) == 1).all()
    assert matches.any(dim=0).all()


def test_a_flip_exchanges_left_and_right_as_often_as_asked() -> None:
    x = torch.rand(400, 1, 5, 5)
    flipped = (HorizontalFlip(p=0.25)(x, seeded()) == x.flip(-1)).all(dim=(1, 2, 3))
    assert 60 <= int(flipped.sum()) <= 140
    assert torch.equal(HorizontalFlip(p=1.0)(x, seeded()), x.flip(-1))


def test_cutout_blacks_out_squares_that_the_border_may_clip() -> None:
    x = torch.ones(300, 3, 12, 12)
    y = Cutout(holes=1, size=0.25)(x, seeded())
    assert torch.equal(y[:, 0], y[:, 2])
    rows, columns = (y[:, 0] == 0).any(dim=2).sum(dim=1), (y[:, 0] == 0).any(dim=1).sum(dim=1)
    assert ((y[:, 0] == 0).sum(dim=(1, 2)) == rows * columns).all()
    assert set(rows.tolist()) == {2, 3}
    assert torch.equal(Cutout(holes=0)(x, seeded()), x)


def test_zooming_keeps_constants_inside_and_scales_the_content() -> None:
    factor = torch.tensor([0.3, 0.5, 1.0, 2.0])
    matrix = zoom_matrix(factor, torch.zeros(1, 1, 40, 40, dtype=torch.float64))
    torch.testing.assert_close(matrix[2], torch.eye(40, dtype=torch.float64))
    torch.testing.assert_close(matrix[3].sum(dim=1), torch.ones(40, dtype=torch.float64), atol=1e-6, rtol=0)
    bump = torch.exp(-((torch.arange(40).double() - 20) ** 2) / (2 * 4.0**2))
    for s, m in zip(factor.tolist(), matrix, strict=True):
        expected = torch.exp(-((torch.arange(40).double() - 20) ** 2) / (2 * (4.0 * s) ** 2))
        torch.testing.assert_close(m @ bump, expected, atol=0.08 if s < 0.5 else 0.03, rtol=0)


def test_random_scaling_with_factor_one_is_the_identity_on_band_limited_images() -> None:
    x = downscale(torch.rand(4, 1, 28, 28), 20)
    torch.testing.assert_close(RandomScaling(low=1.0, high=1.0, p=1.0)(x, seeded()), x, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection", "circular"])
@pytest.mark.parametrize("n", [1, 8, 15, 28])
def test_a_warp_with_zero_parameters_is_the_identity(n: int, padding: Padding) -> None:
    x = downscale(torch.rand(3, 2, 28, 28), n)
    still = Warp(rotation=0, log_scale=0, shear=0, shift=0, elastic=0, padding=padding)
    torch.testing.assert_close(still(x, seeded()), x, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padding", ["border", "reflection", "circular"])
def test_a_warp_that_pads_with_the_image_keeps_a_constant(padding: Padding) -> None:
    x = torch.full((4, 1, 15, 15), 0.7)
    torch.testing.assert_close(Warp(padding=padding, shift=0.4)(x, seeded()), x, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n", [8, 15, 28])
def test_a_warp_ends_in_the_images_band(n: int) -> None:
    y = Warp()(downscale(torch.rand(3, 1, 28, 28), n), seeded())
    torch.testing.assert_close(synthesize(analyze(y), n), y, atol=1e-5, rtol=0)


def test_a_circular_warp_that_only_shifts_moves_the_trigonometric_polynomial() -> None:
    x = downscale(torch.rand(4, 1, 28, 28), 12).double()  # smooth on the fine grid of the warp: interpolation is good
    x = synthesize(analyze(x), 24)
    shifted = Warp(rotation=0, log_scale=0, shear=0, shift=0.1, elastic=0, padding="circular")(x, seeded(5))
    energy = analyze(x)[..., 0, 0], analyze(shifted)[..., 0, 0]
    torch.testing.assert_close(*energy, atol=1e-3, rtol=0)  # a shift keeps the mean
    torch.testing.assert_close((shifted**2).mean(), (x**2).mean(), atol=1e-3, rtol=0)
    assert (shifted - x).abs().max() > 0.05


def test_the_same_warp_is_drawn_at_every_resolution() -> None:
    smooth = synthesize(analyze(torch.rand(4, 1, 28, 28), size=9), 28)
    warp = Warp(padding="circular")
    large, small = warp(smooth, seeded()), warp(downscale(smooth, 17), seeded())
    assert (downscale(large, 17) - small).abs().mean() < 0.01  # only the interpolation differs
    assert (large - smooth).abs().mean() > 0.05


@pytest.mark.parametrize("name", list_augmentations())
def test_an_augmentation_survives_a_config_file(name: str) -> None:
    augmentation = get_augmentation(name)
    assert Augmentation.from_dict(json.loads(json.dumps(augmentation.to_dict()))) == augmentation


def test_overrides_reach_the_step_that_has_the_setting() -> None:
    crop, flip, cutout = get_augmentation("crop-flip-cutout", padding=0.25, p=1.0, holes=2).steps
    assert (crop, flip, cutout) == (RandomCrop(0.25), HorizontalFlip(1.0), Cutout(holes=2))


def test_steps_act_in_their_stage_alone() -> None:
    augment = get_augmentation("flip-warp", p=1.0)
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(augment(x, seeded(), "image"), x.flip(-1))
    assert torch.equal(augment(x, seeded(), "scaled"), Warp(padding="reflection")(x, seeded()))


def test_an_early_warp_is_the_same_warp_in_front_of_the_downscaling() -> None:
    augment = get_augmentation("early-warp")
    x = torch.rand(2, 1, 12, 12)
    assert torch.equal(augment(x, seeded(), "image"), Warp()(x, seeded()))
    assert torch.equal(augment(x, seeded(), "scaled"), x)


def test_mistakes_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'warp'"):
        get_augmentation("wrap")
    with pytest.raises(UnknownNameError, match="did you mean 'rotation'"):
        get_augmentation("warp", rotations=3)
    with pytest.raises(UnknownNameError, match="it has none"):
        get_augmentation("none", p=1)
    with pytest.raises(UnknownNameError, match="did you mean 'cutout'"):
        Augmentation.from_dict({"name": "mine", "steps": [{"step": "cut-out"}]})
    with pytest.raises(UnknownNameError, match="cutout has no setting 'hole': did you mean 'holes'"):
        Augmentation.from_dict({"name": "mine", "steps": [{"step": "cutout", "hole": 1}]})
    with pytest.raises(ValueError, match="expected p between 0 and 1, got 2"):
        get_augmentation("shift", p=2)
    with pytest.raises(ValueError, match="expected shear to be 0 or more"):
        get_augmentation("warp", shear=-1)
    with pytest.raises(ValueError, match="one of zeros, border"):
        get_augmentation("warp", padding="black")
