"""The page without a server: the nets' weights and their arithmetic travel inside it."""

from __future__ import annotations

import base64
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fourierscale.functional.levels import Levels
from fourierscale.lab.baselines.cnn import SmallCNN
from fourierscale.lab.explore.page import build_page, read_part
from fourierscale.lab.explore.viewer import Net, Viewer
from fourierscale.models import ScaleClassifier, ScaleHead, ScaleNet, WeightsError
from fourierscale.models.files import write_whole
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d

__all__ = ["describe_net", "write_page"]

DOUBLE = "The browser computes in double precision, where anything near 1e-28 is rounding."
MAX_PARAMETERS = 3_000_000  # a page of 16 MB


class Weights:
    """Collects tensors in one array; a part of it is named by its two ends."""

    def __init__(self) -> None:
        self.parts: list[Tensor] = []
        self.length = 0

    def add(self, tensor: Tensor) -> dict[str, list[int]]:
        """Append a tensor and return what stands for it in a description."""
        flat = tensor.detach().float().cpu().flatten()
        self.parts.append(flat)
        self.length += len(flat)
        return {"$": [self.length - len(flat), self.length]}

    def base64(self) -> str:
        """All of them, as little-endian single precision."""
        return base64.b64encode(torch.cat(self.parts).numpy().astype(np.dtype("<f4")).tobytes()).decode()


def write_page(viewer: Viewer, folder: str | os.PathLike[str]) -> Path:
    """Write ``index.html``, which works wherever it is opened, from a disk too; returns its path.

    A net beside the first one that the page cannot compute is left out.

    Raises:
        WeightsError: The page cannot compute the first net.
    """
    weights = Weights()
    nets, about = [], viewer.about()
    for number, net in enumerate(viewer.nets):
        try:
            nets.append(describe_net(net, weights))
        except WeightsError:
            if number == 0:
                raise
    kept = {net["key"] for net in nets}
    about["nets"] = [net for net in about["nets"] if net["key"] in kept]
    worker = "\n".join(read_part(name) for name in ("fourier.js", "layers.js", "worker.js"))
    engine = "\n".join(
        [
            f'<script type="text/plain" id="weights">{weights.base64()}</script>',
            f'<script type="application/json" id="nets">{json.dumps(nets)}</script>',
            f'<script type="text/plain" id="worker">\n{worker}</script>',
            f"<script>\n{read_part('local.js')}</script>",
        ]
    )
    root = Path(folder).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    path = root / "index.html"
    write_whole(path, build_page(about, engine, DOUBLE))
    return path


def describe_net(net: Net, weights: Weights) -> dict[str, Any]:
    """What ``worker.js`` needs to compute a net.

    Args:
        net: A :class:`ScaleClassifier` of plain blocks, or a :class:`SmallCNN`.
        weights: Gets its tensors.
    """
    count = sum(parameter.numel() for parameter in net.model.parameters())
    if count > MAX_PARAMETERS:
        raise _cannot(net, f"has {count:,} parameters, more than the {MAX_PARAMETERS:,} that a page should carry")
    if net.preprocessing.kind != "ideal":
        raise _cannot(net, f"downscales its images with {net.preprocessing.kind!r}, the page with 'ideal'")
    if {net.model.boundary, net.preprocessing.boundary} != {"circular"}:
        raise _cannot(net, "sees another boundary than 'circular'")
    shared = {"key": net.key, "mean": list(net.preprocessing.mean), "std": list(net.preprocessing.std)}
    if isinstance(net.model, SmallCNN) and net.preprocessing.enlarge == "zero":
        return shared | {"kind": "cnn", "description": _cnn(net.model, net.preprocessing.enlarge_size or 0, weights)}
    if isinstance(net.model, ScaleClassifier) and net.preprocessing.enlarge is None:
        if not isinstance(net.model.net, ScaleNet):
            raise _cannot(net, "is not a ScaleNet")
        layers = [_block(net, block, weights) for block in net.model.net.blocks]
        head = _head(net, net.model.head, weights)
        return shared | {"kind": "scalenet", "description": {"layers": layers, "head": head}}
    raise _cannot(net, "is neither a ScaleClassifier nor a small CNN")


