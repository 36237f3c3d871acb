"""Ours and its peers, built by name for a case, each with the input it takes.

- ``"ours"``: what a user gets. ``"specification"`` and ``"gemm"``: the same under that backend.
- ``"cnn"``, ``"cnn-no-norm"``: the plain CNN of the same widths and taps, with instance norm and without.
- ``"naive-fft"``: the same function as ours as the paper writes it, with FFTs per level.
- ``"fno"``: a global Fourier layer with weights up to the band of 28 pixels. ``"sesn"``, ``"disco"``: the layers of
  their STL-10 networks, three scales.
- any name of :func:`fourierscale.create_model`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional.bands import axis_bands, band, grids
from fourierscale.kernels import Backend
from fourierscale.kernels.layout import channel_first, frequency_first
from fourierscale.lab.baselines.parts.disco_fit import disco_basis
from fourierscale.lab.baselines.parts.hermite import hermite_basis
from fourierscale.lab.baselines.parts.scales import ScaleBatchNorm2d
from fourierscale.lab.baselines.parts.steerable import ScaleConv2d
from fourierscale.lab.bench.cases import PAIR, Case
from fourierscale.lab.bench.peers import FnoLayer, NaiveNet, NaivePair, PlainCNN, plain_pair
from fourierscale.models import ScaleClassifier, create_model, model_info
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d

__all__ = ["BACKENDS", "Contestant", "build_ours", "make_contestants"]

BACKENDS: dict[str, Backend] = {"ours": "auto", "specification": "torch", "gemm": "gemm"}
"""The contestants that are ours."""

SCALES = {"sesn": (0.9, 0.9 * 1.41, 0.9 * 1.41**2), "disco": (1.0, 1.41, 2.0)}


@dataclass
class Contestant:
    """A module in a case, the input it takes and the backend it runs under."""

    name: str
    model: nn.Module
    x: Tensor
    backend: Backend = "auto"


def make_contestants(case: Case, device: torch.device) -> list[Contestant]:
    """Ours, then its peers; those that compute the same function have the same parameters and input."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = build_ours(case)
        images = torch.randn(case.batch, case.channels, case.size, case.size)
        contestants = [_make(name, case, ours, images) for name in ("ours", *case.peers)]
    for contestant in contestants:
        contestant.model.to(device).train(case.train)
        contestant.x = contestant.x.to(device)
    return contestants


def build_ours(case: Case) -> nn.Module:
    """The network or the pair of layers of a case, without dropout."""
    if case.model == PAIR:
        return nn.Sequential(
            LocalFourierConv2d(case.channels, case.channels, case.taps, case.size, bias=False),
            ScaleActivation2d(case.channels, case.resolutions, grid=case.grid),
        )
    return create_model(case.model, resolutions=case.resolutions, grid=case.grid, dropout=0.0)


def _make(name: str, case: Case, ours: nn.Module, images: Tensor) -> Contestant:
    if name in BACKENDS:
        # The door of a network takes images, a pair coefficients as the layer before would store them.
        x = _coefficients(images) if case.model == PAIR else images
        return Contestant(name, copy.deepcopy(ours), x, BACKENDS[name])
    if case.model == PAIR:
        return _pair_peer(name, case, copy.deepcopy(ours), images)
    return Contestant(name, _net_peer(name, case, copy.deepcopy(ours)), images)


def _pair_peer(name: str, case: Case, ours: Any, images: Tensor) -> Contestant:
    c = case.channels
    if name in ("cnn", "cnn-no-norm"):
        return Contestant(name, plain_pair(c, c, case.taps, name == "cnn"), images)
    if name == "naive-fft":
        side = grids((band(case.size),))[0]
        samples = images[..., :side, :side]
        return Contestant(name, NaivePair(*ours), torch.fft.rfft2(samples, norm="forward"))
    if name == "fno":
        return Contestant(name, FnoLayer(c, c, band(min(case.size, 28))), images)
    if name in SCALES:
        basis = hermite_basis(7, SCALES[name], 9) if name == "sesn" else disco_basis(5, 3, SCALES[name])
        layer = nn.Sequential(ScaleConv2d(c, c, basis, bias=False), ScaleBatchNorm2d(c), nn.ReLU())
        return Contestant(name, layer, images[:, :, None].repeat(1, 1, len(SCALES[name]), 1, 1))
    raise ValueError(f"unknown peer {name!r} of a pair of layers")


def _net_peer(name: str, case: Case, ours: nn.Module) -> nn.Module:
    if name == "naive-fft":
        assert isinstance(ours, ScaleClassifier)
        return NaiveNet(ours)
    if name not in ("cnn", "cnn-no-norm"):
        return create_model(name)
    info = model_info(case.model)
    widths = info.default("widths")
    taps, pools = (
        (value,) * len(widths) if isinstance(value, int) else tuple(value)
        for value in (info.default("kernel_size"), info.default("pool"))
    )
    return PlainCNN(
        info.default("in_channels"),
        widths,
        taps,
        pools,
        name == "cnn",
        info.default("residual"),
        info.default("stem"),
        info.default("classes"),
        info.default("hidden"),
    )


def _coefficients(images: Tensor) -> Tensor:
    """Noise in the place of coefficients, stored frequency first."""
    rows, columns = grids(axis_bands(images.shape[-2:]))
    coeffs = images[..., :rows, :columns]
    return channel_first(frequency_first(coeffs, 2), coeffs.shape[:1])
