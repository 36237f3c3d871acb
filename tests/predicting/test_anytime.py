import pytest
import torch
from torch import Tensor

from fourierscale.models import ImageModel, Preprocessing
from fourierscale.predicting import Classifier
from fourierscale.predicting.anytime import choose_threshold, measure_anytime


class Staged(ImageModel):
    """Two classes; the first pixel is the label, the second says from which size on the answer is right and sure."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x[:, 0, 0, 0], x[:, 0, 0, 1]
        right = second <= x.shape[-1] / 32 + 1e-3
        label = torch.where(right, first, 1 - first)
        margin = torch.where(right, 4.0, 2.0)  # probabilities 0.98 and 0.88
        return torch.stack([-label * margin + margin / 2, label * margin - margin / 2], 1)


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> Classifier:
    """Looks at 8, 16 and 32 pixels; downscaling keeps the first pixels, as it must for this net."""
    prepare = Preprocessing(sizes=(8, 16, 32))
    monkeypatch.setattr(
        "fourierscale.predicting.levels.downscale", lambda x, size, kind, boundary: x[..., :size, :size]
    )
    return Classifier(Staged(), preprocessing=prepare, batch_size=4)


def images(sizes: list[int]) -> tuple[Tensor, Tensor]:
    x = torch.zeros(len(sizes), 1, 32, 32)
    labels = torch.arange(len(sizes)) % 2
    x[:, 0, 0, 0] = labels
    x[:, 0, 0, 1] = torch.tensor(sizes) / 32
    return x, labels


def test_accuracy_time_and_who_leaves_where(staged: Classifier) -> None:
    test = images([8] * 4 + [16] * 2 + [32] * 2)
    measured = measure_anytime(staged, test, images([8, 16, 32, 32]), thresholds=(0.8, 0.95, 0.999), batches=2)
    careless, sure, never = measured.points
    assert careless.accuracy == 0.5  # all leave at 8 pixels
    assert careless.left == {8: 1.0, 16: 0.0, 32: 0.0}
    assert sure.accuracy == measured.full.accuracy == 1.0
    assert sure.left == {8: 0.5, 16: 0.25, 32: 0.25}
    assert never.left == {8: 0.0, 16: 0.0, 32: 1.0}
    assert measured.chosen == 0.95
    assert measured.best is sure
    assert all(point.seconds > 0 for point in (*measured.points, measured.full))
    assert [row["sure"] for row in measured.rows()] == [
        "whole pass",
        "0.8 or more",
        "0.95 or more, chosen",
        "0.999 or more",
    ]


def test_answers_are_those_that_were_measured(staged: Classifier) -> None:
    x, labels = images([8, 32, 16, 16, 32, 8, 8])
    for sure, right in ((0.8, {8}), (0.95, {8, 16, 32})):
        answers = staged.answer_pixels(x, sure=sure)
        for answer, label, size in zip(answers, labels.tolist(), [8, 32, 16, 16, 32, 8, 8], strict=True):
            assert (answer.label == str(label)) == (size in right)


def test_no_threshold_is_chosen_where_coarse_answers_cost_too_much(staged: Classifier) -> None:
    assert choose_threshold(staged, *images([32] * 8), thresholds=(0.5, 0.8)) is None
    assert choose_threshold(staged, *images([32] * 8), loss=1.0, thresholds=(0.5, 0.8)) == 0.5
