"""Results as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fourierscale.data.protocols import folder_path
from fourierscale.lab.tables.paper import paper_rows

if TYPE_CHECKING:
    from fourierscale.predicting.anytime import Anytime

__all__ = ["anytime_table", "metrics_table"]


def metrics_table(metrics: Mapping[str, Any], name: str) -> None:
    """Print what was measured, beside the paper's rows if it has some for the protocol."""
    console = Console(highlight=False)
    protocol = str(metrics["protocol"])
    if metrics.get("task", "classification") != "classification":
        _show_maps(console, metrics, name)
        return
    table = Table(title=escape(protocol), box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("model", "accuracy", "Scale-Con", "Equi-Err", "ECE"):
        table.add_column(column, no_wrap=True)
    for row in paper_rows(protocol):
        figures = _show(row.accuracy), _show(row.scale_con), _show(row.equi_err, ".2f"), ""
        table.add_row(f"{row.model} (paper)", *figures)
    table.add_row(
        name,
        f"{metrics['accuracy']:.4f}±{metrics['accuracy_standard_error']:.4f}",
        f"{_show(metrics['scale_con'])}±{_show(metrics['scale_con_standard_error'])}",
        _show(metrics["equi_err"], ".1e"),
        f"{metrics['ece']:.4f} ({metrics['ece_after_temperature']:.4f})",
        style="bold",
    )
    table.caption = "± standard error; in brackets after one temperature, fitted on validation images"
    console.print(table)
    console.print(_resolutions(metrics, console.width))
    if folder_path(protocol) is not None:
        console.print(_classes(metrics), markup=False)
    left_out = metrics["scale_con_left_out"]
    how = "every resolution really downscaled"
    if metrics["levels_from_one_pass"]:
        how = "from the levels of one pass where the model has one, as checked on really downscaled images"
    console.print(
        f"{metrics['images']:,} images; Scale-Con over {metrics['scale_con_images']:,} of them "
        f"({left_out:,} have the lowest resolution), {how}; Equi-Err over {metrics['equi_err_pairs']:,} pairs of image "
        f"and resolution; {metrics['seconds']:.0f} s on {metrics['device']}",
        soft_wrap=True,
    )


def anytime_table(measured: Anytime, about: str) -> None:
    """Print what each threshold costs and saves, and the one that validation images chose."""
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("sure", "accuracy", "ms", "of whole"):
        table.add_column(column, justify="right")
    table.add_column("images that leave", overflow="fold")
    for row in measured.rows():
        figures = str(row["accuracy"]), f"{row['ms']:.2f}", f"{row['of_whole']:.3f}"
        style = "bold" if "chosen" in str(row["sure"]) else None
        table.add_row(str(row["sure"]), *figures, str(row["left"]), style=style)
    console.print(table)
    if measured.chosen is None:
        console.print("no threshold keeps the accuracy on validation images: coarse answers do not pay here")
    else:
        console.print(f"validation images chose {measured.chosen:g}: predict --sure {measured.chosen:g}", markup=False)
    console.print(f"{about}; time from pixels to answers, for an image", markup=False, soft_wrap=True)


MAP_COLUMNS = {
    "segmentation": (
        ("mean IoU", "iou_per_resolution"),
        ("boundary", "boundary_per_resolution"),
        ("agreement", "agreement_per_resolution"),
        ("pixels right", "pixels_per_resolution"),
    ),
    "field": (("relative L2", "error_per_resolution"), ("of strided data", "strided_error_per_resolution")),
}


def _show_maps(console: Console, metrics: Mapping[str, Any], name: str) -> None:
    """Maps at every resolution."""
    columns = MAP_COLUMNS[metrics["task"]]
    table = Table(title=escape(f"{name} on {metrics['protocol']}"), box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("resolution", *(title for title, _ in columns)):
        table.add_column(column, no_wrap=True, justify="right")
    for resolution in metrics[columns[0][1]]:
        table.add_row(resolution, *(_show(metrics[key].get(resolution)) for _, key in columns))
    console.print(table)
    for label, values in metrics.get("iou_per_class", {}).items():
        console.print(f"IoU of {label}: {', '.join(f'{_show(v)} at {r}' for r, v in values.items())}", markup=False)
    console.print(
        f"{metrics['images']:,} test pairs, each really downscaled to every resolution that it has; Equi-Err "
        f"{_show(metrics['equi_err'], '.1e')} over {metrics['equi_err_pairs']:,} pairs of image and resolution; "
        f"{metrics['seconds']:.0f} s on {metrics['device']}",
        soft_wrap=True,
    )


def _resolutions(metrics: Mapping[str, Any], width: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for column in ("resolution", "accuracy", "loss", ""):
        table.add_column(column, justify="left" if not column else "right")
    losses = metrics["loss_per_resolution"]
    for resolution, accuracy in metrics["accuracy_per_resolution"].items():
        if accuracy is not None:
            bar = "█" * round(accuracy * max(10, min(40, width - 40)))
            table.add_row(resolution, f"{accuracy:.4f}", f"{losses[resolution]:.4f}", bar)
    return table


def _classes(metrics: Mapping[str, Any]) -> str:
    """The mean over classes, and the classes that are known least."""
    shares = [(share, name) for name, share in metrics["accuracy_per_class"].items() if share is not None]
    least = ", ".join(f"{name} {share:.4f}" for share, name in sorted(shares)[:3])
    return f"balanced accuracy {_show(metrics['balanced_accuracy'])}; least accurate classes: {least}"


def _show(value: float | None, spec: str = ".4f") -> str:
    return "-" if value is None else format(value, spec)
