"""The one way from pixels to input and from logits to answers, and what models say about themselves."""

import json

import pytest
import torch
from torch import nn

from fourierscale.functional import enlarge_to
from fourierscale.models import Preprocessing, as_image_model, create_model, list_models, load_pretrained
from fourierscale.nn import ToCoefficients

BEFORE = {  # what a description said in version 0.1
    "protocol": "mnist-scale",
    "classes": ["no", "yes"],
    "channels": 2,
    "mean": [0.5, 0.25],
    "std": [0.25, 0.5],
    "kind": "gaussian",
    "resolutions": [8, 12],
    "fit": "zero",
    "fit_size": 12,
}


def test_pixels_are_padded_with_black_and_then_normalised():
    prepare = Preprocessing(mean=(0.5, 0.25), std=(0.25, 0.5), enlarge="zero", enlarge_size=6)
    x = torch.rand(3, 2, 4, 4)
    got = prepare(x)
    for channel, (mean, std) in enumerate([(0.5, 0.25), (0.25, 0.5)]):
        torch.testing.assert_close(got[:, channel], (enlarge_to(x, 6, "zero")[:, channel] - mean) / std)
    torch.testing.assert_close(prepare.to_pixels(got)[..., 1:5, 1:5], x)
    assert prepare(x.double()).dtype == torch.float64


def test_it_survives_json_and_descriptions_of_earlier_versions():
    prepare = Preprocessing.from_info({"data": BEFORE})
    assert prepare == Preprocessing(
        mean=(0.5, 0.25),
        std=(0.25, 0.5),
        sizes=(8, 12),
        enlarge="zero",
        enlarge_size=12,
        kind="gaussian",
        classes=("no", "yes"),
        polarity="light on dark",
    )
    again = Preprocessing.from_info({"preprocessing": json.loads(json.dumps(prepare.to_dict())), "data": {}})
    assert again == prepare


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"std": (0.0,)}, "positive stds"),
        ({"mean": (0.1, 0.2)}, "as many means"),
        ({"enlarge": "stretch", "enlarge_size": 9}, "choose one of zero"),
        ({"enlarge": "zero"}, "give both or neither"),
        ({"boundary": "wall"}, "unknown boundary 'wall'"),
    ],
)
def test_what_cannot_be_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        Preprocessing(**options)


def test_an_answer_names_its_class_and_every_level():
    prepare = Preprocessing(classes=("cat", "dog"))
    (answer,) = prepare.answers(torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]), ["8", "9, 10", "11"])
    assert (answer.label, answer.levels) == ("dog", ("9, 10", "11"))
    assert answer.probability == pytest.approx(torch.tensor([0.0, 1.0]).softmax(-1).max().item())
    assert [(name, label) for name, label, _ in answer.per_level()] == [("9, 10", "cat"), ("11", "dog")]
    (plain,) = Preprocessing().answers(torch.tensor([[0.0, 3.0, 1.0]]), ["28"])
    assert plain.label == "1"


def test_an_image_too_small_is_refused_and_a_large_one_taken_at_the_largest_size():
    prepare = Preprocessing(sizes=(8, 12))
    assert [prepare.size_for(*sides) for sides in ((8, 30), (11, 11), (50, 40))] == [8, 11, 12]
    with pytest.raises(ValueError, match="7 x 9 pixels, the model needs at least 8 x 8"):
        prepare.size_for(9, 7)


@pytest.mark.parametrize("name", list_models())
def test_every_model_keeps_the_contract(name):
    with torch.device("meta"):
        model = create_model(name)
    side = 16 if model.levels is None else max(model.levels.highest)
    names, bands = model.level_names(side), model.level_bands((side, side))
    assert len(names) == len(bands)
    assert names[-1].split(", ")[-1] == str(side)
    assert model.domain in ("image", "coefficients")
    assert model.boundary == "circular"
    assert model.has_features
    assert model.preprocessing is None


def test_levels_that_pooling_merges_share_their_resolutions():
    model = create_model("scalenet-folder", resolutions=(16, 20, 25, 32, 40, 51, 64))
    assert model.level_names(64) == ["16", "20", "25, 32", "40", "51", "64"]
    merged = create_model("scalenet-tiny", resolutions=range(8, 13), pool=(2, 1))
    assert merged.level_names(12) == ["8", "9, 10, 11, 12"]
    assert merged.level_names(11) == ["8", "9, 10, 11"]


def test_a_model_of_others_has_one_answer_and_the_boundary_of_its_door():
    model = as_image_model(nn.Sequential(ToCoefficients(boundary="mirror"), nn.Flatten()))
    assert (model.boundary, model.level_names(9), model.levels, model.has_features) == ("mirror", ["9"], None, False)
    with pytest.raises(ValueError, match="has no features"):
        model.features(torch.rand(1, 1, 9, 9))


def test_weights_bring_their_preprocessing():
    prepare = load_pretrained("scalenet-stl10").preprocessing
    assert (prepare.channels, min(prepare.sizes), max(prepare.sizes), len(prepare.classes)) == (3, 48, 96, 10)


def test_an_image_of_which_nothing_can_be_said_has_a_fault():
    image = torch.rand(3, 8, 8)
    colour = torch.tensor([0.2, 0.5, 0.9])[:, None, None].expand(3, 8, 8)
    noisy, step = colour + 1e-6 * image, colour.clone()
    step[1, 3, 3] += 1 / 255
    strange = [image.clone() for _ in range(3)]
    for one, value in zip(strange, (float("nan"), float("inf"), -1e30), strict=True):
        one[0, 2, 2] = value
    found = Preprocessing.faults(torch.stack([image, step, colour, noisy, *strange]))
    assert found == [
        "",
        "",
        *["it is blank: all its pixels are alike"] * 2,
        *["its values are not finite, or beyond 1e+06"] * 3,
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_no_answer(value):
    with pytest.raises(ValueError, match="its logits are not finite numbers"):
        Preprocessing().answers(torch.tensor([[0.0, value]]), ["28"])


def test_logits_of_other_classes_than_the_description_names_are_no_answer():
    with pytest.raises(
        ValueError, match=r"expected logits of 2 classes at 1 level\(s\) at most.* got shape \(1, 1, 3\)"
    ):
        Preprocessing(classes=("a", "b")).answers(torch.zeros(1, 3), ["28"])
