"""What an audit found, as data; it knows how to tell it in a sentence, a table, a picture, a page or JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fourierscale.auditing.logits import LogitRow

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Audit", "Layer", "Rings", "Shift"]


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer at every resolution.

    Attributes:
        number: Position in the pass, from 1; 0 for the images themselves.
        name: Name of the module, as ``named_modules`` gives it.
        module: Class of the module.
        form: ``"image"`` (a map of samples), ``"coefficients"``, ``"levels"`` or ``"vector"``.
        shape: Shape of one image's output at the full size.
        errors: Relative squared error by kind of downscaling, then by resolution; a resolution at which there is
            nothing to compare is left out.
        note: Why something was left out; empty if nothing was.
    """

    number: int
    name: str
    module: str
    form: str
    shape: tuple[int, ...]
    errors: Mapping[str, Mapping[int, float]]
    note: str = ""

    def worst(self, kind: str) -> tuple[float, int] | None:
        """The largest error and its resolution."""
        errors = self.errors.get(kind, {})
        return max(((error, resolution) for resolution, error in errors.items()), default=None)


@dataclasses.dataclass(frozen=True)
class Rings:
    r"""The error of a map split into rings :math:`|k|_\infty = 0, 1, \dots, K`.

    Attributes:
        layer: Number of the layer.
        kind: How images were downscaled.
        resolution: Side of the downscaled images.
        difference: Squared difference in each ring as a share of the map's whole energy; the sum is the layer's error.
        energy: Energy of each ring as a share of the whole.
    """

    layer: int
    kind: str
    resolution: int
    difference: tuple[float, ...]
    energy: tuple[float, ...]

    @property
    def errors(self) -> list[float | None]:
        """Relative squared error of each ring by itself; None for one without energy."""
        return [d / e if e > 0 else None for d, e in zip(self.difference, self.energy, strict=True)]


@dataclasses.dataclass(frozen=True)
class Shift:
    """How far one layer is from moving with the image, at the full size.

    Attributes:
        layer: Number of the layer.
        pixels: How far the image was moved, right and down, as if it were periodic.
        error: Relative squared error between shifted features and features of the shifted image.
    """

    layer: int
    pixels: float
    error: float


@dataclasses.dataclass(frozen=True)
class Audit:
    """What :func:`fourierscale.audit` found.

    Attributes:
        model: Name of the model.
        size: Side of the images.
        images: Number of images.
        dtype: Precision in which the model computed.
        kinds: Kinds of downscaling, the first being the one that ``finding`` speaks of.
        resolutions: Resolutions below ``size``, coarse to fine.
        enlarge: How images reached a model of one input size; None if they went as they are.
        tolerance: Largest error that counts as rounding in this dtype.
        layers: Every layer, in the order of the pass; the last gives the model's output.
        input: The images themselves, as if they were a layer: what downscaling that is not ideal changes at once.
        rings: The errors of maps ring by ring.
        logits: Consistency of the answers; empty if the output is a map.
        shift: Errors under shifts.
        accuracy: Accuracy at the full size, where labels were given.
    """

    model: str
    size: int
    images: int
    dtype: str
    kinds: tuple[str, ...]
    resolutions: tuple[int, ...]
    enlarge: str | None
    tolerance: float
    layers: tuple[Layer, ...]
    input: Layer
    rings: tuple[Rings, ...]
    logits: tuple[LogitRow, ...]
    shift: tuple[Shift, ...]
    accuracy: float | None = None

    @property
    def kind(self) -> str:
        """The kind of downscaling that the finding is about."""
        return self.kinds[0]

    @property
    def broken(self) -> Layer | None:
        """The first layer whose error is above rounding at some resolution; None if there is none."""
        worst = ((layer, layer.worst(self.kind)) for layer in self.layers)
        return next((layer for layer, found in worst if found is not None and found[0] > self.tolerance), None)

    @property
    def finding(self) -> str:
        """One sentence: equivariant, or where that ends first."""
        span = f"{self.resolutions[0]} to {self.resolutions[-1]}" if len(self.resolutions) > 1 else self.resolutions[0]
        under = "" if self.kind == "ideal" else f" under {self.kind} downscaling"
        total, layer = len(self.layers), self.broken
        if layer is None:
            errors = [found[0] for one in self.layers if (found := one.worst(self.kind)) is not None]
            if not errors:
                return f"{self.model}: no layer gives the same shape at two resolutions, so nothing could be compared"
            through = "at its output" if total == 1 else f"through all {total} layers"
            return f"{self.model} is equivariant to {max(errors):.0e} {through}, {span} px against {self.size}{under}"
        error, resolution = layer.worst(self.kind) or (0.0, 0)
        if total == 1:
            return f"{self.model} is not equivariant{under}: its output is off by {error:.2g} at {resolution} px"
        last = self.layers[-1].worst(self.kind)
        end = (
            "" if last is None or layer is self.layers[-1] else f"; its output is off by {last[0]:.2g} at {last[1]} px"
        )
        where = f"layer {layer.number} of {total} ({layer.module} {layer.name})"
        return f"{self.model} breaks first at {where}{under}: error {error:.2g} at {resolution} px{end}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the finding first."""
        return {"finding": self.finding, **dataclasses.asdict(self)}

    def to_json(self) -> str:
        """All of it as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def table(self) -> Table:
        """Layers by resolution, and shifts, for ``rich.print``."""
        from fourierscale.auditing.table import layer_table

        return layer_table(self)

    def logit_table(self) -> Table:
        """Consistency of the answers by resolution, for ``rich.print``."""
        from fourierscale.auditing.table import logit_table

        return logit_table(self)

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Draw layers by resolution, rings and shifts."""
        from fourierscale.auditing.picture import draw

        draw(self, path)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page that needs nothing from outside."""
        from fourierscale.auditing.page import write_page

        write_page(self, path)
