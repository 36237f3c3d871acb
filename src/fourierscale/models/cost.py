"""What a model costs, counted without computing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fourierscale.kernels import backend
from fourierscale.models.registry import create_model, model_info


@dataclass(frozen=True)
class Cost:
    """Size of a model and work of a forward pass.

    The work is that of products and convolutions, in floating point operations: a product and its sum are two. Fourier
    layers and nested maps are counted as the specification computes them; their fast twins need less.

    Attributes:
        parameters: How many numbers are trained.
        flops: Work for each image of a batch.
        fixed_flops: Work once for a batch, whatever its size: making filters and spectra from parameters.
        input: Channels, height and width of the image: the largest the model was made for.
    """

    parameters: int
    flops: int
    fixed_flops: int
    input: tuple[int, int, int]


def model_cost(name: str, **overrides: Any) -> Cost:
    """Parameters and FLOPs of a model by name, from tensors that have shapes but no values.

    Args:
        name: The model.
        overrides: Options that differ from its preset, such as ``made="exact"``.

    >>> model_cost("cnn-mnist")
    Cost(parameters=494549, flops=70121602, fixed_flops=0, input=(1, 28, 28))
    """
    shape = model_info(name).input_of(overrides)
    with torch.device("meta"):
        model = create_model(name, **overrides).eval()
        one, two = (_forward_flops(model, torch.empty(images, *shape)) for images in (1, 2))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return Cost(trained, two - one, 2 * one - two, shape)


def _forward_flops(model: nn.Module, x: torch.Tensor) -> int:
    from torch.utils.flop_counter import FlopCounterMode, bmm_flop

    def product_flops(to: torch.Size, left: torch.Size, right: torch.Size, *_: object, **__: object) -> int:
        return int(bmm_flop(left, right))

    # of products that are added to a tensor, torch counts those that give a new one alone
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.baddbmm_: product_flops})
    with torch.inference_mode(), backend("torch"), counter:
        model(x)
    return counter.get_total_flops()


def short(number: int) -> str:
    """A large number in three digits.

    >>> short(70_121_602), short(1_653_943_296), short(999_600)
    ('70.1 M', '1.65 G', '1.00 M')
    """
    unit = next(unit for unit in (1e3, 1e6, 1e9, 1e12) if number < 999.5 * unit)
    value = number / unit
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {({1e3: 'k', 1e6: 'M', 1e9: 'G', 1e12: 'T'})[unit]}"
