"""The page ``report.html`` of a run on a folder of images: one file that needs nothing from outside."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierscale.data import ScaledSplits, make_loader
from fourierscale.models import ImageModel, load_model, read_info
from fourierscale.models.files import write_whole
from fourierscale.pages.charts import Scale, Series, line_chart
from fourierscale.pages.elements import card, facts, png, row, section, skeleton, spread, table, two
from fourierscale.training.callbacks import read_log
from fourierscale.training.picture import level_values

__all__ = ["Example", "choose_examples", "history_charts", "write_run_report"]

LOOKED_AT = 2_000  # test images among which examples are chosen
SHOWN = 6  # examples of either kind


@dataclass(frozen=True, eq=False)
class Example:
    """A test image and what the model says of it.

    Attributes:
        name: Its file, or its number.
        image: ``(C, m, m)`` from 0 to 1.
        label: Its class.
        levels: Names of the levels, coarse to fine.
        probabilities: ``(levels, classes)``.
    """

    name: str
    image: Tensor
    label: int
    levels: tuple[str, ...]
    probabilities: Tensor

    @property
    def predicted(self) -> int:
        """The class that the highest level gives."""
        return int(self.probabilities[-1].argmax())


def write_run_report(run: str | os.PathLike[str], splits: ScaledSplits) -> Path:
    """Write ``report.html`` into a run's folder, from what the run has written there and from its test images.

    Args:
        run: The folder.
        splits: The images that it was trained and tested on.
    """
    root = Path(run)
    info = read_info(root)
    metrics, classes = info["metrics"], splits.classes
    right, wrong = choose_examples(load_model(root), splits)
    log = read_log(root / "log.csv")
    levels = level_values(metrics, "accuracy_per_level")
    text = skeleton(
        Path(info["data"]["protocol"].partition(":")[2] or info["data"]["protocol"]).name,
        f'<p class="lead">{escape(_lead(info, splits))}</p>',
        section(
            "Results",
            f"<p>{metrics['images']:,} test images that training has not seen, each at its own resolution.</p>",
            table((), _figures(metrics)),
        ),
        section(
            "Over resolution",
            two(
                card("accuracy of images by their own resolution", _chart(metrics["accuracy_per_resolution"])),
                card("accuracy at every level, of all images that have it", _chart(levels)),
            ),
        ),
        section("Classes", table(("class", "train", "val", "test", "accuracy", ""), _classes(metrics, splits))),
        section(
            "Who is taken for whom",
            "<p>Rows are the true classes, columns what the model says of the test images.</p>",
            _confusion(metrics, classes),
        ),
        section(
            "The surest mistakes",
            "<p>What one pass says from the coarsest level to the image itself, as if the image had been downscaled: "
            "the likeliest class at each level and its probability.</p>",
            _examples(wrong, classes) or "<p>No test image that was looked at is classified wrongly.</p>",
        ),
        section("Right", _examples(right, classes) or "<p>None.</p>"),
        section(
            "Training",
            "<p>The training loss is a sum over all levels, the validation loss that of the prediction alone.</p>",
            history_charts(log),
        ),
        section("How this was made", facts(_made(root, info, splits))),
    )
    path = root / "report.html"
    write_whole(path, text)
    return path


def history_charts(log: Sequence[Mapping[str, str]], scales: tuple[Scale, Scale] = ("linear", "linear")) -> str:
    """Losses, and accuracy and Scale-Con on validation images, over the epochs of a log."""

    def series(key: str, column: str, name: str) -> Series:
        return Series(
            key, {float(row["epoch"]) + 1: float(row[column]) if row.get(column) else None for row in log}, name
        )

    losses = [series("cnn", "loss", "training"), series("ours", "val_loss", "validation")]
    shares = [series("tiny", "val_acc", "accuracy"), series("ours", "val_scale_con", "Scale-Con")]
    return two(
        card("loss", line_chart(losses, "epoch", "loss", scales[0], whole=True)),
        card("on validation images", line_chart(shares, "epoch", "share", scales[1], whole=True)),
    )


@torch.inference_mode()
def choose_examples(model: ImageModel, splits: ScaledSplits) -> tuple[list[Example], list[Example]]:
    """A few test images that are classified rightly, of as many classes as can be, and the surest mistakes."""
    right: list[Example] = []
    wrong: list[Example] = []
    names, seen = splits.names.get("test", ()), 0
    for batch in make_loader(splits.test, 64, shuffle=True):
        seen += len(batch.labels)
        answers = splits.preprocessing.answers(model(batch.images), model.level_names(batch.resolution))
        images = splits.test.denormalize(batch.images).clamp(0, 1)
        found = [
            Example(
                names[item] if names else f"test image {item}", image, int(label), answer.levels, answer.probabilities
            )
            for item, image, label, answer in zip(batch.indices.tolist(), images, batch.labels, answers, strict=True)
        ]
        right += [example for example in found if example.predicted == example.label]
        wrong += [example for example in found if example.predicted != example.label]
        wrong = sorted(wrong, key=lambda example: -float(example.probabilities[-1].max()))[:SHOWN]
        if seen >= LOOKED_AT:
            break
    return _varied(right), wrong


def _varied(examples: Sequence[Example]) -> list[Example]:
    """One of each class in turn, large images first."""
    turns: dict[int, int] = {}
    keyed = []
    for number, example in enumerate(sorted(examples, key=lambda example: -example.image.shape[-1])):
        turns[example.label] = turns.get(example.label, 0) + 1
        keyed.append((turns[example.label], number, example))
    return [example for _, _, example in sorted(keyed, key=lambda item: item[:2])[:SHOWN]]


def _lead(info: Mapping[str, Any], splits: ScaledSplits) -> str:
    counts = ", ".join(
        f"{len(part):,} {name}" for name, part in (("train", splits.train), ("val", splits.val), ("test", splits.test))
    )
    levels = splits.protocol.resolutions
    return (
        f"{info['model']}, trained on {len(splits.classes)} classes ({counts}). One pass over an image gives the "
        f"answers for all its downscaled versions too, at {', '.join(map(str, levels))} pixels."
    )


def _figures(metrics: Mapping[str, Any]) -> Iterator[str]:
    accuracy, scale_con = (
        _shown(metrics[name], error=metrics[f"{name}_standard_error"]) for name in ("accuracy", "scale_con")
    )
    yield row("accuracy", spread(accuracy), note="of all test images")
    yield row("balanced accuracy", _shown(metrics["balanced_accuracy"]), note="mean of the accuracies of the classes")
    losses = "how often an image's loss is no larger than that of its downscaled versions"
    yield row("Scale-Con", spread(scale_con), note=losses)
    both = "features of the downscaled image against downscaled features; near 1e-13 is rounding"
    yield row("Equi-Err", _shown(metrics["equi_err"], ".1e"), note=both)
    calibration = f"{_shown(metrics['ece'])} ({_shown(metrics['ece_after_temperature'])})"
    divided = f"in brackets after dividing logits by {_shown(metrics['temperature'], '.2f')}"
    yield row("calibration error", calibration, note=divided)


def _shown(value: float | None, spec: str = ".4f", error: float | None = None) -> str:
    if value is None:
        return "-"
    return format(value, spec) + (f" ± {error:.4f}" if error is not None else "")


def _chart(table: Mapping[Any, float | None]) -> str:
    points = {float(key): value for key, value in table.items()}
    return line_chart([Series("ours", points)], "pixels", "accuracy")


def _classes(metrics: Mapping[str, Any], splits: ScaledSplits) -> Iterator[str]:
    counts = [part.labels.bincount(minlength=len(splits.classes)).tolist() for part in splits]
    for label, name in enumerate(splits.classes):
        share = metrics["accuracy_per_class"][name]
        yield row(name, *(f"{count[label]:,}" for count in counts), _shown(share), _bar("ours", share or 0))


def _bar(kind: str, share: float) -> str:
    return f'<i class="bar {kind}" style="width:{100 * share:.0f}%"></i>'


def _confusion(metrics: Mapping[str, Any], classes: Sequence[str]) -> str:
    """Rows are true classes, columns predicted ones; shaded by the share of the row."""
    if "confusion" not in metrics:
        return "<p>There are too many classes to draw who is taken for whom.</p>"
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in classes)
    lines = []
    for label, (name, counts) in enumerate(zip(classes, metrics["confusion"], strict=True)):
        total = max(sum(counts), 1)
        cells = "".join(
            f'<td class="{"ours" if column == label else "cnn"}" style="--share:{n / total:.3f}">{n or ""}</td>'
            for column, n in enumerate(counts)
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    table = f'<table class="confusion"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    return f'<div class="card scroll">{table}</div>'


def _examples(examples: Sequence[Example], classes: Sequence[str]) -> str:
    cards = []
    for example in examples:
        lines = []
        for level, shares in zip(example.levels, example.probabilities, strict=True):
            top = int(shares.argmax())
            kind, share = "ours" if top == example.label else "cnn", float(shares[top])
            told = f'<td class="{kind}">{share:.2f} <b>{escape(classes[top])}</b></td>'
            size = level if "," in level else f"{level} px"
            lines.append(f'<tr><th scope="row">{size}</th><td>{_bar(kind, share)}</td>{told}</tr>')
        name = escape(classes[example.label])
        taken = f", taken for {escape(classes[example.predicted])}" if example.predicted != example.label else ""
        picture = f'<img alt="{name}" src="{png(example.image, 0.0, 1.0)}">'
        cards.append(
            f'<figure class="card"><div class="beside">{picture}<table class="levels">{"".join(lines)}</table></div>'
            f"<figcaption><b>{name}{taken}</b><br>{escape(example.name)}</figcaption></figure>"
        )
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def _made(root: Path, info: Mapping[str, Any], splits: ScaledSplits) -> dict[str, str]:
    metrics, config = info["metrics"], info["config"]
    return {
        "again": f"fourierscale train --config {root / 'config.toml'} --out ANOTHER-FOLDER",
        "data": f"{splits.source}; {splits.note}",
        "model": f"{info['model']}, {', '.join(f'{name}={value}' for name, value in info['overrides'].items())}",
        "training": f"epochs {metrics['epochs']}, {metrics['steps']:,} steps, batches of "
        f"{config['data']['batch_size']}, {config['optim']['name']} at {config['optim']['lr']:g}, "
        f"augmentation {config['data']['augment']}, seed {config['train']['seed']}, {metrics['train_seconds']:.0f} s",
        "device": f"{metrics['device']}, {platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {number}" for name, number in info["versions"].items()),
        "Equi-Err": f"over {metrics['equi_err_pairs']:,} pairs of image and resolution, really downscaled; the largest "
        f"is {_shown(metrics['equi_err_max'], '.1e')}",
        "splits": ", ".join(f"{name} {digest[:12]}" for name, digest in splits.hashes.items()),
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
