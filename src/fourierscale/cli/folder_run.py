"""What ``fourierscale train`` does for a folder of images beside training: settings before, a report and ONNX after."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from fourierscale.data import ProgressCallback, ScaledSplits, Survey
    from fourierscale.data.mask_folder import MaskSurvey
    from fourierscale.training import Config
    from fourierscale.training.choices import Choice

__all__ = ["choices_table", "choose_settings", "finish", "refuse_preset", "survey_of"]


def refuse_preset(images: str) -> None:
    """A word that is no folder but names a preset was meant as one."""
    from fourierscale.training import list_presets
    from fourierscale.training.errors import ConfigError

    if images in list_presets() and not Path(images).exists():
        raise ConfigError(f"{images} is no folder of images but a preset: fourierscale train --config {images}")


def survey_of(config: Config, report: ProgressCallback | None) -> Survey | MaskSurvey | None:
    """A look at the folder of a config: class folders, or images and masks; arrays need none."""
    from fourierscale.data import survey_folder
    from fourierscale.data.mask_folder import survey_masks

    if config.data.task == "field":
        return None
    look = survey_folder if config.data.task == "classification" else survey_masks
    return look(config.data.protocol, report)


def choose_settings(config: Config, found: Survey | MaskSurvey, given: Collection[str], show: bool) -> Config:
    """Choose what the user has not set, and print a table of it.

    Args:
        config: What is known so far.
        found: The images.
        given: Fields that the user has set.
        show: Whether to print.
    """
    import torch

    from fourierscale.data import Survey
    from fourierscale.training.choices import choose
    from fourierscale.training.map_choices import choose_for_masks

    gpu = torch.cuda.is_available() and config.train.accelerator in ("auto", "gpu", "cuda")
    if not isinstance(found, Survey):
        if not found.told_bad() or (config.data.skip_bad and len(found.bad) < len(found.pairs)):
            config, choices = choose_for_masks(config, found, given)
            if show:
                Console(highlight=False).print(choices_table(choices))
        return config
    if len(found.bad) == len(found.folder) or (found.bad and not config.data.skip_bad):
        return config  # loading the images finds what else is wrong with them, and says all of it
    config, choices = choose(config, found, given, gpu)
    if show:
        console = Console(highlight=False)
        console.print(choices_table(choices))
        for note in found.folder.notes:
            console.print(f"note: {note}", markup=False, soft_wrap=True)
    return config


def choices_table(choices: Sequence[Choice]) -> Table:
    """What was chosen, why, and how to choose otherwise."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column, style in (("setting", ""), ("value", "bold"), ("because", "dim")):
        table.add_column(column, style=style, no_wrap=column == "setting", overflow="fold")
    for choice in choices:
        table.add_row(choice.name, escape(choice.value), escape(choice.why))
    table.caption = "change a setting with --set NAME=VALUE"
    table.caption_justify = "left"
    return table


def finish(run: Path, splits: ScaledSplits, onnx: bool = True) -> None:
    """Write the report and, if asked to, the ONNX file of a finished run, and say what can be done with it."""
    from fourierscale.training.map_report import write_map_report
    from fourierscale.training.report import write_run_report

    console = Console(highlight=False)
    task = splits.protocol.task
    page = write_run_report(run, splits) if task == "classification" else write_map_report(run, splits)
    console.print(f"wrote [bold]{escape(str(page))}[/bold]: open it in a browser", soft_wrap=True)
    if onnx:
        with console.status("writing model.onnx, which takes a minute"):
            line = _export(run)
        console.print(line, markup=False, soft_wrap=True)
    name, where = shlex.quote(splits.protocol.name), shlex.quote(str(run))
    console.print("next:", style="bold")
    commands = {
        "classification": (
            f"predict {where} IMAGE.jpg",
            f"audit {where} --data {name}",
            f"explore --model {where} --beside none",
        ),
        "segmentation": (f"predict {where} IMAGE.jpg --out masks", f"evaluate {where}"),
        "field": (f"predict {where} FIELDS.npz --out answers", f"evaluate {where}"),
    }
    for command in commands[task]:
        console.print(f"  fourierscale {command}", markup=False, soft_wrap=True)


def _export(run: Path) -> str:
    """Write ``model.onnx``; a line on it, or on what it lacks: a trained model is no less for it."""
    from fourierscale.export import ExportError, export_onnx
    from fourierscale.models import MapModel, load_model, read_info

    model, path = load_model(run), run / "model.onnx"
    sizes = model.preprocessing.sizes if model.preprocessing is not None else None
    if sizes and isinstance(model, MapModel):
        sizes = sizes[-1:]  # a map has the size of its image: one file for each
    try:
        done = export_onnx(model, path, sizes, name=read_info(run)["model"], raw=True, batches=())
    except (ImportError, ExportError) as error:
        return f"no model.onnx: {' '.join(str(error).split())}"
    worst = max(check.difference for check in done.checks)
    taken = ", ".join(map(str, done.resolutions))
    return f"wrote {path}: takes squares of {taken} pixels from 0 to 1; within {worst:.0e} of PyTorch"
