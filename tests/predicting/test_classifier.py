import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import fourierscale
from fourierscale.data import load_protocol
from fourierscale.data.errors import CorruptFileError, FormatError
from fourierscale.export import export_onnx
from fourierscale.models import Answer, Preprocessing, WeightsError, load_pretrained, save_model
from fourierscale.predicting import Classifier, Refused
from fourierscale.predicting.levels import looks


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, list[str]]:
    splits = load_protocol("mnist-scale", offline=True)
    step = len(splits.test.labels) // 40  # they are in the order of their classes
    return splits.test.images[: 40 * step : step, 0].numpy(), [
        *map(str, splits.test.labels[: 40 * step : step].tolist())
    ]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier("scalenet-mnist", device="cpu", batch_size=16)


def labels(answers: list[Answer]) -> list[str]:
    return [answer.label for answer in answers]


def test_it_is_the_short_name_of_the_package(classifier: Classifier) -> None:
    assert isinstance(classifier, fourierscale.Classifier)


def test_answers_are_those_of_the_model(classifier: Classifier, digits: tuple[np.ndarray, list[str]]) -> None:
    images, known = digits
    found = classifier(images[:, None])
    assert sum(map(str.__eq__, labels(found), known)) >= 38
    model = load_pretrained("scalenet-mnist")
    with torch.inference_mode():
        expected = model(model.preprocessing(torch.from_numpy(images[:, None]) / 255)).softmax(-1)
    torch.testing.assert_close(torch.stack([a.probabilities for a in found]), expected, atol=1e-5, rtol=0)
    assert found[3].levels == tuple(model.level_names(28))
    assert found[3].top(3)[0] == (found[3].label, found[3].probability)
    assert found[3].name == "image 3"


