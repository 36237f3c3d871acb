"""``fourierscale models``."""

from __future__ import annotations

import typer

__all__ = ["models"]


def models() -> None:
    """List the models: parameters, work of a forward pass, how images reach them, whom to cite."""
    from fourierscale.models import list_models, model_cost, model_info
    from fourierscale.models.cost import short

    names = list_models()
    width = max(map(len, names))
    typer.echo(f"{'name':{width}}  {'parameters':>10}  {'FLOPs':>6}  {'fixed':>6}  input")
    cited: dict[str, list[str]] = {}
    for name in names:  # line by line: counting takes a moment for each
        info, cost = model_info(name), model_cost(name)
        taken = "any size" if info.enlarge is None else f"{info.enlarge} to {info.enlarge_size}"
        fixed = short(cost.fixed_flops) if cost.fixed_flops else ""
        typer.echo(f"{name:{width}}  {cost.parameters:>10,}  {short(cost.flops):>6}  {fixed:>6}  {taken}")
        cited.setdefault(info.citation, []).append(name)
    typer.echo(
        "\nFLOPs of a forward pass: for each image, at the largest size, and fixed for a batch.\n\nWhom to cite:"
    )
    for citation, users in cited.items():
        typer.echo(f"- {citation}\n  {', '.join(users)}")
    typer.echo("\n'fourierscale train --model NAME' trains one; --set model.overrides.OPTION=VALUE changes it.")
