"""A plain residual net: bare, made consistent, made exact."""

import pytest
import torch
from torch import nn

from fourierscale import create_model, downscale
from fourierscale.models import PerLevelClassifier, ResidualNet, ScaleClassifier
from fourierscale.testing import TOLERANCE, relative_error

MADE = ("bare", "bare-every-size", "consistent", "exact")


def small(made, trained=True):
    torch.manual_seed(0)
    model = create_model("resnet-stl10", widths=(4, 6, 8), classes=3, hidden=8, made=made)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for n in (96, 61, 48) if trained else ():
        logits = model(torch.randn(4, 3, n, n))
        nn.functional.cross_entropy(logits.reshape(-1, 3), torch.arange(len(logits.reshape(-1, 3))) % 3).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("name", ["resnet-stl10", "resnet-stl10-small"])
def test_parameters_are_those_of_the_plain_net(name):
    counts = {made: sum(p.numel() for p in create_model(name, made=made).parameters()) for made in MADE}
    assert counts["bare"] == counts["bare-every-size"] == {"resnet-stl10": 3_306_058}.get(name, 962_474)
    assert counts["consistent"] == counts["exact"] == counts["bare"] + 7  # a temperature for each level


@pytest.mark.parametrize("made", ["bare-every-size", "consistent", "exact"])
@pytest.mark.parametrize("size", [(96, 96), (73, 73), (57, 80), (48, 48)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_of_a_level_are_those_of_the_downscaled_image(made, size, dtype):
    model = small(made).to(dtype)
    x = torch.randn(2, 3, *size, dtype=dtype)
    with torch.inference_mode():
        logits = model(x)
        assert logits.shape[1] == len(model.level_names(min(size))) or size[0] != size[1]
        for number, n in enumerate(range(48, min(size) + 1, 8)):
            answer = model(downscale(x, n))
            assert answer.shape[1] == number + 1
            assert relative_error(logits[:, number], answer[:, -1]) <= TOLERANCE[dtype]


def test_features_of_the_exact_net_are_exact_and_those_of_the_bare_one_are_not():
    x = torch.randn(1, 3, 96, 96, dtype=torch.float64)
    exact, bare = small("exact").double(), small("bare").double()
    features, own = exact.features(x), exact.features(downscale(x, 72))
    assert relative_error(features[..., : own.shape[-2], : own.shape[-1]], own) < 1e-25
    assert relative_error(downscale(bare.features(x), 18), bare.features(downscale(x, 72))) > 1e-3


def test_what_is_made():
    assert isinstance(small("bare"), ResidualNet)
    assert isinstance(small("exact"), ScaleClassifier)
    consistent = small("consistent")
    assert isinstance(consistent, PerLevelClassifier)
    assert consistent.level_names(73) == ["48", "56", "64", "72", "73"]
    with pytest.raises(ValueError, match="made"):
        create_model("resnet-stl10", made="other")


def test_a_step_of_a_consistent_net_sees_the_top_level_and_a_lower_one():
    consistent, every = small("consistent").train(), small("bare-every-size").train()
    x = torch.randn(2, 3, 96, 96)
    assert consistent(x).shape == (2, 2, 3)
    assert every(x).shape == (2, 7, 3)
    assert consistent(x[..., :48, :48]).shape == (2, 1, 3)
    torch.manual_seed(3)
    first = consistent(x)
    torch.manual_seed(3)
    assert torch.equal(consistent(x), first)


def test_weights_of_the_bare_net_load_into_the_consistent_one():
    bare, consistent = small("bare"), small("consistent", trained=False)
    missing, unexpected = consistent.load_state_dict(bare.state_dict(), strict=False)
    assert missing == ["steps"]
    assert not unexpected
    x = downscale(torch.randn(1, 3, 96, 96), 96)  # without the frequency that an even grid cannot tell
    scale = nn.functional.softplus(consistent.steps).sum()
    assert torch.allclose(consistent(x)[:, -1], bare(x) * scale, atol=1e-4)


def test_the_head_stays_in_single_precision_under_autocast():
    for made in MADE:
        with torch.autocast("cpu", torch.bfloat16):
            assert small(made, trained=False)(torch.randn(1, 3, 48, 48)).dtype is torch.float32
