"""Does the file compute what the model computes, and how fast."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fourierscale.export.describe import LIMIT, ExportPlan
from fourierscale.export.errors import ExportError
from fourierscale.functional import downscale

__all__ = ["Check", "ExportReport", "check_outputs"]


@dataclass(frozen=True)
class Check:
    """An exported file beside its model, at one resolution."""

    resolution: int
    difference: float
    """Largest difference of a logit."""
    images: int
    """How many images were compared."""
    milliseconds: Mapping[int, tuple[float, float]]
    """Per batch size the median time of an image, by the file and by PyTorch."""


@dataclass(frozen=True)
class ExportReport:
    """The file that was written, and how it compares with its model."""

    path: Path
    resolutions: tuple[int, ...]
    bytes: int
    operators: tuple[str, ...]
    """Names of the operators in the file."""
    checks: tuple[Check, ...]

    @property
    def difference(self) -> float:
        """The largest of all resolutions."""
        return max(check.difference for check in self.checks)


def check_outputs(
    run: Callable[[Tensor], Tensor], plan: ExportPlan, images: Tensor | None, batches: Sequence[int]
) -> tuple[Check, ...]:
    """Compare a file with its model at every resolution.

    Args:
        run: The file.
        plan: The model.
        images: Real images besides random ones, at least as large as the largest resolution, as the file takes them.
        batches: Batch sizes to take times at.

    Raises:
        ExportError: They differ by more than 1e-4.
    """
    checks = []
    for n in plan.sizes:
        x = plan.images(n, 3, seed=1)
        if images is not None and images.shape[-1] >= n:
            x = torch.cat([x, images if images.shape[-1] == n else downscale(images, n)])
        outputs, expected = run(x), plan.reference(x)
        if outputs.shape != expected.shape:
            raise ExportError(f"at {n} pixels the file gives {tuple(outputs.shape)}, the model {tuple(expected.shape)}")
        difference = float((outputs - expected).abs().max())
        if not difference <= LIMIT:
            raise ExportError(
                f"at {n} pixels the exported logits and the model's differ by {difference:.1e}, more than {LIMIT:.0e}; "
                "no file was written"
            )
        times = {}
        for batch in batches:
            many = plan.images(n, batch)
            file, torch_itself = _median(run, many), _median(plan.reference, many)
            times[batch] = (file / batch, torch_itself / batch)
        checks.append(Check(n, difference, len(x), times))
    return tuple(checks)


def _median(function: Callable[[Tensor], Tensor], x: Tensor, seconds: float = 0.5) -> float:
    """Milliseconds of a call, the median of 3 to 25, for about so many seconds."""
    function(x)
    times: list[float] = []
    while len(times) < 3 or (len(times) < 25 and sum(times) < seconds):
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)
