"""A picture of what :func:`~fourierscale.training.evaluation.evaluate` measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierscale.models.files import replacing

if TYPE_CHECKING:
    from fourierscale.predicting.anytime import Anytime

__all__ = ["draw_anytime", "draw_metrics", "level_values"]

SMALL: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}


OF_MAPS = {
    "segmentation": (("mean IoU", "iou_per_resolution"), ("boundary score", "boundary_per_resolution")),
    "field": (
        ("relative L2 error", "error_per_resolution"),
        ("the same of strided data", "strided_error_per_resolution"),
    ),
}
"""What is drawn of maps."""


def draw_metrics(metrics: Mapping[str, Any], path: Path, title: str = "") -> None:
    """Draw accuracy and loss over resolution, and the loss of every level, into a PNG; of maps, what their task has."""
    from matplotlib.figure import Figure

    task = metrics.get("task", "classification")
    if task != "classification":
        figure = Figure(figsize=(5, 3.6), layout="constrained")
        axes = figure.subplots()
        for place, (label, key) in enumerate(OF_MAPS[task]):
            points = _points(metrics[key])
            if points[0]:
                axes.plot(*points, marker="os"[place], markersize=4, label=label, color=("#1f5fa8", "#b5482a")[place])
        axes.set(xlabel="resolution", title=title)
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        with replacing(path) as partial:
            figure.savefig(partial, dpi=150)
        return
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    accuracy, loss = _points(metrics["accuracy_per_resolution"]), _points(metrics["loss_per_resolution"])
    left.plot(*accuracy, marker="o", markersize=4, color="#1f5fa8")
    left.axhline(metrics["accuracy"], linestyle="--", linewidth=1, color="#888888")
    left.annotate(f"mean {metrics['accuracy']:.4f}", (accuracy[0][0], metrics["accuracy"]), fontsize=8, va="bottom")
    left.set(xlabel="resolution of the image", ylabel="accuracy")
    right.plot(*loss, marker="o", markersize=4, color="#b5482a", label="prediction, by resolution")
    levels = _points(level_values(metrics, "loss_per_level"))
    if len(levels[0]) > 1:
        right.plot(*levels, marker="s", markersize=3, color="#3a8f5c", label="every level, all images that have it")
        right.legend(frameon=False, fontsize=8)
    right.set(xlabel="resolution", ylabel="cross entropy", yscale="log")
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    if title:
        figure.suptitle(title, fontsize=10)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)


def draw_anytime(measured: Anytime, path: Path, title: str = "") -> None:
    """Draw accuracy against time, each threshold a point, into a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    times = [1e3 * point.seconds for point in measured.points]
    axes.plot(times, [point.accuracy for point in measured.points], "o", markersize=4, color="#1f5fa8")
    full, best = measured.full, measured.best
    axes.plot([1e3 * full.seconds], [full.accuracy], marker="s", markersize=6, color="#888888")
    axes.annotate("whole pass", (1e3 * full.seconds, full.accuracy), (-6, 7), ha="right", **SMALL)
    if best.sure is not None:
        axes.plot([1e3 * best.seconds], [best.accuracy], "o", markersize=9, fillstyle="none", color="#b5482a")
        axes.annotate(f"sure {best.sure:g}, chosen", (1e3 * best.seconds, best.accuracy), (9, -3), **SMALL)
    axes.set(xlabel="milliseconds for an image", ylabel="accuracy")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if title:
        figure.suptitle(title, fontsize=10)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)


def level_values(metrics: Mapping[str, Any], name: str) -> dict[str, float | None]:
    """Values of every level by the highest resolution that it answers for."""
    names = metrics["level_names"]
    return {names[band].split(", ")[-1]: value for band, value in metrics[name].items()}


def _points(table: Mapping[str, float | None]) -> tuple[list[int], list[float]]:
    pairs = [(int(key), value) for key, value in table.items() if value is not None]
    return [key for key, _ in pairs], [value for _, value in pairs]
