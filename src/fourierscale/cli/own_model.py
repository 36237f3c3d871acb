"""A net of the user's own, by the name of the function that builds it."""

from __future__ import annotations

__all__ = ["make_known"]


def make_known(name: str, task: str | None) -> None:
    """Let ``package.module:function`` be a model that is trained or loaded; only what the user names here is imported.

    Args:
        name: The function's name.
        task: What it is for.
    """
    from fourierscale.auditing import AuditError
    from fourierscale.cli.found import named_function
    from fourierscale.models import register_factory
    from fourierscale.training.errors import ConfigError

    if task not in ("segmentation", "field"):
        raise ConfigError(f"--model {name} is a net of yours for masks or fields: give --task segmentation or field")
    try:
        function = named_function(name)
    except AuditError as error:
        raise ConfigError(str(error)) from None
    register_factory(name, function, task)
