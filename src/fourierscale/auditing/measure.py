"""The audit itself: one pass at the full size, one per resolution and kind of downscaling, a few for shifts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor, nn

from fourierscale.auditing.errors import AuditError, SizeError
from fourierscale.auditing.files import FileModel, open_file
from fourierscale.auditing.resizing import RESIZINGS, Resizing
from fourierscale.auditing.result import Audit
from fourierscale.auditing.session import Session
from fourierscale.auditing.sizes import find_sizes, fit_images, place_of
from fourierscale.auditing.trace import answering_by_level
from fourierscale.functional.resample import Kind
from fourierscale.models import ImageModel, Preprocessing
from fourierscale.nn import ToCoefficients
from fourierscale.nn.input_sizes import evaluating

if TYPE_CHECKING:
    from fourierscale.data.progress import ProgressCallback

__all__ = ["audit", "own_preprocessing"]

KINDS: tuple[Resizing, ...] = get_args(Kind)


def audit(
    model: Callable[[Tensor], Any] | str | os.PathLike[str],
    images: Tensor,
    resolutions: Iterable[int] | None = None,
    *,
    labels: Tensor | Sequence[int] | None = None,
    kinds: Sequence[Resizing] = KINDS,
    preprocessing: Preprocessing | None = None,
    shifts: Sequence[float] = (1.0, 0.5),
    depth: int | None = None,
    batch_size: int = 16,
    report: ProgressCallback | None = None,
) -> Audit:
    r"""Measure how far any model is from commuting with downscaling and with shifts, layer by layer.

    For every layer :math:`g`, resolution :math:`r` and kind of downscaling, the mean over images of

    .. math:: \frac{\lVert g(\mathcal D_r x) - \mathcal D_r g(x) \rVert^2}{\lVert g(\mathcal D_r x) \rVert^2}

    where images are downscaled in the given kind and features always ideally, over all channels and all frequencies of
    the smaller map's band, in double precision. Layers of this library give coefficients; the maps of any other layer
    are analysed first. What counts where maps have no common ratio:

    - the size of the small image's map decides, also where borders were cut off: the large map is downscaled to it;
    - for a model of one input size, where all maps have one size, the large map is downscaled in the ratio of
      the images, rounded to whole samples, and brought back to its size as the image was;
    - a map pooled to a fixed grid, a global pool, a vector of features and logits are compared entry by entry;
    - one vector per level (:class:`~fourierscale.models.ScaleHead`): the levels that the small image has; so too a
      :class:`~fourierscale.nn.NestedModel` of a model that gives vectors;
    - outputs of other unlike shapes are not compared, and the layer's ``note`` says so.

    A layer is every module, in the order of the pass, that gives a floating-point tensor and does not merely pass on
    what the layer before gave. What a model does between modules shows in the next module's output.

    Args:
        model: Takes images ``(B, C, n, n)``, gives one tensor of features or logits: a module, a function (its output
            alone is seen), the path of an ONNX file, or what :func:`~fourierscale.auditing.open_file` read.
        images: ``(N, C, n, n)``, floating point, on any device.
        resolutions: Sides to downscale to; those of ``n`` are left out. If not given, some that the model takes, which
            is found by trying: images whose side is no multiple of a model's stride, or above its one size, are
            downscaled to what it takes, and a model of one size gets smaller ones padded with zeros.
        labels: Class of each image, for accuracy and Scale-Con.
        kinds: Among ``"ideal"``, ``"gaussian"``, ``"bicubic"``, ``"area"``, ``"jpeg"``
            (:func:`~fourierscale.auditing.make_smaller`); the finding is about the first.
        preprocessing: What pixels become before they reach the model, how they are brought to the size of a model of
            one size (``enlarge``), and what lies beyond the edge of images and maps. If not given, the model's own; for
            a model that has none, images go in as they are.
        shifts: Pixels by which the images are moved, right and down, as if they were periodic; not at all where the
            boundary says that they are not.
        depth: Only modules whose names have at most so many parts.
        batch_size: Images in a pass.
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
    if isinstance(model, (str, os.PathLike)):
        model = open_file(model)
    name = model.name if isinstance(model, FileModel) else type(model).__name__
    if not callable(model):
        raise AuditError(f"expected a module, a function or the path of a file, got {type(model).__name__}")
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given: hooks do not reach into its graphs
    prepare = preprocessing or own_preprocessing(model)
    _check_images(images)
    if resolutions is None:
        images, resolutions, prepare, _ = fit_images(model, images, prepare)
    model = answering_by_level(model, images.to(*place_of(model, images)))
    sides = _check(images, resolutions, kinds, labels, prepare)
    shifts = shifts if prepare.boundary == "circular" else ()
    device, dtype = place_of(model, images)
    session = Session(model, images.shape[-1], prepare, depth, dtype)
    known = None if labels is None else torch.as_tensor(labels, device=device)
    steps, done = -(-len(images) // batch_size) * (len(sides) * len(kinds) + 1 + bool(shifts) * (1 + len(shifts))), 0

    def tell() -> None:
        nonlocal done
        done += 1
        if report is not None:
            report("auditing", done / steps)

    with evaluating(model), _telling_sizes(model, images[:1].to(device, dtype)):
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
    return session.result(name, len(images), tuple(kinds), sides)


@contextmanager
def _telling_sizes(model: Callable[[Tensor], Any], example: Tensor) -> Iterator[None]:
    """Where images are refused, say which sizes the model takes."""
    try:
        yield
    except SizeError as error:
        try:
            taken = find_sizes(model, example)
        except AuditError:
            raise error from error.__cause__
        raise AuditError(f"{error}; it takes {taken}") from error


def _check_images(images: Tensor) -> None:
    if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[-1] != images.shape[-2] or not len(images):
        got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise AuditError(f"expected square images (N, C, n, n), got {got}: crop or pad them first")
    if not images.is_floating_point():
        raise AuditError(f"expected floating-point images, got {images.dtype}: convert them, images.float() / 255")


def _check(
    images: Tensor,
    resolutions: Iterable[int],
    kinds: Sequence[str],
    labels: Tensor | Sequence[int] | None,
    preprocessing: Preprocessing,
) -> tuple[int, ...]:
    """Refuse what cannot be audited; the resolutions that count, coarse to fine."""
    size = int(images.shape[-1])
    asked = sorted({int(side) for side in resolutions})
    sides = tuple(side for side in asked if side != size)
    if not sides or sides[0] < 1 or sides[-1] > size:
        raise AuditError(f"expected resolutions from 1 to {size - 1}, below the images' {size} pixels, got {asked}")
    for kind in kinds:
        if kind not in RESIZINGS:
            raise AuditError(f"unknown kind of downscaling {kind!r}: choose one of {', '.join(RESIZINGS)}")
    if not kinds:
        raise AuditError(f"no kind of downscaling was given: choose among {', '.join(RESIZINGS)}")
    if labels is not None and len(labels) != len(images):
        raise AuditError(f"expected {len(images)} labels for as many images, got {len(labels)}")
    reached = preprocessing.enlarge_size
    if reached is not None and reached < size:
        raise AuditError(f"the model takes {reached} pixels, the images have {size}: downscale them first")
    return sides


def own_preprocessing(model: Callable[[Tensor], Any]) -> Preprocessing:
    """How a model says that its images are prepared; as they are if it does not."""
    own = model.preprocessing if isinstance(model, ImageModel) else None
    if own is not None:
        return own
    parts = model.modules() if isinstance(model, nn.Module) else ()
    return Preprocessing(boundary=next((p.boundary for p in parts if isinstance(p, ToCoefficients)), "circular"))
