"""The page ``report.html`` of a run on a folder of images: one file that needs nothing from outside."""

from __future__ import annotations

import base64
import io
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from fourierscale.data import ScaledSplits, make_loader
from fourierscale.data.protocols import Protocol
from fourierscale.functional import band, grid
from fourierscale.lab.demo.report import page_style
from fourierscale.models import ImageModel, load_model, read_info
from fourierscale.pages.charts import Series, line_chart
from fourierscale.training.callbacks import read_log
from fourierscale.training.losses import as_levels

__all__ = ["Example", "choose_examples", "write_run_report"]

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
    levels: list[str]
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
    metrics = info["metrics"]
    right, wrong = choose_examples(load_model(root), splits)
    rows = read_log(root / "log.csv")
    folder = resources.files("fourierscale.training")
    page = Template((folder / "report.html").read_text(encoding="utf-8"))
    text = page.substitute(
        style=page_style() + (folder / "report.css").read_text(encoding="utf-8"),
        title=escape(Path(info["data"]["protocol"].partition(":")[2] or info["data"]["protocol"]).name),
        lead=escape(_lead(info, splits)),
        figures=_figures(metrics),
        images=f"{metrics['images']:,}",
        own=_chart(metrics["accuracy_per_resolution"], "resolution in pixels", "accuracy"),
        level=_level_chart(metrics, splits.protocol),
        classes=_classes(metrics, splits),
        confusion=_confusion(metrics, splits.classes),
        wrong=_examples(wrong, splits.classes) or "<p>No test image that was looked at is classified wrongly.</p>",
        right=_examples(right, splits.classes) or "<p>None.</p>",
        loss=_history(rows, ("loss", "val_loss")),
        accuracy=_history(rows, ("val_acc", "val_scale_con")),
        footer=_footer(root, info, splits),
    )
    path = root / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


@torch.inference_mode()
def choose_examples(model: ImageModel, splits: ScaledSplits) -> tuple[list[Example], list[Example]]:
    """A few test images that are classified rightly, of as many classes as can be, and the surest mistakes."""
    right: list[Example] = []
    wrong: list[Example] = []
    names, seen = splits.names.get("test", ()), 0
    for batch in make_loader(splits.test, 64, shuffle=True):
        seen += len(batch.labels)
        probabilities = as_levels(model(batch.images)).float().softmax(-1)  # (B, L, classes)
        levels = model.level_names(batch.resolution)[-probabilities.shape[1] :]
        images = splits.test.denormalize(batch.images).clamp(0, 1)
        found = [
            Example(names[item] if names else f"test image {item}", image, int(label), levels, p)
            for item, image, label, p in zip(batch.indices.tolist(), images, batch.labels, probabilities, strict=True)
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


def _pixels(level: int, protocol: Protocol) -> int:
    """The resolution that has this band, the smallest grid of the band if none of them has."""
    boundary = protocol.boundary
    return next((m for m in protocol.equivariance if band(m, boundary) == level), grid(level, boundary))


def _lead(info: Mapping[str, Any], splits: ScaledSplits) -> str:
    counts = ", ".join(
        f"{len(part):,} {name}" for name, part in (("train", splits.train), ("val", splits.val), ("test", splits.test))
    )
    levels = splits.protocol.resolutions
    return (
        f"{info['model']}, trained on {len(splits.classes)} classes ({counts}). One pass over an image gives the "
        f"answers for all its downscaled versions too, at {', '.join(map(str, levels))} pixels."
    )


def _figures(metrics: Mapping[str, Any]) -> str:
    rows = [
        ("accuracy", _shown(metrics["accuracy"], error=metrics["accuracy_standard_error"]), "of all test images"),
        ("balanced accuracy", _shown(metrics["balanced_accuracy"]), "mean of the accuracies of the classes"),
        (
            "Scale-Con",
            _shown(metrics["scale_con"], error=metrics["scale_con_standard_error"]),
            "how often an image's loss is no larger than that of its downscaled versions",
        ),
        (
            "Equi-Err",
            _shown(metrics["equi_err"], ".1e"),
            "features of the downscaled image against downscaled features; near 1e-13 is rounding",
        ),
        (
            "calibration error",
            f"{_shown(metrics['ece'])} ({_shown(metrics['ece_after_temperature'])})",
            f"in brackets after dividing logits by {_shown(metrics['temperature'], '.2f')}",
        ),
    ]
    return "\n".join(
        f'<tr><th scope="row">{name}<small>{what}</small></th><td>{value}</td></tr>' for name, value, what in rows
    )


def _shown(value: float | None, spec: str = ".4f", error: float | None = None) -> str:
    if value is None:
        return "-"
    return format(value, spec) + (f" ± {error:.4f}" if error is not None else "")


def _chart(table: Mapping[str, float | None], x_label: str, y_label: str) -> str:
    return line_chart([Series("ours", {float(key): value for key, value in table.items()})], x_label, y_label)


def _level_chart(metrics: Mapping[str, Any], protocol: Protocol) -> str:
    levels = {str(_pixels(int(level), protocol)): value for level, value in metrics["accuracy_per_level"].items()}
    return _chart(levels, "level in pixels", "accuracy at every level")


def _classes(metrics: Mapping[str, Any], splits: ScaledSplits) -> str:
    counts = [part.labels.bincount(minlength=len(splits.classes)).tolist() for part in splits]
    lines = []
    for label, name in enumerate(splits.classes):
        share = metrics["accuracy_per_class"][name]
        bar = f'<i class="bar" style="width:{100 * (share or 0):.0f}%"></i>'
        cells = "".join(f"<td>{count[label]:,}</td>" for count in counts)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}<td>{_shown(share)}</td><td>{bar}</td></tr>')
    return "\n".join(lines)


