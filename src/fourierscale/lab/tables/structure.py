r"""The structure of the paper's Claim 1, measured: which frequencies of an output depend on which of the input."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from fourierscale.functional import analyze, synthesize
from fourierscale.functional.bands import axis_bands, frequencies
from fourierscale.models import ScaleNet
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d

__all__ = ["Structure", "dependence", "structures"]


@dataclass(frozen=True)
class Structure:
    """What one layer or net depends on.

    Attributes:
        name: The name of the layer or net.
        key: ``"ours"`` or ``"cnn"``, which decides the colour.
        shares: For each frequency of the output, coarse to fine, the share of each frequency of the input.
        levels: Bands at which equivariance is asked for, coarse to fine, the last no lower than any frequency.
    """

    name: str
    key: str
    shares: list[list[float]]
    levels: Sequence[int]

    def beyond(self) -> list[float]:
        """For each frequency of the output, the share of those beyond its level; the claim says none.

        >>> Structure("", "cnn", [[0.75, 0.25, 0.0], [0.5, 0.25, 0.25]], [1, 2]).beyond()
        [0.0, 0.25]
        """
        return [sum(line[self.levels[bisect_left(self.levels, k)] + 1 :]) for k, line in enumerate(self.shares)]


def dependence(function: Callable[[Tensor], Tensor], coeffs: Tensor, probes: int = 4, seed: int = 0) -> Tensor:
    r"""How much of an output frequency's change comes from each input frequency.

    .. math:: D[k, j] = \lVert J_{kj} \rVert^2 \Big/ \sum_i \lVert J_{ki} \rVert^2,
              \qquad J_{kj} = \partial Y[|\cdot|_\infty = k] \,/\, \partial X[|\cdot|_\infty = j]

    The norms are estimated by gradients of random sums of each output frequency, so what does not depend at all is
    exactly zero.

    Args:
        function: Coefficients to coefficients, each image by itself.
        coeffs: Where to differentiate, ``(1, C, 2K+1, 2K+1)``.
        probes: Random sums of each output frequency.
        seed: The seed of the random sums.

    Returns:
        ``(output frequencies, input frequencies)``, each line with the sum 1.

    >>> dependence(torch.relu, torch.ones(1, 1, 3, 3)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    with torch.no_grad():
        ring = _rings(function(coeffs))
    lines = torch.stack([ring == k for k in range(int(ring.max()) + 1)])[:, None]  # (K, 1, m', m')
    columns = torch.stack([_rings(coeffs) == j for j in range(int(_rings(coeffs).max()) + 1)])  # (J, m, m)
    point = coeffs.repeat(len(lines), 1, 1, 1).requires_grad_()  # an image for each output frequency
    outputs = function(point)
    generator, total = torch.Generator().manual_seed(seed), torch.zeros(len(lines), len(columns)).double()
    for _ in range(probes):
        weights = torch.randn(outputs.shape, generator=generator, dtype=torch.float64).to(outputs) * lines
        (gradient,) = torch.autograd.grad(outputs, point, weights, retain_graph=True)
        energy = gradient.double().square().sum(1)  # (K, m, m)
        total += torch.stack([energy[:, column].sum(1) for column in columns], 1)
    return total / total.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)


def structures(ours: nn.Module, cnn: nn.Module, image: Tensor) -> list[Structure]:
    """A Fourier layer, a plain ReLU, a scale-equivariant one, a whole CNN and a whole net of ours, at one image.

    Args:
        ours: Has a :class:`~fourierscale.models.ScaleNet`, whose first convolution and activation are taken as well.
        cnn: Has ``features``, which are maps.
        image: ``(1, C, n, n)``, normalised.
    """
    size, coeffs = tuple(image.shape[-2:]), analyze(image.double())
    ours, cnn = (copy.deepcopy(model).double().eval() for model in (ours, cnn))
    net = _first(ours, ScaleNet)
    convolve, activate = _first(net, LocalFourierConv2d), _first(net, ScaleActivation2d)
    levels = [max(level) for level in net.levels.of_input(axis_bands(size))]
    with torch.no_grad():
        features = convolve(coeffs)
    measured: tuple[tuple[str, str, Callable[[Tensor], Tensor], Tensor], ...] = (
        ("a Fourier layer", "ours", convolve, coeffs),
        ("a plain ReLU", "cnn", lambda c: analyze(torch.relu(synthesize(c, size))), features),
        ("our activation", "ours", activate, features),
        ("the whole small CNN", "cnn", lambda c: analyze(cnn.features(synthesize(c, size))), coeffs),  # type: ignore[operator]
        ("our whole net", "ours", net.blocks, coeffs),
    )
    return [Structure(name, key, dependence(function, at).tolist(), levels) for name, key, function, at in measured]


Part = TypeVar("Part", bound=nn.Module)


def _first(model: nn.Module, kind: type[Part]) -> Part:
    return next(part for part in model.modules() if isinstance(part, kind))


def _rings(coeffs: Tensor) -> Tensor:
    """The larger of both frequencies of each coefficient, ``(m, n)``."""
    vertical, horizontal = (frequencies(length, torch.float64, coeffs.device) for length in coeffs.shape[-2:])
    return torch.maximum(vertical[:, None], horizontal)
