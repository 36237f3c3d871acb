"""``fourierscale models``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import typer

if TYPE_CHECKING:
    from fourierscale.models import ModelInfo

__all__ = ["models"]


def models() -> None:
    """List the models: parameters, work of a forward pass, how images reach them, whom to cite."""
    from fourierscale.models import (
        list_models,
        list_pretrained,
        load_pretrained,
        model_cost,
        model_info,
        pretrained_info,
    )
    from fourierscale.models.cost import short

    names = list_models()
    rows = [(name, options) for name in names for options in _variants(model_info(name))]
    width = max(len(_called(*row)) for row in rows)
    typer.echo(f"{'name':{width}}  {'parameters':>10}  {'FLOPs':>6}  {'fixed':>6}  input")
    cited: dict[str, list[str]] = {}
    for name, options in rows:  # line by line: counting takes a moment for each
        info, cost = model_info(name), model_cost(name, **options)
        taken = "any size" if info.enlarge is None else f"{info.enlarge} to {info.enlarge_size}"
        fixed = short(cost.fixed_flops) if cost.fixed_flops else ""
        typer.echo(
            f"{_called(name, options):{width}}  {cost.parameters:>10,}  {short(cost.flops):>6}  {fixed:>6}  {taken}"
        )
        users = cited.setdefault(info.citation, [])
        if name not in users:
            users.append(name)
    typer.echo(
        "\nFLOPs of a forward pass: for each image, at the largest size, and fixed for a batch.\n\nWhom to cite:"
    )
    for citation, users in cited.items():
        listed = textwrap.fill(
            ", ".join(users), 98, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        typer.echo(f"- {citation}\n  {listed}")
    width = max(map(len, ("weights that ship", *list_pretrained())))
    typer.echo(f"\n{'weights that ship':{width}}  {'parameters':>10}  {'accuracy':>8}  Scale-Con  tested on")
    for name in list_pretrained():
        told = pretrained_info(name)
        metrics, count = told["metrics"], sum(part.numel() for part in load_pretrained(name).parameters())
        figures = f"{count:>10,}  {metrics['accuracy']:>8.4f}  {metrics['scale_con']:>9.4f}"
        typer.echo(f"{name:{width}}  {figures}  {metrics['images']:,} of {metrics['protocol']}")
    typer.echo("\n'fourierscale predict WEIGHTS IMAGE' classifies with them; they may be wider than that model.")
    typer.echo("'fourierscale train --model NAME' trains one; --set model.overrides.OPTION=VALUE changes it.")


def _variants(info: ModelInfo) -> list[dict[str, Any]]:
    """What is listed of a model: its preset, and all that can be made of a plain net."""
    from fourierscale.models.resnet import Made

    return [{}] if "made" not in info.options else [{"made": made} for made in get_args(Made)]


def _called(name: str, options: Mapping[str, Any]) -> str:
    return " ".join([name, *(f"{option}={value}" for option, value in options.items())])
