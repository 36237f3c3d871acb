"""Where to compute."""

from __future__ import annotations

import torch

__all__ = ["find_device"]


def find_device(name: str = "auto") -> torch.device:
    """The device of this name, after a look whether it is there; ``"auto"`` is a GPU if there is one, else the CPU.

    >>> find_device("cpu")
    device(type='cpu')
    """
    where = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=where).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"cannot compute on {where}: {str(error).splitlines()[0]}") from None
