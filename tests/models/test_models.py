import itertools
import re

import pytest
import torch
from torch import nn

from fourierscale import Levels, create_model, downscale, list_models
from fourierscale.functional import analyze, band, crop, pool_samples, synthesize
from fourierscale.models import LayerConfig, ScaleClassifier, ScaleHead, ScaleNet, model_info
from fourierscale.nn import ToCoefficients
from fourierscale.testing import TOLERANCE, relative_error

HEADS = ["plain", "temperature", "cumulative", "average"]


def _randomise(model):
    """Norms and steps away from their initial values, so that nothing is equal by accident."""
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


def test_the_papers_mnist_network_has_its_shape():
    model = create_model("scalenet-mnist")
    assert isinstance(model, ScaleClassifier)
    assert [block[0].out_channels for block in model.net.blocks] == [32, 64, 100, 100]
    # taps + pointwise per layer, norms of 11 levels, LayerNorms and MLP
    layers = sum(i * o * 26 + 2 * 11 * o for i, o in [(1, 32), (32, 64), (64, 100), (100, 100)])
    head = 2 * 400 + 400 * 256 + 256 + 2 * 256 + 256 * 10 + 10
    assert sum(p.numel() for p in model.parameters()) == layers + head


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("pool", [(1, 1), (2, 1)])
def test_logits_of_a_level_are_the_logits_of_the_downscaled_image(head, pool):
    resolutions = range(6, 17)
    net = ScaleNet(2, [4, 6], resolutions, kernel_size=3, pool=pool)
    model = _randomise(ScaleClassifier(net, ScaleHead(6, 5, net.out_levels, head))).double()
    x = torch.rand(3, 2, 16, 16, dtype=torch.float64)
    logits, levels = model(x), model.level_bands((16, 16))
    assert logits.shape == (3, len(levels), 5)
    for resolution in resolutions:
        small = model(downscale(x, resolution))
        assert relative_error(logits[:, : small.shape[1]], small) <= TOLERANCE[torch.float64]
        assert model.level_bands((resolution, resolution)) == levels[: small.shape[1]]


def test_single_precision_logits_agree_too():
    model = _randomise(create_model("scalenet-mnist"))
    x = torch.randn(2, 1, 28, 28)
    with torch.inference_mode():
        logits = model(x)
        for resolution in range(8, 29):
            small = model(downscale(x, resolution))
            assert relative_error(logits[:, : small.shape[1]], small) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("name", ["scalenet-tiny", "scalenet-mnist"])
def test_final_features_are_equivariant_at_every_resolution(name):
    model = _randomise(create_model(name))
    x = torch.randn(2, 1, 28, 28)
    with torch.inference_mode():
        features = model.features(x)
        for resolution in model_info(name).defaults.get("resolutions", range(8, 29)):
            small = model.features(downscale(x, resolution))
            assert relative_error(crop(features, tuple(small.shape[-2:])), small) <= TOLERANCE[torch.float32]


def test_residual_blocks_with_two_poolings_are_equivariant():
    net = ScaleNet(3, [8, 12, 12], range(24, 49, 4), kernel_size=(5, 3, 3), pool=(2, 2, 1), residual=True, stem=6)
    model = _randomise(ScaleClassifier(net, ScaleHead(12, 4, net.out_levels, "average")))
    assert net.rate == 4
    assert net.out_levels == Levels(range(24, 49, 4)).pooled(4)
    x = torch.randn(2, 3, 48, 48)
    features, logits = model.features(x), model.double()(x.double())
    for resolution in range(24, 49, 4):
        small = model(downscale(x.double(), resolution))
        assert relative_error(logits[:, : small.shape[1]], small) <= TOLERANCE[torch.float64]
    model.float()
    for resolution in range(24, 49, 4):
        small = model.features(downscale(x, resolution))
        assert relative_error(crop(features, tuple(small.shape[-2:])), small) <= TOLERANCE[torch.float32]


def test_the_head_is_the_papers_equation():
    """Pad with zeros to the fixed grid, go back to samples, pool, MLP, level by level."""
    head = _randomise(ScaleHead(3, 4, range(6, 13), "plain", hidden=8)).double()
    coeffs = torch.randn(2, 3, 11, 11, dtype=torch.float64)
    logits = head(coeffs)
    for index, resolution in enumerate(range(7, 13, 2)):
        padded = torch.zeros(2, 3, 11, 11, dtype=torch.float64)
        own = crop(coeffs, resolution)
        padded[..., : own.shape[-2], : own.shape[-1]] = own
        pooled = pool_samples(synthesize(padded, 12), 6, "max").flatten(1)
        expected = head.outer(head.inner(pooled))
        torch.testing.assert_close(logits[:, index + (band(7) - band(6))], expected)


def test_structural_heads_follow_their_definitions():
    coeffs = torch.randn(2, 3, 11, 11)
    torch.manual_seed(1)
    plain = ScaleHead(3, 4, range(6, 13), "plain").eval()
    f = plain(coeffs)
    softplus = nn.functional.softplus
    for kind in HEADS[1:]:
        head = ScaleHead(3, 4, range(6, 13), kind).eval()
        head.load_state_dict(plain.state_dict(), strict=False)
        head.steps.data.normal_()
        p = head.steps
        for k in range(f.shape[1]):
            tau = sum(softplus(p[j]) for j in range(k + 1))
            expected = {
                "temperature": tau * f[:, k],
                "cumulative": sum(softplus(p[j]) * f[:, j] for j in range(k + 1)),
                "average": tau * sum(f[:, j] for j in range(k + 1)) / (k + 1),
            }[kind]
            torch.testing.assert_close(head(coeffs)[:, k], expected)