def test_one_image_gives_an_answer_and_several_a_list(
    classifier: Classifier, digits: tuple[np.ndarray, list[str]], tmp_path: Path
) -> None:
    images, _ = digits
    for number, image in enumerate(images[:5]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    file = tmp_path / "0.png"
    tensor = torch.from_numpy(images[0])
    for one in (
        file,
        str(file),
        Image.fromarray(images[0]),
        images[0],
        images[0][..., None],
        tensor,
        tensor[None] / 255,
    ):
        answer = classifier(one)
        assert isinstance(answer, Answer)
        assert answer.label == classifier([images[0]])[0].label
    five = labels(classifier(images[:5]))
    for several in (tmp_path, [file, *images[1:5]], iter(images[:5]), images[:5, ..., None], [images[:5]]):
        found = classifier(several)
        assert isinstance(found, list)
        assert labels(found) == five
    colours = np.repeat(images[:1], 3, axis=0)  # three layers of one image, as often as not three grey images
    assert isinstance(classifier(colours), Answer)
    assert isinstance(classifier([file]), list)
    assert classifier([]) == []


def test_images_of_several_sizes_keep_their_order(classifier: Classifier, digits: tuple[np.ndarray, list[str]]) -> None:
    sizes = itertools.cycle((28, 20, 33, 28, 14))
    mixed = [np.array(Image.fromarray(x).resize((n, n))) for x, n in zip(digits[0], sizes, strict=False)]
    together = classifier(mixed)
    for one, answer in zip(mixed, together, strict=True):
        alone = classifier(one)
        assert alone.notes == answer.notes
        torch.testing.assert_close(alone.probabilities, answer.probabilities, atol=1e-5, rtol=0)


def test_refining_gives_the_levels_of_the_whole_image(
    classifier: Classifier, digits: tuple[np.ndarray, list[str]]
) -> None:
    whole = classifier(digits[0][0])
    coarse, middle, fine = classifier.refine(digits[0][0])
    assert [answer.levels[-1] for answer in (coarse, middle, fine)] == ["8", "13, 14", "27, 28"]
    for answer, level in ((coarse, 0), (middle, 3), (fine, len(whole.levels) - 1)):
        torch.testing.assert_close(answer.probabilities[-1], whole.probabilities[level], atol=1e-4, rtol=0)


def test_refining_computes_nothing_that_is_not_asked_for(
    digits: tuple[np.ndarray, list[str]], classifier: Classifier
) -> None:
    seen: list[int] = []
    hook = classifier.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
    try:
        next(classifier.refine(digits[0][0]))
        assert seen == [7]
        classifier(digits[0][:8], sure=1e-9)
        assert seen == [7, 7]
    finally:
        hook.remove()


def test_an_image_leaves_where_it_is_sure(classifier: Classifier, digits: tuple[np.ndarray, list[str]]) -> None:
    images = digits[0]
    for answer, image in zip(classifier(images, sure=0.999), images, strict=True):
        steps = list(classifier.refine(image))
        first = next((step for step in steps if step.probability >= 0.999), steps[-1])
        assert answer.levels == first.levels
        assert answer.label == first.label
        assert any(note.startswith("sure at") for note in answer.notes) == (first is not steps[-1])
    full = classifier(images)
    never = classifier(images, sure=1.0)
    assert labels(never) == labels(full)


def test_a_bad_file_is_named_and_the_others_go_on(
    classifier: Classifier, digits: tuple[np.ndarray, list[str]], tmp_path: Path
) -> None:
    for number in range(3):
        Image.fromarray(digits[0][number]).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_text("no image")
    good, bad, also_good = classifier.stream(tmp_path)
    assert isinstance(bad, Refused)
    assert isinstance(bad.error, CorruptFileError)
    assert [Path(x.name).name for x in (good, bad, also_good)] == ["0.png", "1.png", "2.png"]
    assert len(classifier(tmp_path, skip_bad=True)) == 2
    with pytest.raises(CorruptFileError, match=r"1\.png: cannot be read"):
        classifier(tmp_path)
    with pytest.raises(FormatError, match="image 1: 4 x 4 pixels"):
        classifier([digits[0][0], np.zeros((4, 4), dtype=np.uint8)])


def test_only_as_many_images_are_held_as_a_few_batches(digits: tuple[np.ndarray, list[str]]) -> None:
    taken = 0

    def endless():
        nonlocal taken
        for taken in itertools.count(1):  # noqa: B007
            yield digits[0][0]

    answers = Classifier("scalenet-mnist", batch_size=2).stream(endless())
    assert len(list(itertools.islice(answers, 20))) == 20
    assert taken <= 24


def test_runs_weights_onnx_files_and_models_are_opened(tmp_path: Path) -> None:
    small = {"widths": [4], "pool": 1, "hidden": 8, "resolutions": [5, 9]}
    model = fourierscale.create_model("scalenet-tiny", **small).eval()
    model.preprocessing = Preprocessing(sizes=(5, 9))
    info = {"model": "scalenet-tiny", "overrides": small, "preprocessing": model.preprocessing.to_dict()}
    weights = save_model(model, tmp_path / "run", info)
    export_onnx(model, tmp_path / "model.onnx", [5, 9])
    images = np.random.default_rng(0).integers(0, 256, (6, 9, 9), dtype=np.uint8)
    expected = [answer.probability for answer in Classifier(model)(images)]
    for given in (tmp_path / "run", weights, str(weights), tmp_path / "model.onnx"):
        found = [answer.probability for answer in Classifier(given)(images)]
        assert found == pytest.approx(expected, abs=1e-5)
    onnx = Classifier(tmp_path / "model.onnx")
    assert [answer.levels[-1] for answer in onnx.refine(images[0])] == ["5", "9"]


def test_any_model_is_taken_with_its_preprocessing() -> None:
    plain = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    with pytest.raises(ValueError, match="does not say how images are prepared"):
        Classifier(plain)
    prepare = Preprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, classes=("cat", "dog"), sizes=(16, 32))
    classifier = Classifier(plain, preprocessing=prepare)
    answer = classifier(np.tile(np.arange(40, dtype=np.uint8) * 5, (50, 1)))
    assert answer.label in ("cat", "dog")
    assert answer.levels == ("32",)
    assert [look.size for look in looks(classifier.model, prepare, 32)] == [16, 32]
    enlarged = Preprocessing(sizes=(7, 14, 28), enlarge="zero", enlarge_size=28)
    assert [look.size for look in looks(classifier.model, enlarged, 28)] == [28]


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"model": "scalenet-mnits"}, WeightsError, "no file or folder, and there are no weights"),
        ({"model": 3}, TypeError, "expected a model's name, a path or a model, got int"),
        ({"device": "abacus"}, ValueError, "cannot compute on abacus"),
        ({"invert": True}, ValueError, "expected invert to be auto, yes or no, got True"),
        ({"batch_size": 0}, ValueError, "at least 1 image"),
    ],
)
def test_mistakes_are_refused(wrong: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Classifier(**{"model": "scalenet-mnist", **wrong})


def test_sure_is_a_probability(classifier: Classifier) -> None:
    with pytest.raises(ValueError, match="expected sure to be a probability"):
        classifier(np.zeros((28, 28)), sure=99)
