"""What holds for every baseline: shapes at all resolutions, learning, seeds, files, counts."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fourierscale.models import create_model, list_models, model_cost, model_info
from fourierscale.models.saved import load_model, save_model
from fourierscale.training import list_presets
from tests.lab.baselines.small_baselines import OF_MAPS, SMALL, images, resolutions, small_model

DEAD_MNIST = 180 + 30 + 30 * 60 + 60 * 90  # of the published SS-CNN: a norm and constants that nothing reads
DEAD_STL10 = 3 * 11 + 11 * 88 + 3 * 88**2 + 88 * 176 + 3 * 176**2 + 176 * 352 + 3 * 352**2


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("cnn-mnist", 494_549),
        ("per-resolution-cnn-mnist", 21 * 494_549),
        ("si-convnet-mnist", 494_549),
        ("ss-cnn-mnist", 493_688 - DEAD_MNIST),
        ("sesn-mnist", 494_549),
        ("sesn-vector-mnist", 494_549),
        ("dss-mnist", 494_359),
        ("dss-vector-mnist", 494_359),
        ("disco-mnist", 494_549),
        ("wrn-stl10", 10_961_370),
        ("si-convnet-stl10", 10_961_370),
        ("ss-cnn-stl10", 10_846_835 - DEAD_STL10),
        ("sesn-stl10", 10_961_370),
        ("dss-stl10", 10_939_482),
        ("disco-stl10", 10_961_370),
    ],
)
def test_parameters_are_those_of_the_published_nets(name, parameters):
    assert model_cost(name).parameters == parameters


@pytest.mark.parametrize("name", SMALL)
def test_every_resolution_gives_logits_and_features(name):
    model = small_model(name).eval()
    domain = model.domain
    with torch.inference_mode():
        for resolution in resolutions(name):
            x = images(name, resolution)
            features = model.features(x)
            assert model(x).shape == (2, 10)
            assert features.ndim == 4
            assert domain == "image" or features.shape[-1] % 2 == 1
            assert features.isfinite().all()


@pytest.mark.parametrize("name", SMALL)
def test_a_few_steps_lower_the_loss(name):
    model = small_model(name, dropout=0.0).train()
    x, y = images(name, resolutions(name)[0], 6), torch.arange(6) % 3
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(6):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_decides_the_weights_and_files_keep_them(name, tmp_path: Path):
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(small_model(name))
    first, second = (model.state_dict() for model in models)
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = small_model(name)  # drawn with what the seed gives next
    assert not any(torch.equal(p, first[key]) for key, p in other.named_parameters() if p.std() > 0)
    x = images(name, resolutions(name)[-1], 3)
    models[0].train()(x)  # batch norms have averages of their own now
    model = models[0].eval()
    save_model(model, tmp_path, {"model": name, "overrides": SMALL[name]})
    with torch.inference_mode():
        torch.testing.assert_close(load_model(tmp_path)(x), model(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", SMALL)
def test_a_last_batch_of_one_image_can_be_trained_on(name):
    model = small_model(name).train()
    model(images(name, resolutions(name)[-1], 1)).sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_every_model_names_a_recipe_that_exists_and_trains_it():
    assert set(SMALL) <= set(list_models())
    for name in list_models():
        info = model_info(name)
        assert info.recipe in list_presets()
        assert (info.enlarge is None) == (info.enlarge_size is None)
        assert info.citation
        if info.recipe in OF_MAPS:
            continue
        channels, height, width = info.largest_input
        assert (channels, height) == ((3, 96) if name.endswith(("stl10", "stl10-small", "folder")) else (1, 28))
        assert height == width


def test_the_cost_of_a_cnn_is_its_products():
    layers = [(1, 32, 28), (32, 63, 14), (63, 95, 7)]
    flops = sum(2 * 49 * i * o * n * n for i, o, n in layers) + 2 * (380 * 256 + 256 * 10)
    cost = model_cost("cnn-mnist")
    assert (cost.flops, cost.fixed_flops, cost.input) == (flops, 0, (1, 28, 28))
    assert model_cost("per-resolution-cnn-mnist").flops == flops
    assert model_cost("ss-cnn-mnist").fixed_flops > 0


def test_importing_the_library_builds_no_model_and_its_own_need_no_baselines():
    code = (
        "from torch import nn\n"
        "made = []\n"
        "start = nn.Module.__init__\n"
        "nn.Module.__init__ = lambda self, *a, **k: (made.append(type(self).__name__), start(self, *a, **k))[1]\n"
        "import sys\n"
        "import fourierscale\n"
        "from fourierscale.functional import constants\n"
        "assert fourierscale.models.model_info('scalenet-mnist')\n"
        "assert not [module for module in sys.modules if module.startswith('fourierscale.lab')]\n"
        "assert len(fourierscale.list_models()) > 10\n"
        "assert not made, made\n"
        "assert not any(cached.cache_info().currsize for cached in constants._CACHES)\n"
        "from fourierscale.lab.baselines import dss\n"
        "from fourierscale.lab.baselines.parts import disco_fit, hermite\n"
        "made = [disco_fit.disco_basis, disco_fit.fit_disco_basis]\n"
        "made += [dss.discrete_gaussian, hermite.hermite_basis]\n"
        "assert not any(build.cache_info().currsize for build in made)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_options_that_cannot_be_are_explained():
    with pytest.raises(ValueError, match="did you mean 'scales'"):
        create_model("si-convnet-mnist", scale=(1.0,))
    with pytest.raises(ValueError, match="scales must be positive"):
        create_model("si-convnet-mnist", scales=(0.0, 1.0))
    with pytest.raises(ValueError, match="ascending order"):
        create_model("ss-cnn-mnist", sizes=(7, 5))
    with pytest.raises(ValueError, match="one per block"):
        create_model("fourier-cnn-mnist", modes=(3, 4))
    with pytest.raises(ValueError, match="from 1 to 28"):
        create_model("per-resolution-cnn-mnist", image_resolutions=[28, 30])