def _confusion(metrics: Mapping[str, Any], classes: Sequence[str]) -> str:
    """Rows are true classes, columns predicted ones; shaded by the share of the row."""
    if "confusion" not in metrics:
        return "<p>There are too many classes to draw who is taken for whom.</p>"
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in classes)
    lines = []
    for label, (name, row) in enumerate(zip(classes, metrics["confusion"], strict=True)):
        total = max(sum(row), 1)
        cells = "".join(
            f'<td class="{"hit" if column == label else "miss"}" style="--share:{count / total:.3f}">{count or ""}</td>'
            for column, count in enumerate(row)
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return f'<table class="confusion"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _examples(examples: Sequence[Example], classes: Sequence[str]) -> str:
    cards = []
    for example in examples:
        lines = []
        for level, row in zip(example.levels, example.probabilities, strict=True):
            top = int(row.argmax())
            kind = "hit" if top == example.label else "miss"
            bar = f'<i class="bar {kind}" style="width:{100 * float(row[top]):.0f}%"></i>'
            said = f"<b>{escape(classes[top])}</b> {float(row[top]):.2f}"
            lines.append(f'<tr><th scope="row">{level} px</th><td>{bar}</td><td class="{kind}">{said}</td></tr>')
        told = f"{escape(classes[example.label])}"
        if example.predicted != example.label:
            told += f", taken for {escape(classes[example.predicted])}"
        caption = f"<figcaption><b>{told}</b><br>{escape(example.name)}</figcaption>"
        picture = f'<img alt="{escape(classes[example.label])}" src="{_picture(example.image)}">'
        cards.append(
            f'<figure class="card example"><div>{picture}<table>{"".join(lines)}</table></div>{caption}</figure>'
        )
    return "\n".join(cards)


def _picture(image: Tensor) -> str:
    """An image ``(C, m, m)`` from 0 to 1 as a PNG in the text of a ``data:`` address."""
    from PIL import Image

    pixels = (image * 255).round().to(torch.uint8).movedim(0, -1).cpu().numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _history(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> str:
    series = [
        Series(key, {float(row["epoch"]) + 1: float(row[name]) if row.get(name) else None for row in rows})
        for key, name in zip(("cnn", "ours"), names, strict=True)
    ]
    return line_chart(series, "epoch", " and ".join(names), whole=True)


def _footer(root: Path, info: Mapping[str, Any], splits: ScaledSplits) -> str:
    metrics, config = info["metrics"], info["config"]
    facts = {
        "again": f"fourierscale train --config {root / 'config.toml'} --out ANOTHER-FOLDER",
        "data": f"{splits.source}; {splits.note}",
        "model": f"{info['model']}, {', '.join(f'{name}={value}' for name, value in info['overrides'].items())}",
        "training": f"{metrics['epochs']} epochs of batches of {config['data']['batch_size']}, {metrics['steps']:,} "
        f"steps, {config['optim']['name']} at {config['optim']['lr']:g}, augmentation {config['data']['augment']}, "
        f"seed {config['train']['seed']}, {metrics['train_seconds']:.0f} s",
        "device": f"{metrics['device']}, {platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {number}" for name, number in info["versions"].items()),
        "Equi-Err": f"over {metrics['equi_err_pairs']:,} pairs of image and resolution, really downscaled; the largest "
        f"is {_shown(metrics['equi_err_max'], '.1e')}",
        "splits": ", ".join(f"{name} {digest[:12]}" for name, digest in splits.hashes.items()),
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
    return "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
