"""The page ``report.html`` of a run whose answer is a map: figures, and images with their maps at every resolution."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierscale.data import ScaledSplits
from fourierscale.data.paired import PairedDataset, classes_of
from fourierscale.functional import downscale
from fourierscale.models import load_model, read_info
from fourierscale.models.files import write_whole
from fourierscale.models.maps import MapModel, as_map_model
from fourierscale.pages.charts import Series, line_chart
from fourierscale.pages.elements import card, facts, png, row, section, skeleton, table, two
from fourierscale.training.callbacks import read_log

__all__ = ["class_colours", "write_map_report"]

SHOWN = 6
SIZES = 4  # resolutions at which examples are drawn
MIDDLE = torch.tensor([1.0, 0.55, 0.0])  # where two maps differ


def write_map_report(run: str | os.PathLike[str], splits: ScaledSplits) -> Path:
    """Write ``report.html`` into a run's folder, from what the run has written there and from its test pairs.

    Args:
        run: The folder.
        splits: What it was trained and tested on.
    """
    root = Path(run)
    info = read_info(root)
    metrics, masks = info["metrics"], splits.protocol.task == "segmentation"
    model = as_map_model(load_model(root))
    examples = _mask_examples(model, splits) if masks else _field_examples(model, splits)
    exact = "the net is inside one nested map, so they are equal by construction" if model.exact else "the net is bare"
    text = skeleton(
        Path(info["data"]["protocol"]).name,
        f'<p class="lead">{escape(_lead(info, splits, model))}</p>',
        section(
            "Results",
            f"<p>{metrics['images']:,} test pairs that training has not seen, each really downscaled to every "
            "resolution that it has.</p>",
            table(("resolution", *_titles(masks)), _figures(metrics, masks)),
        ),
        section("Classes", table(("class", *metrics["iou_per_resolution"]), _classes(metrics))) if masks else "",
        section(
            "Over resolution",
            f"<p>Equi-Err, the relative squared difference between the map of the downscaled image and the downscaled "
            f"map, is {metrics['equi_err'] or 0:.1e}: {exact}.</p>",
            two(*_charts(metrics, masks)),
        ),
        section("Examples", f"<p>{MASK_TEXT if masks else FIELD_TEXT}</p>", *examples),
        section("Training", _history(read_log(root / "log.csv"), masks)),
        section("How this was made", facts(_made(root, info, splits))),
    )
    path = root / "report.html"
    write_whole(path, text)
    return path


MASK_TEXT = (
    "Each row is one image: the image, its true mask, and the mask at each resolution, of the image really downscaled "
    "to it. Below each, in orange, the pixels whose class differs from that of the large image's map, downscaled."
)
FIELD_TEXT = (
    "Each row is one field: what was given, the true answer, and the model's answer at each resolution. Below each, in "
    "orange, where it differs from the downscaled answer on the finest grid; full colour is a tenth of the field."
)


def _lead(info: Mapping[str, Any], splits: ScaledSplits, model: MapModel) -> str:
    counts = ", ".join(f"{len(part):,} {name}" for name, part in zip(("train", "val", "test"), splits, strict=True))
    levels = ", ".join(map(str, model.resolutions))
    how = f"inside one nested map, exact at {levels}" if model.exact else f"bare, trained at {levels}"
    what = f"{len(splits.classes)} classes" if splits.protocol.task == "segmentation" else "fields"
    return f"{info['model']}, {how}, on {what} ({counts})."


def _titles(masks: bool) -> tuple[str, ...]:
    return ("mean IoU", "boundary", "agreement", "pixels right") if masks else ("relative L2", "of strided data")


def _figures(metrics: Mapping[str, Any], masks: bool) -> Iterator[str]:
    keys = (
        ("iou_per_resolution", "boundary_per_resolution", "agreement_per_resolution", "pixels_per_resolution")
        if masks
        else ("error_per_resolution", "strided_error_per_resolution")
    )
    for r in metrics[keys[0]]:
        yield row(r, *(_shown(metrics[key].get(r)) for key in keys))


def _classes(metrics: Mapping[str, Any]) -> Iterator[str]:
    for name, values in metrics["iou_per_class"].items():
        yield row(name, *(_shown(value) for value in values.values()))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _charts(metrics: Mapping[str, Any], masks: bool) -> list[str]:
    def chart(key: str, label: str) -> str:
        points = {float(r): value for r, value in metrics[key].items()}
        return card(label, line_chart([Series("ours", points)], "samples", label)) if points else ""

    if masks:
        return [chart("iou_per_resolution", "mean IoU"), chart("agreement_per_resolution", "agreement")]
    return [
        chart("error_per_resolution", "relative L2 error"),
        chart("strided_error_per_resolution", "error, strided data"),
    ]


def _history(log: Sequence[Mapping[str, str]], masks: bool) -> str:
    def series(key: str, column: str, name: str) -> Series:
        return Series(
            key, {float(line["epoch"]) + 1: float(line[column]) if line.get(column) else None for line in log}, name
        )

    losses = [series("cnn", "loss", "training"), series("ours", "val_loss", "validation")]
    score, name = ("val_iou", "mean IoU") if masks else ("val_error", "relative L2 error")
    return two(
        card("loss", line_chart(losses, "epoch", "loss", whole=True)),
        card("on validation pairs", line_chart([series("ours", score, name)], "epoch", name, whole=True)),
    )


def class_colours(count: int) -> Tensor:
    """A colour for each class, ``(count, 3)`` from 0 to 1, the first one dark; pixels of no class are grey.

    >>> class_colours(3).shape
    torch.Size([3, 3])
    """
    hue = torch.arange(count) * 0.618034 % 1
    angles = 2 * torch.pi * (hue[:, None] - torch.tensor([0.0, 1 / 3, 2 / 3]))
    colours = (0.55 + 0.4 * angles.cos()).clamp(0, 1)
    colours[0] = torch.tensor([0.1, 0.12, 0.16])
    return colours


def painted(mask: Tensor, count: int) -> Tensor:
    """A mask ``(h, w)`` as a picture ``(3, h, w)``."""
    colours = torch.cat([class_colours(count), torch.full((1, 3), 0.6)])
    return colours[mask].permute(2, 0, 1)  # -1 is the last


def _chosen(splits: ScaledSplits) -> tuple[PairedDataset, list[int]]:
    """Test pairs spread over those of the highest resolution."""
    dataset = splits.test
    assert isinstance(dataset, PairedDataset)
    largest = [n for n, r in enumerate(dataset.item_resolutions) if r == dataset.item_resolutions.max()]
    step = max(1, len(largest) // SHOWN)
    return dataset, largest[::step][:SHOWN]


def _sizes(splits: ScaledSplits) -> list[int]:
    """At most four resolutions, the lowest and the highest among them."""
    resolutions = [*splits.protocol.resolutions]
    if len(resolutions) < SIZES:
        resolutions.append(splits.protocol.resolutions[0] * 3 // 4)
    kept = sorted(resolutions)[::-1]
    return sorted(kept if len(kept) <= SIZES else [*kept[: SIZES - 1], kept[-1]])


@torch.inference_mode()
def _mask_examples(model: MapModel, splits: ScaledSplits) -> Iterator[str]:
    dataset, chosen = _chosen(splits)
    count, names = len(splits.classes), splits.names.get("test", ())
    colours = zip(splits.classes, class_colours(count), strict=True)
    key = "".join(
        f'<span style="white-space:nowrap"><span style="display:inline-block;width:1em;height:1em;background:rgb('
        f'{",".join(str(round(255 * float(c))) for c in colour)})"></span> {escape(name)}&ensp;</span>'
        for name, colour in list(colours)[:30]
    )
    yield f"<p>{key}</p>"
    for item in chosen:
        batch = dataset.__getitems__([item])
        own = model(batch.images)
        cells = [_picture("image", dataset.denormalize(batch.images)[0].clamp(0, 1))]
        cells.append(_picture("true mask", painted(classes_of(batch.labels)[0], count)))
        for r in (r for r in _sizes(splits) if r <= batch.resolution):
            maps = model(downscale(batch.images, r, boundary=model.boundary)) if r < batch.resolution else own
            shrunk = downscale(own, maps.shape[-1], boundary=model.boundary)
            found, wanted = maps.argmax(1)[0], shrunk.argmax(1)[0]
            differs = (found != wanted).float()
            cells.append(_picture(f"{r} px", painted(found, count), differs * MIDDLE[:, None, None]))
        name = names[item] if names else f"test image {item}"
        yield _row(cells, name)


@torch.inference_mode()
def _field_examples(model: MapModel, splits: ScaledSplits) -> Iterator[str]:
    dataset, chosen = _chosen(splits)
    for item in chosen:
        batch = dataset.__getitems__([item])
        own = model(batch.images)[:, :1]
        target = batch.labels[:, :1]
        low, high = float(target.min()), float(target.max())
        cells = [_picture("given", _grey(batch.images[0, 0])), _picture("true", _grey(target[0, 0], low, high))]
        for r in (r for r in _sizes(splits) if r <= batch.resolution):
            maps = model(downscale(batch.images, r))[:, :1] if r < batch.resolution else own
            shrunk = downscale(own, r) if r < batch.resolution else own
            differs = ((maps - shrunk).abs()[0, 0] / (0.1 * max(high - low, 1e-12))).clamp(0, 1)
            cells.append(_picture(f"{r}", _grey(maps[0, 0], low, high), differs * MIDDLE[:, None, None]))
        error = float((own - target).norm() / target.norm())
        yield _row(cells, f"test field {item}, relative error {error:.4f} on its own grid")


def _grey(field: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    low, high = float(field.min()) if low is None else low, float(field.max()) if high is None else high
    return ((field - low) / max(high - low, 1e-12)).clamp(0, 1).expand(3, -1, -1)


def _row(cells: Sequence[str], caption: str) -> str:
    strip = f'<div class="strip">{"".join(cells)}</div>'
    return f'<figure class="card">{strip}<figcaption>{escape(caption)}</figcaption></figure>'


def _picture(label: str, image: Tensor, below: Tensor | None = None) -> str:
    pictures = [image, *([] if below is None else [below])]
    images = "".join(f'<img alt="{escape(label)}" src="{png(one, 0.0, 1.0)}">' for one in pictures)
    return f"<figure>{images}<figcaption>{escape(label)}</figcaption></figure>"


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
        "splits": ", ".join(f"{name} {digest[:12]}" for name, digest in splits.hashes.items()),
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
