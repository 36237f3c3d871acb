"""What coarse answers first are worth: accuracy against measured time, and the threshold to choose."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fourierscale.data import ScaledDataset
from fourierscale.data.progress import ProgressCallback
from fourierscale.models import Preprocessing
from fourierscale.predicting.classifier import Classifier

__all__ = ["THRESHOLDS", "Anytime", "AnytimePoint", "choose_threshold", "largest_images", "measure_anytime"]

THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)


@dataclass(frozen=True)
class AnytimePoint:
    """What one threshold gives.

    Attributes:
        sure: The threshold; None for the whole pass over every image.
        accuracy: Of the answers.
        left: Share of the images that left at each resolution, coarse to fine.
        seconds: For an image; NaN where no time was taken.
    """

    sure: float | None
    accuracy: float
    left: dict[int, float]
    seconds: float


@dataclass(frozen=True)
class Anytime:
    """Accuracy against time.

    Attributes:
        points: One for each threshold, increasing.
        full: Every image at its own resolution alone.
        chosen: The threshold that validation images chose; None if even the highest costs too much accuracy.
    """

    points: tuple[AnytimePoint, ...]
    full: AnytimePoint
    chosen: float | None

    def rows(self) -> list[dict[str, str | float]]:
        """A line for the whole pass and for each threshold, ready for a table."""

        def line(name: str, point: AnytimePoint) -> dict[str, str | float]:
            left = ", ".join(f"{share:.3f} at {side}" for side, share in point.left.items())
            times = {"ms": 1e3 * point.seconds, "of_whole": point.seconds / self.full.seconds}
            return {"sure": name, "accuracy": f"{point.accuracy:.2%}", **times, "left": left}

        chosen = {self.chosen: ", chosen"}
        named = ((f"{point.sure:g} or more{chosen.get(point.sure, '')}", point) for point in self.points)
        return [line("whole pass", self.full), *(line(name, point) for name, point in named)]

    @property
    def best(self) -> AnytimePoint:
        """What the chosen threshold gives."""
        return next((point for point in self.points if point.sure == self.chosen), self.full)


def largest_images(dataset: ScaledDataset, preprocessing: Preprocessing, count: int = 0) -> tuple[Tensor, Tensor]:
    """Images of a dataset at the highest resolution that they and the model have, from 0 to 1, and their labels.

    Args:
        dataset: Where from.
        preprocessing: The model's.
        count: At most so many, evenly spread and in a random order; 0 means all.
    """
    pixels, items = dataset.largest(count or len(dataset.labels))
    order = torch.randperm(len(items), generator=torch.Generator().manual_seed(0))
    side = preprocessing.size_for(*pixels.shape[2:])
    pixels, labels = pixels.cpu()[order], dataset.labels.cpu()[items][order]
    return (preprocessing.downscale(pixels, side) if side < pixels.shape[-1] else pixels), labels


def choose_threshold(
    classifier: Classifier, pixels: Tensor, labels: Tensor, loss: float = 5e-4, thresholds: Sequence[float] = THRESHOLDS
) -> float | None:
    """The lowest threshold from which on coarse answers cost at most ``loss`` of the accuracy, on validation images.

    Args:
        classifier: The model.
        pixels: ``(N, C, n, n)``, from 0 to 1, of a size that the model takes.
        labels: ``(N,)``.
        loss: What may be lost.
        thresholds: To choose from, increasing.

    Returns:
        None if none of them will do.
    """
    points, full = accuracies(classifier, pixels, labels, thresholds)
    chosen = None
    for point in reversed(points):
        if point.accuracy < full.accuracy - loss:
            break
        chosen = point.sure
    return chosen


def measure_anytime(
    classifier: Classifier,
    test: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    *,
    loss: float = 5e-4,
    thresholds: Sequence[float] = THRESHOLDS,
    batches: int = 10,
    repeats: int = 3,
    report: ProgressCallback | None = None,
) -> Anytime:
    """Accuracy against measured time for thresholds on the probability.

    Accuracy counts all test images. Time is that from pixels to answers, in batches of the classifier's size, as images
    leave them one by one; whole passes and thresholds take turns, and medians count.

    Args:
        classifier: The model; its ``batch_size`` is that of the times.
        test: Pixels ``(N, C, n, n)`` from 0 to 1 and labels ``(N,)``.
        validation: The same of the images that choose the threshold.
        loss: Accuracy that coarse answers may cost on them.
        thresholds: To measure, increasing.
        batches: How many batches of the test images are timed.
        repeats: How often each of them is.
        report: Told how far it is.
    """
    chosen = choose_threshold(classifier, *validation, loss, thresholds)
    points, full = accuracies(classifier, *test, thresholds)
    size = classifier.batch_size
    portions = [test[0][first : first + size] for first in range(0, len(test[0]) - size + 1, size)][:batches]
    taken: dict[float | None, list[float]] = {sure: [] for sure in (None, *thresholds)}
    for turn in range(repeats + 1):
        for number, portion in enumerate(portions[: None if turn else 1]):  # the first turn warms up
            for sure, times in taken.items():
                start = time.perf_counter()
                classifier.answer_pixels(portion, sure=sure)
                if turn:
                    times.append((time.perf_counter() - start) / len(portion))
            if report is not None and turn:
                report("timing", ((turn - 1) * len(portions) + number + 1) / (repeats * len(portions)))
    seconds = {sure: statistics.median(times) if times else float("nan") for sure, times in taken.items()}

    def timed(point: AnytimePoint) -> AnytimePoint:
        return AnytimePoint(point.sure, point.accuracy, point.left, seconds[point.sure])

    return Anytime(tuple(map(timed, points)), timed(full), chosen)


def accuracies(
    classifier: Classifier, pixels: Tensor, labels: Tensor, thresholds: Sequence[float]
) -> tuple[list[AnytimePoint], AnytimePoint]:
    """Accuracy and who leaves where for each threshold, and of whole passes; no times."""
    looks = classifier.looks(pixels.shape[-1])
    found = [
        torch.cat(
            [classifier.probabilities(part, look)[:, -1].cpu() for part in torch.split(pixels, classifier.batch_size)]
        )
        for look in looks
    ]
    best, predicted = (torch.stack(values) for values in zip(*(one.max(-1) for one in found), strict=True))  # (L, N)
    right = predicted == labels.cpu()
    points = []
    for sure in thresholds:
        enough = best >= sure
        enough[-1] = True
        first = enough.int().argmax(0)  # the coarsest
        accuracy = right.gather(0, first[None])[0].double().mean()
        shares = {look.resolution: float((first == at).double().mean()) for at, look in enumerate(looks)}
        points.append(AnytimePoint(sure, float(accuracy), shares, float("nan")))
    whole = AnytimePoint(None, float(right[-1].double().mean()), {looks[-1].resolution: 1.0}, float("nan"))
    return points, whole
