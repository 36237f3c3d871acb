"""One look: features both ways round, answers at every level, and sentences for what cannot be looked at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fourierscale import downscale
from fourierscale.lab.explore import LookError, Net, Viewer
from fourierscale.models import Preprocessing, create_model
from fourierscale.testing import relative_error
from tests.lab.explore.conftest import DIGITS, small_nets


def pixels(side: int, channels: int = 1, seed: int = 0) -> bytes:
    """A blurred random picture: not all of it is lost at low resolutions."""
    rough = torch.rand(1, channels, 9, 9, generator=torch.Generator().manual_seed(seed))
    smooth = torch.nn.functional.interpolate(rough, (side, side), mode="bicubic").clamp(0, 1)
    return (255 * smooth[0].movedim(0, -1)).round().to(torch.uint8).numpy().tobytes()


def test_a_look_shows_both_ways_round_and_their_difference(viewer: Viewer) -> None:
    seen = viewer.look(pixels(28), 28, 13)
    ours, cnn = seen["nets"]["ours"], seen["nets"]["cnn"]
    assert ours["error"] < 1e-10 < 1e-2 < cnn["error"]
    assert ours["small"]["side"] == ours["shrunk"]["side"] == seen["image"]["side"] == 13
    assert np.abs(np.subtract(ours["small"]["values"], ours["shrunk"]["values"])).max() <= 1
    assert cnn["small"]["side"] == 14
    assert np.abs(np.subtract(cnn["small"]["values"], cnn["shrunk"]["values"])).max() > 20
    for net in (ours, cnn):
        together = net["small"]["values"] + net["shrunk"]["values"]
        assert (min(together), max(together)) == (0, 255)


def test_the_numbers_are_those_of_the_model_itself(viewer: Viewer) -> None:
    image = pixels(28)
    x = torch.frombuffer(bytearray(image), dtype=torch.uint8).float().view(1, 1, 28, 28) / 255
    model = viewer.nets[0].model
    with torch.inference_mode():
        whole, small = (model((value - 0.1) / 0.3).softmax(-1) for value in (x, downscale(x, 11)))
        features = model.features((x - 0.1) / 0.3), model.features((downscale(x, 11) - 0.1) / 0.3)
    seen = viewer.look(image, 28, 11)
    assert torch.allclose(torch.tensor(seen["levels"]), whole[0], atol=1e-6)
    assert torch.allclose(torch.tensor(seen["nets"]["ours"]["probabilities"]), small[0, -1], atol=1e-6)
    assert seen["nets"]["ours"]["error"] == pytest.approx(
        relative_error(features[0][..., :11, :11], features[1]), rel=0.5
    )
    level = viewer.levels()[11]
    assert seen["levels"][level] == pytest.approx(seen["nets"]["ours"]["probabilities"], abs=1e-5)


def test_a_net_inside_one_nested_map_is_looked_through_as_any_other() -> None:
    torch.manual_seed(0)
    prepare = Preprocessing(mean=(0.5,) * 3, std=(0.25,) * 3, sizes=(16, 24, 32), classes=tuple("abcdefghij"))
    options = {"widths": (4, 6), "hidden": 8, "resolutions": (16, 24, 32)}
    exact, bare, consistent = (
        create_model("resnet-stl10-small", made=made, **options).eval() for made in ("exact", "bare", "consistent")
    )
    viewer = Viewer([Net("ours", "exact", exact, prepare), Net("cnn", "bare", bare, prepare)])
    seen = viewer.look(pixels(32, 3), 32, 16)
    assert seen["nets"]["ours"]["error"] < 1e-10 < 1e-4 < seen["nets"]["cnn"]["error"]
    assert len(seen["levels"]) == 3
    with pytest.raises(ValueError, match="PerLevelClassifier has no features to show"):
        Viewer([Net("ours", "consistent", consistent, prepare)]).look(pixels(32, 3), 32, 16)


def test_levels_answer_for_the_resolutions_of_their_band(viewer: Viewer) -> None:
    levels = viewer.levels()
    assert [levels[r] for r in (8, 9, 10, 27, 28)] == [0, 1, 1, 10, 10]
    assert set(Viewer(small_nets()[1:]).levels().values()) == {0}


def test_ranks_are_channels_by_their_variance(viewer: Viewer) -> None:
    channels = [viewer.look(pixels(28), 28, 13, rank)["nets"]["ours"]["channel"] for rank in range(9)]
    assert sorted(channels[:8]) == list(range(8))
    assert channels[8] == channels[7]  # there is no ninth


def test_a_larger_picture_is_ideally_downscaled_and_a_smaller_one_kept(viewer: Viewer) -> None:
    assert viewer.look(pixels(100), 100, 28)["size"] == 28
    assert viewer.look(pixels(19), 19, 19)["size"] == 19
    with pytest.raises(LookError, match="resolution from 8 to 19 pixels, got 20"):
        viewer.look(pixels(19), 19, 20)


def test_a_mirrored_net_sees_mirrored_images() -> None:
    ours = small_nets(boundary="mirror")[0]
    errors = {
        boundary: Viewer([Net("ours", "ours", ours.model, replace(DIGITS, boundary=boundary))]).look(pixels(40), 40, 13)
        for boundary in ("mirror", "circular")
    }
    assert errors["mirror"]["nets"]["ours"]["error"] < 1e-10 < 1e-4 < errors["circular"]["nets"]["ours"]["error"]
    assert errors["mirror"]["nets"]["ours"]["small"]["side"] == 13


def test_what_was_computed_for_an_image_is_kept_until_the_next(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = Preprocessing.__call__
    monkeypatch.setattr(Preprocessing, "__call__", lambda self, x: (calls.append(x.shape[-1]), original(self, x))[1])
    for resolution in (14, 14, 20, 14):
        viewer.look(pixels(28, seed=1), 28, resolution)
    assert sorted(calls) == [14, 14, 20, 20, 28, 28]
    viewer.look(pixels(28, seed=2), 28, 14)
    assert len(calls) == 10


def test_pictures_in_colour_go_through_nets_in_colour() -> None:
    colour = Preprocessing(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), classes=("cat", "dog", "eel"))
    net = small_nets(in_channels=3, classes=3, pool=(2, 1), resolutions=range(8, 29, 4))[0]
    viewer = Viewer([Net("ours", "ours", net.model, colour)])
    seen = viewer.look(pixels(28, 3), 28, 12)
    assert len(seen["image"]["values"]) == 12 * 12 * 3
    assert seen["nets"]["ours"]["error"] < 1e-10
    assert list(seen["nets"]) == ["ours"]


@pytest.mark.parametrize(
    ("side", "length", "sentence"),
    [
        (7, 49, "8 to 512 pixels a side, got 7"),
        (600, 1, "got 600"),
        (28, 783, "28 x 28 x 1 bytes of pixels, got 783"),
        (28, 784, "blank"),
    ],
)
def test_other_images_are_refused_in_a_sentence(viewer: Viewer, side: int, length: int, sentence: str) -> None:
    with pytest.raises(LookError, match=sentence):
        viewer.look(bytes(length), side, 8)
