"""A model, and the same model inside one nested map: what changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from fourierscale.auditing.errors import AuditError
from fourierscale.auditing.measure import audit, own_preprocessing
from fourierscale.auditing.resizing import RESIZINGS, Resizing
from fourierscale.auditing.result import Audit
from fourierscale.auditing.sizes import fit_images
from fourierscale.functional import Levels
from fourierscale.functional.levels import Resolutions
from fourierscale.models import Preprocessing, as_image_model
from fourierscale.nn import NestedModel

if TYPE_CHECKING:
    from rich.table import Table

    from fourierscale.data.progress import ProgressCallback

__all__ = ["BeforeAfter", "audit_nested"]


@dataclass(frozen=True)
class BeforeAfter:
    """What :func:`audit_nested` found.

    Attributes:
        before: The bare model.
        after: The same inside one nested map; its one layer is its output.
        levels: Of the nested map.
    """

    before: Audit
    after: Audit
    levels: Levels

    def worst(self, kind: str) -> tuple[float, float] | None:
        """The largest errors of both outputs under one kind of downscaling, where both were compared."""
        both = [one.layers[-1].errors[kind] for one in (self.before, self.after)]
        common = both[0].keys() & both[1].keys()
        if not common:
            return None
        first, second = (max(errors[side] for side in common) for errors in both)
        return first, second

    def named(self, name: str) -> BeforeAfter:
        """The same for a model of another name."""
        before, after = replace(self.before, model=name), replace(self.after, model=f"{name}, nested")
        return replace(self, before=before, after=after)

    @property
    def finding(self) -> str:
        """The sentences in one."""
        return "; ".join(self.sentences)

    @property
    def sentences(self) -> list[str]:
        """What changes under each kind of downscaling, and what is left of the gain where it is not ideal."""
        exact = "consistent" if self.after.layers[-1].form == "levels" else "equivariant"
        told = []
        for kind in self.after.kinds:
            worst = self.worst(kind)
            if worst is None:
                told.append(f"under {kind} downscaling there is no resolution at which both can be compared")
            elif worst[1] <= self.after.tolerance:
                told.append(
                    f"{self.before.model}, off by {worst[0]:.2g} as it is, is {exact} to {worst[1]:.0e} inside one "
                    f"nested map of {self.levels!r}"
                )
            else:
                times = worst[0] / worst[1]
                gain = f"{times:.3g} times less" if times >= 1 else f"{1 / times:.3g} times more"
                told.append(
                    f"under {kind} downscaling its error is {worst[0]:.2g} before and {worst[1]:.2g} after, {gain}"
                )
        return told

    def to_json(self) -> str:
        """All of it as JSON text."""
        parts = {"finding": self.finding, "before": self.before.to_dict(), "after": self.after.to_dict()}
        return json.dumps(parts, indent=1, allow_nan=False) + "\n"

    def table(self) -> Table:
        """The errors of both outputs by kind of downscaling and resolution, for ``rich.print``."""
        from fourierscale.auditing.table import both_table

        return both_table(self)

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Draw the errors of both outputs, one chart for each kind of downscaling."""
        from fourierscale.auditing.picture import draw_both

        draw_both(self, path)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page, with both, that needs nothing from outside."""
        from fourierscale.auditing.page import write_both

        write_both(self, path)


def audit_nested(
    model: Callable[[Tensor], Any],
    images: Tensor,
    levels: Resolutions,
    resolutions: Iterable[int] | None = None,
    *,
    labels: Tensor | Sequence[int] | None = None,
    kinds: Sequence[Resizing] = RESIZINGS,
    preprocessing: Preprocessing | None = None,
    depth: int | None = None,
    batch_size: int = 16,
    report: ProgressCallback | None = None,
) -> BeforeAfter:
    """Audit a model, and the same model inside one nested map (:class:`fourierscale.nn.NestedModel`).

    Of the wrapped model the output alone is compared: what is inside sees each level of an image in turn, on grids of
    their own, so that a layer has no one map to compare. Of a model that gives vectors the answer of each level is
    compared, which is to be the same for the image and for the downscaled image.

    Args:
        model: Takes images, gives one tensor: a module, a function, or what :func:`open_file` read.
        images: ``(N, C, n, n)``, floating point, of at least two levels.
        levels: Of the nested map.
        resolutions: Sides to downscale to; the levels below ``n`` if not given. Those that the bare model does not
            take are compared for the wrapped one alone.
        labels: Class of each image.
        kinds: How images are made smaller; see :func:`make_smaller`.
        preprocessing: What pixels become before they reach the model.
        depth: Only modules of the bare model whose names have at most so many parts.
        batch_size: Images in a pass.
        report: Told which share is done.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 5, padding=2), nn.ReLU())
    >>> found = audit_nested(net, torch.rand(2, 1, 24, 24), (12, 17, 24), kinds=["ideal"])
    >>> found.before.broken is not None, found.after.broken is None
    (True, True)
    """
    prepare = preprocessing or own_preprocessing(model)
    if prepare.boundary.startswith("canvas"):
        raise AuditError("a nested map has no exact levels on a canvas: choose the boundary circular or mirror")
    inside = model if isinstance(model, nn.Module) else as_image_model(model)
    images, suiting, bare, taken = fit_images(model, images, prepare)
    chosen, only = Levels(levels), taken.side or bare.enlarge_size
    stride = None if only is not None else taken.sizes.stride
    net = NestedModel(inside, chosen, boundary=prepare.boundary, stride=stride, only=only)
    sides = sorted(resolutions) if resolutions is not None else _below(chosen, int(images.shape[-1]))
    if not sides:
        raise AuditError(
            f"no level of {chosen!r} is below the images' {images.shape[-1]} pixels: give larger images, --size on the "
            "command line"
        )
    possible = [side for side in sides if only is not None or side % taken.sizes.stride == 0] or suiting
    parts = [0.0, 0.0]

    def tell(number: int) -> ProgressCallback:
        def told(text: str, share: float | None) -> None:
            parts[number] = share or 0.0
            if report is not None:
                report(text, sum(parts) / 2)

        return told

    def one(audited: Callable[[Tensor], Any], number: int, at: Sequence[int], way: Preprocessing) -> Audit:
        return audit(
            audited,
            images,
            at,
            labels=labels,
            kinds=kinds,
            preprocessing=way,
            shifts=(),
            depth=depth,
            batch_size=batch_size,
            report=tell(number),
        )

    before = one(model, 0, possible, bare)
    after = one(net, 1, sides, replace(prepare, enlarge=None, enlarge_size=None))
    return BeforeAfter(before, replace(after, model=f"{before.model}, nested"), chosen)


def _below(levels: Levels, n: int) -> list[int]:
    """Sides of the square levels below an image of ``n`` samples."""
    named = () if levels.is_open else levels.resolutions
    return [side for side in named if isinstance(side, int) and side < n]
