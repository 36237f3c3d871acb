"""The sums of an audit: each batch at the full size, downscaled, and moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fourierscale.auditing.compare import Rows, compare_outputs
from fourierscale.auditing.errors import AuditError
from fourierscale.auditing.logits import LogitSums, prediction
from fourierscale.auditing.resizing import Resizing, make_smaller
from fourierscale.auditing.result import Audit, Layer, Rings, Shift
from fourierscale.auditing.shifts import compare_shifted, shift_image
from fourierscale.auditing.trace import OUTPUT, Record, Trace, run
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.testing import TOLERANCE

__all__ = ["Session"]


class Session:
    """A model under audit: what was summed over the batches so far.

    Args:
        model: Takes images.
        size: Side of the images.
        preprocessing: How pixels become its input, and what lies beyond the edge of the images.
        depth: Only modules whose names have at most so many parts.
        dtype: In what.
    """

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        size: int,
        preprocessing: Preprocessing,
        depth: int | None,
        dtype: torch.dtype,
    ) -> None:
        self.model, self.size, self.prepare, self.depth, self.dtype = model, size, preprocessing, depth, dtype
        self.images = self.right = 0
        self.shapes: dict[str, Record] = {}
        self.lasts: set[str] = set()
        self.sums: dict[tuple[str, str, int], Sum] = defaultdict(Sum)
        self.shift_sums: dict[tuple[str, float], Sum] = defaultdict(Sum)
        self.logit_sums: dict[tuple[str, int], LogitSums] = defaultdict(LogitSums)
        self.missing: set[str] = set()
        self.notes: dict[str, str] = {}

    def begin(self, x: Tensor, labels: Tensor | None) -> None:
        """A new batch, at the full size."""
        self.x, self.labels = x, labels
        self.full = self._run(self.prepare(x))
        self.images += len(x)
        for key, record in self.full.records.items():
            self.shapes.setdefault(key, replace(record, value=record.value[:1].clone()))
        self.logits = prediction(self.full.output)
        if labels is not None and self.logits is not None:
            if int(labels.max()) >= self.logits.shape[1]:
                raise AuditError(
                    f"the largest label is {int(labels.max())}, the model gives {self.logits.shape[1]} logits: leave "
                    "the labels out"
                )
            self.right += int((self.logits.argmax(1) == labels).sum())

    def downscaled(self, kind: Resizing, side: int) -> None:
        """The same batch, downscaled."""
        x, ratio = make_smaller(self.x, side, kind, self.prepare), side / self.size
        plain = replace(self.prepare, enlarge=None, enlarge_size=None)
        self.sums["input", kind, side].add(compare_outputs(self.x, x, "image", ratio, plain))
        small = self._run(self.prepare(x))
        self.missing |= self.full.records.keys() ^ small.records.keys()
        for key, record in small.records.items():
            if key in self.full.records:
                large = self.full.records[key]
                rows = compare_outputs(large.value, record.value, record.form, ratio, self.prepare)
                self._note(key, self.sums[key, kind, side].add(rows))
        logits = prediction(small.output)
        if self.logits is not None and logits is not None and logits.shape == self.logits.shape:
            self.logit_sums[kind, side].add(self.logits, logits, self.labels)

    def shifted(self, shifts: Sequence[float], tell: Callable[[], None]) -> None:
        """The same batch at the full size, moved."""
        x = self.prepare(self.x)
        still = self._run(shift_image(x, 0.0))
        tell()
        for pixels in shifts:
            moved = self._run(shift_image(x, pixels))
            for key, record in moved.records.items():
                value = still.records[key].value
                rows = compare_shifted(value, record.value, record.form, pixels, int(x.shape[-1]))
                self.shift_sums[key, float(pixels)].add(rows)
            tell()

    def _run(self, x: Tensor) -> Trace:
        trace = run(self.model, x, self.depth)
        self.lasts.add(trace.last)
        return trace

    def _note(self, key: str, note: str) -> None:
        if note:
            self.notes[key] = note

    def result(self, name: str, images: int, kinds: tuple[str, ...], sides: tuple[int, ...]) -> Audit:
        """Means over all images."""
        keys = [key for key in self.shapes if key not in self.missing and key != OUTPUT]
        if not self.lasts <= set(keys):  # the output is no layer's, or not the same layer's at every size
            keys.append(OUTPUT)

        def layer(number: int, key: str, record: Record) -> Layer:
            errors = {
                kind: {side: total.mean() for side in sides if (total := self.sums[key, kind, side]).whole(images)}
                for kind in kinds
            }
            shape, note = tuple(record.value.shape[1:]), self.notes.get(key, "")
            return Layer(number, key, record.module, record.form, shape, errors, note)

        layers = tuple(layer(number, key, self.shapes[key]) for number, key in enumerate(keys, 1))
        rings = [
            Rings(one.number, kind, side, *self.sums[one.name, kind, side].rings())
            for one in layers
            if one.form in ("image", "coefficients")
            for kind in kinds
            for side in one.errors[kind]
        ]
        shift = [
            Shift(one.number, pixels, total.mean())
            for one in layers
            for (key, pixels), total in self.shift_sums.items()
            if key == one.name and total.whole(images)
        ]
        answered = {pair: total for pair, total in self.logit_sums.items() if total.images == images}
        return Audit(
            model=name,
            size=self.size,
            images=images,
            dtype=str(self.dtype).removeprefix("torch."),
            kinds=kinds,
            resolutions=sides,
            enlarge=self.prepare.enlarge,
            tolerance=TOLERANCE[self.dtype],
            layers=layers,
            input=layer(0, "input", Record(self.x, "images", "image")),
            rings=tuple(rings),
            logits=tuple(total.row(kind, side) for (kind, side), total in answered.items()),
            shift=tuple(shift),
            accuracy=self.right / images if self.labels is not None and self.logits is not None else None,
        )


class Sum:
    """Rows so far."""

    def __init__(self) -> None:
        self.count = 0
        self.difference = self.energy = torch.zeros(1, dtype=torch.float64)

    def add(self, rows: Rows | str) -> str:
        """Add one batch; words come back, if there was nothing to compare or a part alone."""
        if isinstance(rows, str):
            return rows
        if not bool(rows.difference.isfinite().all()):
            return "not finite"
        self.count += len(rows.difference)
        self.difference = self.difference + rows.difference.sum(0).cpu()
        self.energy = self.energy + rows.energy.sum(0).cpu()
        return rows.note

    def whole(self, images: int) -> bool:
        """Whether all the images were compared."""
        return self.count == images

    def mean(self) -> float:
        """Mean relative squared error."""
        return float(self.difference.sum()) / self.count

    def rings(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean difference and mean energy of each ring."""
        difference, energy = (value / self.count for value in (self.difference, self.energy))
        return tuple(difference.tolist()), tuple(energy.tolist())
