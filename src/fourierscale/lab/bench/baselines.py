"""What does a training step of each network cost? Ours and every baseline, in one run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fourierscale.lab.bench.suites import Record, Settings, chosen
from fourierscale.models import create_model, list_models, model_cost, model_info
from fourierscale.training import load_config, scale_loss
from fourierscale.training.graphs import GraphedTraining
from fourierscale.training.optim import make_optimizer

__all__ = ["measure_baselines"]

BATCH = {28: 128, 96: 16}


def measure_baselines(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Time a step: forward pass, loss, backward pass and optimizer, with the model's own recipe.

    It is taken on a full batch of the largest images the model was made for. On a GPU the step is also timed as
    training in single precision runs it, with the passes replayed as CUDA graphs.

    Args:
        names: Models; all of them if none is given.
        settings: The precision ``"bfloat16"`` is mixed; others leave torch as it is.
    """
    stem = f"baselines-{settings.device.type}{'-bf16' if settings.precision == 'bfloat16' else ''}"
    for name in chosen(names, {name: name for name in list_models()}):
        yield stem, _measure(name, settings)


def _measure(name: str, settings: Settings) -> dict[str, Any]:
    info, cost, device = model_info(name), model_cost(name), settings.device
    channels, side, _ = info.largest_input
    images, config, half = settings.batch or BATCH[side], load_config(info.recipe), settings.precision == "bfloat16"
    torch.manual_seed(0)
    model = create_model(name).to(device).train()
    if half and device.type == "cuda" and name.startswith("wrn"):  # on CPUs torch 2.13 then writes beyond its memory
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(model, config.optim)
    x = torch.randn(images, channels, side, side, device=device)
    labels = torch.arange(images, device=device) % info.default("classes")

    def step(forward: Callable[[Tensor], Tensor] = model) -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = forward(x)
        loss = config.loss
        scale_loss(logits.float(), labels, loss.hinge, loss.weight, loss.margin, loss.levels).backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimizer.step()

    result: dict[str, Any] = {"model": name, "parameters": cost.parameters, "flops": cost.flops}
    result |= {"fixed_flops": cost.fixed_flops, "side": side, "batch": images}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    own = [1e3 * t for t in settings.times([step])[0]]
    result |= {"step_ms": statistics.median(own), "spread_ms": max(own) - min(own)}
    if device.type == "cuda":
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
        graphed = GraphedTraining(model)
        result["graphed_ms"] = None if half else 1e3 * statistics.median(settings.times([lambda: step(graphed)])[0])
    return result
