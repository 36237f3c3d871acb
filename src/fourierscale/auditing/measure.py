"""The audit itself: one pass at the full size, one per resolution and kind of downscaling, a few for shifts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn

from fourierscale.auditing.compare import Rows, compare
from fourierscale.auditing.errors import AuditError
from fourierscale.auditing.files import FileModel, open_file
from fourierscale.auditing.logits import LogitSums, prediction
from fourierscale.auditing.result import Audit, Layer, Rings, Shift
from fourierscale.auditing.shifts import compare_shifted, shift_image
from fourierscale.auditing.trace import OUTPUT, Record, Trace, as_it_is, run
from fourierscale.data.fit import Fit, fit_to
from fourierscale.functional import downscale
from fourierscale.functional.resample import Kind
from fourierscale.testing import TOLERANCE

__all__ = ["audit"]

KINDS: tuple[Kind, ...] = get_args(Kind)
Report = Callable[[str, float | None], None]


def audit(
    model: Callable[[Tensor], Any] | str | os.PathLike[str],
    images: Tensor,
    resolutions: Iterable[int],
    *,
    labels: Tensor | Sequence[int] | None = None,
    kinds: Sequence[Kind] = KINDS,
    fit: Fit | None = None,
    fit_size: int | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    shifts: Sequence[float] = (1.0, 0.5),
    depth: int | None = None,
    batch_size: int = 16,
    name: str | None = None,
    report: Report | None = None,
) -> Audit:
    r"""Measure how far any model is from commuting with downscaling and with shifts, layer by layer.

    For every layer :math:`g`, resolution :math:`r` and kind of downscaling, the mean over images of

    .. math:: \frac{\lVert g(\mathcal D_r x) - \mathcal D_r g(x) \rVert^2}{\lVert g(\mathcal D_r x) \rVert^2}

    where images are downscaled in the given kind and features always ideally, over all channels and all frequencies of
    the smaller map's band, in double precision. Layers of this library give coefficients; the maps of any other layer
    are analysed first. What counts where maps have no common ratio:

    - the size of the small image's map decides, also where borders were cut off: the large map is downscaled to it;
    - with ``fit``, where all maps have one size, the large map is downscaled in the ratio of the images, rounded to
      whole samples, and brought back to its size as the image was;
    - a map pooled to a fixed grid, a global pool, a vector of features and logits are compared entry by entry;
    - one vector per level (:class:`~fourierscale.models.ScaleHead`): the levels that the small image has;
    - outputs of other unlike shapes are not compared, and the layer's ``note`` says so.

    A layer is every module, in the order of the pass, that gives a floating-point tensor and does not merely pass on
    what the layer before gave. What a model does between modules shows in the next module's output.

    Args:
        model: Takes images ``(B, C, n, n)``, gives one tensor of features or logits: a module, a function (its output
            alone is seen), or the path of a TorchScript (``.pt``, ``.pth``), ``torch.export`` (``.pt2``) or ONNX file.
        images: ``(N, C, n, n)``, floating point, on any device.
        resolutions: Sides to downscale to; those of ``n`` are left out.
        labels: Class of each image, for accuracy and Scale-Con.
        kinds: ``"ideal"``, ``"gaussian"``, ``"bicubic"``; the finding is about the first.
        fit: Bring every image to one size, for models that take no other; see :func:`fourierscale.data.fit_to`.
        fit_size: That size; ``n`` if not given.
        mean: Subtracted from each channel behind ``fit``, so that padding with zero is black.
        std: Each channel is then divided by it.
        shifts: Pixels by which the images are moved, right and down, as if they were periodic.
        depth: Only modules whose names have at most so many parts.
        batch_size: Images in a pass.
        name: What to call the model; its class or file if not given.
        report: Told which share is done.

    Raises:
        AuditError: The model, the file or the images cannot be audited; the text says what to do.

    >>> from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d, ScaleEquivariant
    >>> block = nn.Sequential(LocalFourierConv2d(1, 4, 5, 16), ScaleActivation2d(4, range(8, 17)))
    >>> audit(ScaleEquivariant(block), torch.rand(2, 1, 16, 16), [8, 11]).broken is None
    True
    >>> cnn = nn.Sequential(nn.Conv2d(1, 4, 5, padding=2), nn.ReLU())
    >>> audit(cnn, torch.rand(2, 1, 16, 16), [8, 11]).broken.name
    '0'
    """
    called = name
    if isinstance(model, (str, os.PathLike)):
        called, model = name or os.path.basename(model), open_file(model)
    elif not callable(model):
        raise AuditError(f"expected a module, a function or the path of a file, got {type(model).__name__}")
    sides = _check(images, resolutions, kinds, labels, fit, fit_size)
    device, dtype = _place(model, images)
    session = _Session(model, images.shape[-1], fit, fit_size, mean, std, depth, device, dtype)
    known = None if labels is None else torch.as_tensor(labels, device=device)
    steps, done = -(-len(images) // batch_size) * (len(sides) * len(kinds) + 1 + bool(shifts) * (1 + len(shifts))), 0

    def tell() -> None:
        nonlocal done
        done += 1
        if report is not None:
            report("auditing", done / steps)

    with as_it_is(model):
        for first in range(0, len(images), batch_size):
            batch = images[first : first + batch_size].to(device, dtype)
            session.begin(batch, None if known is None else known[first : first + batch_size])
            tell()
            for kind in kinds:
                for side in sides:
                    session.downscaled(kind, side)
                    tell()
            if shifts:
                session.shifted(shifts, tell)
    return session.result(called or type(model).__name__, len(images), tuple(kinds), sides)


class _Session:
    """Sums over batches."""

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        size: int,
        fit: Fit | None,
        fit_size: int | None,
        mean: float | Sequence[float],
        std: float | Sequence[float],
        depth: int | None,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.model, self.size, self.depth, self.dtype = model, size, depth, dtype
        self.fit: Fit | None = fit
        self.fit_size = size if fit_size is None else fit_size
        self.mean, self.std = (torch.as_tensor(v, dtype=dtype, device=device).reshape(-1, 1, 1) for v in (mean, std))
        self.images = self.right = 0
        self.shapes: dict[str, Record] = {}
        self.lasts: set[str] = set()
        self.sums: dict[tuple[str, str, int], Sum] = defaultdict(Sum)
        self.shift_sums: dict[tuple[str, float], Sum] = defaultdict(Sum)
        self.logit_sums: dict[tuple[str, int], LogitSums] = defaultdict(LogitSums)
        self.missing: set[str] = set()
        self.notes: dict[str, str] = {}

    def input(self, x: Tensor) -> Tensor:
        """Images as the model takes them."""
        x = x if self.fit is None else fit_to(x, self.fit_size, self.fit)
        return (x - self.mean) / self.std

    def begin(self, x: Tensor, labels: Tensor | None) -> None:
        """A new batch, at the full size."""
        self.x, self.labels = x, labels
        self.full = self._run(self.input(x))
        self.images += len(x)
        for key, record in self.full.records.items():
            self.shapes.setdefault(key, record)
        self.logits = prediction(self.full.output)
        if labels is not None and self.logits is not None:
            if int(labels.max()) >= self.logits.shape[1]:
                raise AuditError(
                    f"the largest label is {int(labels.max())}, the model gives {self.logits.shape[1]} logits: leave "
                    "the labels out"
                )
            self.right += int((self.logits.argmax(1) == labels).sum())

    def downscaled(self, kind: Kind, side: int) -> None:
        """The same batch, downscaled."""
        x, ratio = downscale(self.x, side, kind), side / self.size
        self.sums["input", kind, side].add(compare(self.x, x, "image", ratio, None))
        small = self._run(self.input(x))
        self.missing |= self.full.records.keys() ^ small.records.keys()
        for key, record in small.records.items():
            if key in self.full.records:
                large = self.full.records[key]
                rows = compare(large.value, record.value, record.form, ratio, self.fit)
                self._note(key, self.sums[key, kind, side].add(rows))
        logits = prediction(small.output)
        if self.logits is not None and logits is not None and logits.shape == self.logits.shape:
            self.logit_sums[kind, side].add(self.logits, logits, self.labels)

    def shifted(self, shifts: Sequence[float], tell: Callable[[], None]) -> None:
        """The same batch at the full size, moved."""
        x = self.input(self.x)
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
            fit=self.fit,
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
        """Add one batch; words, if there was nothing to compare, come back."""
        if isinstance(rows, str):
            return rows
        if not bool(rows.difference.isfinite().all()):
            return "not finite"
        self.count += len(rows.difference)
        self.difference = self.difference + rows.difference.sum(0).cpu()
        self.energy = self.energy + rows.energy.sum(0).cpu()
        return ""

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


def _check(
    images: Tensor,
    resolutions: Iterable[int],
    kinds: Sequence[str],
    labels: Tensor | Sequence[int] | None,
    fit: str | None,
    fit_size: int | None,
) -> tuple[int, ...]:
    """Refuse what cannot be audited; the resolutions that count, coarse to fine."""
    if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[-1] != images.shape[-2] or not len(images):
        got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise AuditError(f"expected square images (N, C, n, n), got {got}: crop or pad them first")
    if not images.is_floating_point():
        raise AuditError(f"expected floating-point images, got {images.dtype}: convert them, images.float() / 255")
    size = int(images.shape[-1])
    asked = sorted({int(side) for side in resolutions})
    sides = tuple(side for side in asked if side != size)
    if not sides or sides[0] < 1 or sides[-1] > size:
        raise AuditError(f"expected resolutions from 1 to {size - 1}, below the images' {size} pixels, got {asked}")
    for kind in kinds:
        if kind not in KINDS:
            raise AuditError(f"unknown kind of downscaling {kind!r}: choose one of {', '.join(KINDS)}")
    if not kinds:
        raise AuditError(f"no kind of downscaling was given: choose among {', '.join(KINDS)}")
    if labels is not None and len(labels) != len(images):
        raise AuditError(f"expected {len(images)} labels for as many images, got {len(labels)}")
    if fit is not None and fit not in get_args(Fit):
        raise AuditError(f"unknown fit {fit!r}: choose one of {', '.join(get_args(Fit))}")
    if fit_size is not None and (fit is None or fit_size < size):
        why = "no fit is given" if fit is None else f"the images have {size} pixels: downscale them first"
        raise AuditError(f"fit_size is {fit_size}, but {why}")
    return sides


def _place(model: Callable[[Tensor], Any], images: Tensor) -> tuple[torch.device, torch.dtype]:
    """Where a model computes and in what; where the images are if it has no weights."""
    if isinstance(model, FileModel):
        return torch.device("cpu"), model.dtype
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    found = next((tensor for tensor in tensors if tensor.is_floating_point()), images)
    return found.device, found.dtype
