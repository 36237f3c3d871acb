"""``fourierscale models``."""

from __future__ import annotations

import typer

__all__ = ["models"]


def models() -> None:
    """List the models: parameters, how images reach them, what they are, whom to cite."""
    from rich.console import Console
    from rich.table import Table

    from fourierscale.models import create_model, list_models, model_info

    table = Table("name", "parameters", "input", "description", "citation")
    for name in list_models():
        info = model_info(name)
        count = sum(parameter.numel() for parameter in create_model(name).parameters())
        size = f" to {info.fit_size}" if info.fit_size else ""
        taken = "any size" if info.fit is None else f"{info.fit}{size}"
        table.add_row(name, f"{count:,}", taken, info.description, info.citation)
    Console().print(table)
    typer.echo("'fourierscale train --model NAME' trains one; --set model.overrides.OPTION=VALUE changes it.")
