"""Move small tensors to a GPU without waiting for what it is doing."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["moved"]


def moved(values: Tensor, device: torch.device) -> Tensor:
    """The values on a device; towards a GPU the copy takes its place in the queue, and the program goes on."""
    if values.device.type == "cpu" and device.type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