def _block(net: Net, block: nn.Module, weights: Weights) -> dict[str, Any]:
    conv, activation = block.children()
    if not isinstance(conv, LocalFourierConv2d):
        raise _cannot(net, "has residual blocks or global layers")
    if not isinstance(activation, ScaleActivation2d) or activation.activation != "relu":
        raise _cannot(net, "has activations other than ReLU")
    if activation.norm == "batch":
        raise _cannot(net, "has batch norms")
    if len(set(conv.kernel_size)) > 1 or len(set(conv.reference_size)) > 1:
        raise _cannot(net, "has kernels that are not square")
    return {
        "conv": {
            "inputs": conv.in_channels,
            "outputs": conv.out_channels,
            "taps": conv.kernel_size[0],
            "reference": conv.reference_size[0],
            "weight": weights.add(conv._both_paths()),
            "bias": None if conv.bias is None else weights.add(conv.bias),
        },
        "activation": {
            "levels": _bands(net, activation.levels),
            "highest": max(activation.levels.highest),
            "common": activation.grid == "common",
            "oversample": activation.oversample,
            "pool": activation.pool,
            "kind": activation.pool_kind,
            "eps": activation.eps,
            "weight": None if activation.weight is None else weights.add(activation.weight),
            "bias": None if activation.bias is None else weights.add(activation.bias),
        },
    }


def _head(net: Net, head: ScaleHead, weights: Weights) -> dict[str, Any]:
    if head.pool_kind == "both":
        raise _cannot(net, "has a head that takes maxima and means")
    inner_norm, first = head.inner.children()
    outer_norm, _, last = head.outer.children()
    return {
        "levels": _bands(net, head.levels),
        "form": head.head,
        "window": head.window,
        "cells": head.cells,
        "kind": head.pool_kind,
        "steps": None if head.steps is None else weights.add(head.steps),
        "innerNorm": _norm(inner_norm, weights),
        "first": _linear(first, weights),
        "outerNorm": _norm(outer_norm, weights),
        "last": _linear(last, weights),
    }


def _cnn(model: SmallCNN, size: int, weights: Weights) -> dict[str, Any]:
    convs, modules = [], list(model.body)
    for conv, norm in itertools.pairwise(modules):
        if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            fused = nn.utils.fusion.fuse_conv_bn_eval(conv, norm)
            assert fused.bias is not None
            convs.append(
                {
                    "inputs": conv.in_channels,
                    "outputs": conv.out_channels,
                    "taps": conv.kernel_size[0],
                    "weight": weights.add(fused.weight),
                    "bias": weights.add(fused.bias),
                }
            )
    return {"convs": convs, "last": _linear(model.head[-1], weights), "size": size}


def _linear(layer: nn.Module, weights: Weights) -> dict[str, Any]:
    assert isinstance(layer, nn.Linear)
    shape = {"inputs": layer.in_features, "outputs": layer.out_features}
    return shape | {"weight": weights.add(layer.weight), "bias": weights.add(layer.bias)}


def _norm(layer: nn.Module, weights: Weights) -> dict[str, Any]:
    assert isinstance(layer, nn.LayerNorm)
    return {"weight": weights.add(layer.weight), "bias": weights.add(layer.bias), "eps": layer.eps}


def _bands(net: Net, levels: Levels) -> list[int]:
    if levels.is_open or any(len(box) > 1 for box in levels.bands):
        raise _cannot(net, "has levels that are open or not square")
    return [box[0] for box in levels.bands]


def _cannot(net: Net, reason: str) -> WeightsError:
    return WeightsError(f"the page without a server cannot hold {net.name}: it {reason}; leave --build out")
