"""Coarse answers first: accuracy against measured time, for shipped weights and their test images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fourierscale.data import load_protocol
from fourierscale.lab.bench.suites import Record, Settings, chosen
from fourierscale.models import pretrained_info
from fourierscale.predicting import Classifier
from fourierscale.predicting.anytime import largest_images, measure_anytime

__all__ = ["measure_anytime_answers"]

WEIGHTS = {"digits": "scalenet-mnist", "photographs": "scalenet-stl10"}
IMAGES, QUICK = 10_000, 200


def measure_anytime_answers(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Lines of a table for each kind of images.

    Args:
        names: ``digits``, ``photographs``; both if none is given.
        settings: A quick run takes 200 images; batches have 64 if nothing else is said.
    """
    for name in names or WEIGHTS:
        (weights,) = chosen([name], WEIGHTS)
        classifier = Classifier(weights, device=str(settings.device), batch_size=settings.batch or 64)
        splits = load_protocol(pretrained_info(weights)["data"]["protocol"], offline=True)
        count = QUICK if settings.quick else IMAGES
        test, validation = (largest_images(part, classifier.preprocessing, count) for part in (splits.test, splits.val))
        repeats = settings.repeats or (1 if settings.quick else 5)
        for row in measure_anytime(classifier, test, validation, repeats=repeats).rows():
            yield f"anytime-{name}", {**row, "images": len(test[1]), "batch": classifier.batch_size}
