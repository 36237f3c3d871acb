"""In which precision the processor at hand trains best, and what it is called."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

from fourierscale.training.config import Precision, TrainConfig

__all__ = ["processor", "resolve_precision"]

GAIN = 1.2  # how much faster bfloat16 has to be to be worth its digits


def resolve_precision(train: TrainConfig) -> Precision:
    """``"32"`` or ``"bf16"``: what the config says, or for ``"auto"`` what is faster here by a short measurement.

    >>> resolve_precision(TrainConfig(precision="bf16"))
    'bf16'
    """
    if train.precision != "auto":
        return train.precision
    if torch.cuda.is_available() and train.accelerator in ("auto", "gpu", "cuda"):
        return "bf16" if torch.cuda.is_bf16_supported() else "32"
    return "bf16" if _gain() > GAIN else "32"


@functools.cache
def _gain() -> float:
    """How much faster a convolution is in bfloat16 than in single precision on this processor; some milliseconds."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return 0.0
    x, weight = torch.ones(8, 64, 48, 48), torch.ones(64, 64, 3, 3)

    def seconds(dtype: torch.dtype) -> float:
        image, taps = (t.to(dtype).contiguous(memory_format=torch.channels_last) for t in (x, weight))
        return _fastest(lambda: F.conv2d(image, taps, padding=1))

    with torch.inference_mode():
        return seconds(torch.float32) / seconds(torch.bfloat16)


def _fastest(run: Callable[[], object], times: int = 5) -> float:
    run()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


@functools.cache
def processor() -> str:
    """The name of the CPU, as its maker gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, None) or platform.processor() or platform.machine()  # the latter may start a program
