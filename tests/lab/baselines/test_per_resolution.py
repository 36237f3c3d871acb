"""One CNN per resolution: which one sees an image, what it sees, and what training leaves alone."""

import pytest
import torch
from torch import nn

from fourierscale.functional.enlarging import enlarge_to
from fourierscale.lab.baselines.per_resolution import BLACK, PerResolutionCNN
from fourierscale.training.config import OptimConfig
from fourierscale.training.optim import make_optimizer


def small(**options) -> PerResolutionCNN:
    return PerResolutionCNN(**{"image_resolutions": (8, 13, 28), "widths": (2, 3, 4), "hidden": 5, **options})


@pytest.mark.parametrize("resolution", [8, 13, 28])
def test_an_image_is_seen_by_its_own_cnn_as_if_it_had_been_padded_before_normalisation(resolution):
    model = small().eval()
    pixels = torch.rand(2, 1, resolution, resolution)
    mean, std = 0.0607, 0.2161
    padded = (enlarge_to(pixels, 28, "zero") - mean) / std
    assert pytest.approx(-mean / std) == BLACK
    torch.testing.assert_close(model((pixels - mean) / std), model.cnns[str(resolution)](padded))


@pytest.mark.parametrize(("resolution", "side"), [(8, 2), (13, 3), (28, 7)])
def test_features_are_the_part_of_the_map_that_the_image_covers(resolution, side):
    model = small().eval()
    x = torch.rand(1, 1, resolution, resolution)
    whole = torch.rand(1, 4, 7, 7)
    model.cnns[str(resolution)].features = lambda padded: whole
    features = model.features(x)
    assert features.shape[-1] == side
    first = (7 - side) // 2
    assert torch.equal(enlarge_to(features, 7, "zero"), whole * enlarge_to(torch.ones_like(features), 7, "zero"))
    assert torch.equal(features, whole[..., first : first + side, first : first + side])


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_a_step_moves_the_cnn_of_the_batch_alone(name):
    model = small(dropout=0.0)
    optimizer = make_optimizer(model, OptimConfig(name=name, lr=1e-2, weight_decay=0.1))

    def step(resolution):
        before = {key: value.clone() for key, value in model.state_dict().items()}
        loss = nn.functional.cross_entropy(model(torch.rand(4, 1, resolution, resolution)), torch.arange(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {key.split(".")[1] for key, value in model.state_dict().items() if not torch.equal(value, before[key])}

    assert step(13) == {"13"}
    assert step(28) == {"28"}  # neither decay nor the averages of the last step move the first one
    assert step(13) == {"13"}


def test_sizes_without_a_cnn_are_refused():
    with pytest.raises(ValueError, match="no CNN for images of 9 x 9: give squares of 8 to 28 pixels"):
        small()(torch.rand(1, 1, 9, 9))
    with pytest.raises(ValueError, match="no CNN for images of 8 x 13"):
        small()(torch.rand(1, 1, 8, 13))
