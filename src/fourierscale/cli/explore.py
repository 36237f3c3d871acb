"""``fourierscale explore``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fourierscale.cli.folders import check_folder
from fourierscale.cli.found import Trained, find_trained

if TYPE_CHECKING:
    from fourierscale.lab.explore import Net

__all__ = ["explore"]

CNN = "cnn-small"


def explore(
    model: Annotated[
        str, typer.Option(help="A run's folder, a .safetensors file, or the name of weights that ship.")
    ] = "scalenet-mnist",
    beside: Annotated[
        str | None,
        typer.Option(help="A net of the same images to show beside it, or 'none'; a small CNN if not given."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 picks a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    build: Annotated[
        Path | None, typer.Option(help="Write the page as one file into this folder; it needs no server.")
    ] = None,
) -> None:
    """Open a page on this machine: draw a digit or drop a picture, slide over resolution, see what the nets make of it.

    Only this machine can reach the page. Ctrl-C ends it.
    """
    from rich.console import Console
    from rich.markup import escape

    from fourierscale.lab.explore import ExploreServer, Viewer, build_page, serve, write_page

    if build is not None:
        check_folder(build, "--build")
    console = Console(highlight=False)
    viewer = Viewer(find_nets(model, beside))
    if build is not None:
        path = write_page(viewer, build)
        console.print(
            f"wrote [bold]{escape(str(path))}[/bold], {path.stat().st_size / 1e6:.1f} MB: open it in a browser",
            soft_wrap=True,
        )
        return
    try:
        server = ExploreServer(viewer, build_page(viewer.about()), port)
    except OSError as error:
        raise OSError(f"port {port} cannot be used ({error.strerror}): choose another with --port, or 0") from None
    with server:
        viewer.warm()
        console.print(f"explore at [bold]{server.url}[/bold]  (Ctrl-C ends it)", soft_wrap=True)
        if browser:
            webbrowser.open(server.url)
        serve(server)
    console.print("ended")


def find_nets(model: str, beside: str | None) -> list[Net]:
    """The net to look through, and the one beside it."""
    from fourierscale.lab.explore import Net
    from fourierscale.models import WeightsError

    found = find_trained(model)
    levelled = found.model.levels is not None
    key, name, second = ("ours", "ours", "cnn") if levelled else ("cnn", found.name, "tiny")
    nets = [Net(key, name, found.model, found.preprocessing)]
    if beside == "none":
        return nets
    other = find_trained(beside or CNN)
    if _images(other) == _images(found):
        name = "small CNN" if other.name == CNN else other.name
        return [*nets, Net(second, name, other.model, other.preprocessing)]
    if beside is None:
        return nets
    raise WeightsError(f"{beside} was trained on images of other classes or sizes than {model}: leave --beside out")


def _images(found: Trained) -> tuple[int, tuple[str, ...], int]:
    prepare = found.preprocessing
    return prepare.channels, prepare.classes, max(prepare.sizes)
