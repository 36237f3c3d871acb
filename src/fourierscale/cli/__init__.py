"""The command ``fourierscale``, a file for each of its commands.

A user's mistake gives one line on standard error and exit status 2, never a traceback, unless ``--debug`` asks for it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments: What follows the program's name; those of the process if not given.
    """
    try:
        import rich  # noqa: F401
        import typer
    except ImportError as error:
        print(f"fourierscale: {error.name} is missing: pip install 'fourierscale[predict]'", file=sys.stderr)
        return 2

    from fourierscale import __version__
    from fourierscale.auditing.errors import AuditError
    from fourierscale.cli.audit import audit
    from fourierscale.cli.bench import bench
    from fourierscale.cli.data import app as data_app
    from fourierscale.cli.demo import demo
    from fourierscale.cli.evaluate import evaluate
    from fourierscale.cli.explore import explore
    from fourierscale.cli.export import export
    from fourierscale.cli.models import models
    from fourierscale.cli.predict import predict
    from fourierscale.cli.reproduce import app as reproduce_app
    from fourierscale.cli.train import train
    from fourierscale.data.errors import DataError
    from fourierscale.export.errors import ExportError
    from fourierscale.models import WeightsError

    if list(sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        print(f"fourierscale {__version__}")
        return 0
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        help="Truly scale-equivariant deep nets. 'fourierscale --version' tells the version.",
    )
    debug = False

    @app.callback()
    def root(tell: bool = typer.Option(False, "--debug", help="Show where in the code an error was raised.")) -> None:
        nonlocal debug
        debug = tell

    app.add_typer(data_app, name="data")
    app.add_typer(reproduce_app, name="reproduce")
    for command in (demo, train, evaluate, audit, predict, export, models, bench, explore):
        app.command(command.__name__)(command)
    # the ancestors of BadParameter belong to the click that typer itself uses, whether bundled or installed
    usage_error = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
    try:
        status = typer.main.get_command(app).main(
            args=None if arguments is None else list(arguments), prog_name="fourierscale", standalone_mode=False
        )
    except typer.Exit as done:
        return _mistake("interrupted", 130) if done.exit_code == 130 else done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _mistake("interrupted", 130)
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        training = sys.modules.get("fourierscale.training.errors")  # imported by the commands that train, not before
        mistakes = (
            usage_error,
            AuditError,
            DataError,
            ExportError,
            WeightsError,
            OSError,
            *(() if training is None else (training.TrainingError,)),
        )
        if isinstance(error, ModuleNotFoundError):
            return _mistake(f"{error.name} is missing: pip install 'fourierscale[train]'")
        if not isinstance(error, (*mistakes, ImportError)):
            package = _imported(error)
            if package is None:
                raise
            return _mistake(
                f"{package} cannot be imported ({error}): install the release that suits those beside it, or remove it"
            )
        formatted = getattr(error, "format_message", None)  # of a usage error: names the option too
        return _mistake(str(error) if formatted is None else formatted(), getattr(error, "status", 2))
    return status if isinstance(status, int) else 0


def _imported(error: Exception) -> str | None:
    """The package of others that was being imported when the error was raised; None if it was raised elsewhere."""
    package = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "<module>":
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return None if package in (None, "__main__", "fourierscale") else package


def _mistake(text: str, status: int = 2) -> int:
    if text:  # empty where no command was given and the help is already on the screen
        print(f"fourierscale: {' '.join(text.split())}", file=sys.stderr)
    return status