def test_dropout_uses_one_mask_for_all_levels():
    head = ScaleHead(3, 4, range(6, 13), dropout=0.5, hidden=64).train()
    seen = []
    head.outer[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    head(torch.randn(2, 3, 11, 11))
    dropped = seen[0] == 0
    assert 0.2 < dropped.float().mean() < 0.8
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))


def test_without_the_nested_activation_the_net_is_not_equivariant_and_without_local_filters_it_is():
    x = torch.randn(2, 1, 28, 28)
    errors = {}
    for name, option in {"nested": {"nested": False}, "local": {"local": False}}.items():
        model = _randomise(create_model("scalenet-tiny", **option))
        features, small = model.features(x), model.features(downscale(x, 16))
        errors[name] = relative_error(crop(features, tuple(small.shape[-2:])), small)
    assert errors["nested"] > 1e-3
    assert errors["local"] <= TOLERANCE[torch.float32]


def test_without_the_nested_activation_it_is_a_plain_activation_on_the_inputs_grid():
    net = ScaleNet(1, [3], range(6, 13), kernel_size=3, layers=LayerConfig(nested=False, norm="none"))
    x = torch.rand(2, 1, 9, 9)
    conv = net.blocks[0][0]
    torch.testing.assert_close(net(x), analyze(torch.relu(synthesize(conv(analyze(x)), 9))))


def test_models_are_found_by_name_and_mistakes_are_explained():
    assert {"scalenet-mnist", "scalenet-stl10", "scalenet-tiny"} <= set(list_models())
    with pytest.raises(ValueError, match="did you mean 'scalenet-mnist'"):
        create_model("scalenet-minst")
    with pytest.raises(ValueError, match="did you mean 'widths'"):
        create_model("scalenet-tiny", width=[3])
    with pytest.raises(ValueError, match="convert them to RGB"):
        create_model("scalenet-tiny", in_channels=3)(torch.rand(1, 1, 28, 28))
    with pytest.raises(ValueError, match="one per block"):
        ScaleNet(1, [3, 4], [8], kernel_size=[3])
    with pytest.raises(ValueError, match="a list with the channels of each block, got"):
        ScaleNet(1, [], [8])
    with pytest.raises(ValueError, match="plain, temperature"):
        ScaleHead(3, 4, [8], "mean")
    with pytest.raises(ValueError, match="below 1"):
        ScaleHead(3, 4, [8], dropout=1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"local": "False"}, "local must be true or false, got 'False'"),
        ({"residual": 0}, "residual must be true or false, got 0"),
        ({"dropout": "x"}, "dropout must be a number, got 'x'"),
        ({"oversample": True}, "oversample must be a number, got True"),
        ({"hidden": "abc"}, "hidden must be a whole number, got 'abc'"),
        ({"hidden": 1.5}, "hidden must be a whole number, got 1.5"),
        ({"hidden": -1}, "hidden must be a positive int, got -1"),
        ({"reference_size": "all"}, "reference_size must be a whole number, got 'all'"),
        ({"activation": 3}, "activation must be a name, got 3"),
        ({"widths": 3}, "widths must be a list with the channels of each block, got 3"),
    ],
)
def test_an_option_of_another_kind_is_refused(options, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        create_model("scalenet-tiny", **options)


def test_an_option_may_be_what_it_is_without():
    assert create_model("scalenet-tiny", reference_size=None, dropout=0).net.levels.highest == (28,)


def test_the_same_seed_gives_the_same_model():
    states = []
    for _ in range(2):
        torch.manual_seed(5)
        states.append(create_model("scalenet-tiny").state_dict())
    assert all(torch.equal(a, b) for a, b in zip(states[0].values(), states[1].values(), strict=True))


def test_a_few_steps_lower_the_loss():
    model = create_model("scalenet-tiny")
    x, y = torch.rand(8, 1, 20, 20), torch.arange(8) % 4
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(8):
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.repeat_interleave(logits.shape[1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_the_door_adds_no_rounding_that_layers_could_amplify():
    torch.manual_seed(0)
    x = torch.rand(4, 3, 64, 64) + 1  # pixels have a mean, which is most of them
    door = ToCoefficients()
    for n in (20, 41, 52):
        small = door(downscale(x, n))
        waves = slice(None), slice(None), slice(1, None)  # without the mean
        assert relative_error(crop(door(x), n)[waves], small[waves]) < 3e-13


@pytest.mark.parametrize("head", HEADS)
def test_logits_are_exact_when_each_axis_is_downscaled_by_its_own_factor(head):
    net = ScaleNet(1, [3, 4], Levels.independent([8, 12, 16], [8, 16]), kernel_size=3)
    model = _randomise(ScaleClassifier(net, ScaleHead(4, 3, net.out_levels, head))).double()
    x = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    logits, levels = model(x), model.level_bands((16, 16))
    for size in itertools.product((8, 12, 16), (8, 16)):
        small = model(downscale(x, size))
        place = levels.index(model.level_bands(size)[-1])
        assert relative_error(logits[:, place], small[:, -1]) <= TOLERANCE[torch.float64], size
