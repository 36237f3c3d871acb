"""``fourierscale models``."""

from __future__ import annotations

import typer

__all__ = ["models"]


def models() -> None:
    """List the models: parameters, work of a forward pass, how images reach them, whom to cite."""
    from fourierscale.models import list_models, model_cost, model_info

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


def short(number: int) -> str:
    """A large number in three digits.

    >>> short(70_121_602), short(1_653_943_296), short(999_600)
    ('70.1 M', '1.65 G', '1.00 M')
    """
    unit = next(unit for unit in (1e3, 1e6, 1e9, 1e12) if number < 999.5 * unit)
    value = number / unit
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {({1e3: 'k', 1e6: 'M', 1e9: 'G', 1e12: 'T'})[unit]}"
