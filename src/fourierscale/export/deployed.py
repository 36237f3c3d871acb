r"""A model as it leaves: normalisation and several image sizes in front of it, constants instead of taps.

Every size becomes the largest by one matrix per axis, :math:`x \mapsto P_n x P_n^\top`. For a scale-equivariant net
:math:`P_n` is ideal upscaling, which leaves the coefficients of the image as they are and adds zeros: by exactness the
net's levels up to the image's own are the logits of the image itself, and the rest is cut off. For a net of one input
size :math:`P_n` is the padding or upscaling that it was trained with. One graph serves all sizes, without a branch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional import upscale
from fourierscale.functional.bands import Boundary
from fourierscale.functional.conv import delta_spectrum
from fourierscale.kernels.conv import plain
from fourierscale.kernels.conv.spectra import ENTRIES_KEPT
from fourierscale.kernels.layout import channel_first, frequency_first
from fourierscale.models.classifier import ScaleClassifier
from fourierscale.nn import FourierConv2d, LocalFourierConv2d

__all__ = ["Deployed", "freeze", "size_matrix", "spectrum_entries"]

KINDS = (LocalFourierConv2d, FourierConv2d)


class Deployed(nn.Module):
    """Square images of one of several sizes to logits, and to the final features if wanted.

    A size that is not in the set is refused when the program runs: there are no columns for it in the table.

    Args:
        model: What to deploy.
        sizes: Side of the images, increasing.
        reach: Side at which the model runs, at least the largest of ``sizes``.
        enlarge: How a smaller image reaches it; a mode of :func:`fourierscale.functional.enlarging.enlarge_to`.
        normalise: Mean and standard deviation per channel, for images of 0..1 pixels; None: images are normalised.
        features: Whether to give the features too.
        levels: For each size how many levels its logits have; empty for a model without levels.
        sides: For each size how many coefficients per axis its features have; empty if they do not depend on it.
        boundary: What lies beyond the edge of the images when they are upscaled.
    """

    def __init__(
        self,
        model: nn.Module,
        sizes: Sequence[int],
        reach: int,
        enlarge: str,
        normalise: tuple[Sequence[float], Sequence[float]] | None,
        features: bool,
        levels: Mapping[int, int],
        sides: Mapping[int, int],
        boundary: Boundary = "circular",
    ) -> None:
        super().__init__()
        self.model = model
        self.features = features
        several = len(sizes) > 1
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in normalise) if normalise else (None, None)
        self.mean = self._keep("mean", mean)
        self.std = self._keep("std", std)
        matrices = starts = None
        if several or sizes[0] != reach:
            matrices = torch.cat([size_matrix(n, reach, enlarge, boundary) for n in sizes], 1)
            starts = _table({n: sum(sizes[:i]) for i, n in enumerate(sizes)}, missing=sum(sizes))
        self.matrices = self._keep("matrices", matrices)
        self.starts = self._keep("starts", starts)
        self.levels = self._keep("levels", _table(levels) if several and levels else None)
        self.sides = self._keep("sides", _table(sides) if several and sides and features else None)

    def _keep(self, name: str, tensor: Tensor | None) -> Tensor | None:
        """A buffer, if there is something to keep: torch.export miscounts buffers that are None."""
        if tensor is not None:
            self.register_buffer(name, tensor)
        return tensor

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Images ``(B, C, n, n)`` to logits ``(B, levels, classes)`` or ``(B, classes)``, and features."""
        n = x.shape[-1]
        if self.matrices is not None and self.starts is not None:
            columns = torch.arange(n, device=x.device) + self.starts[n]
            matrix = self.matrices.index_select(1, columns)  # (reach, n)
            x = matrix @ x @ matrix.mT
        if self.mean is not None and self.std is not None:
            x = (x - self.mean) / self.std
        features = None
        if isinstance(self.model, ScaleClassifier):
            features = self.model.net(x)
            logits = self.model.head(features)
        else:
            logits = self.model(x)
        logits = _first(logits, 1, self.levels, n)
        if not self.features:
            return logits
        if features is None:
            features = self.model.features(x)  # type: ignore[operator]
        return logits, _first(_first(features, 2, self.sides, n), 3, self.sides, n)


def _table(entries: Mapping[int, int], missing: int = 0) -> Tensor:
    """A number for each size, to be looked up in the graph."""
    return torch.tensor([entries.get(n, missing) for n in range(max(entries) + 1)])


def _first(x: Tensor, axis: int, counts: Tensor | None, n: int) -> Tensor:
    """Keep as many entries of an axis as the table has for this size."""
    if counts is None:
        return x
    count: Any = counts[n].item()
    torch._check(count >= 0)  # type: ignore[no-untyped-call]
    torch._check(count <= x.shape[axis])  # type: ignore[no-untyped-call]
    return x.narrow(axis, 0, count)


def size_matrix(n: int, reach: int, enlarge: str, boundary: Boundary = "circular") -> Tensor:
    """The matrix ``(reach, n)`` by which an axis of ``n`` samples becomes one of ``reach``.

    >>> size_matrix(2, 3, "zero")
    tensor([[1., 0.],
            [0., 1.],
            [0., 0.]])
    """
    # Images that are one on a single row: fitted, they are a column of the matrix wherever the image itself is.
    rows = torch.eye(n, dtype=torch.float64)[:, :, None].expand(n, n, n).contiguous()
    if enlarge == "upsample":
        fitted = upscale(rows, reach, boundary) if n < reach else rows
    else:
        from fourierscale.functional.enlarging import enlarge_to

        fitted = enlarge_to(rows, reach, enlarge)  # type: ignore[arg-type]
    return fitted[:, :, (reach - n) // 2].T.float()


def freeze(model: nn.Module, image: Tensor) -> nn.Module:
    """A copy in which Fourier layers hold the spectra of their kernels as constants, for images of this size.

    A spectrum that is too large for a layer to keep (``ENTRIES_KEPT``) is left to be made at each call.
    """
    model = copy.deepcopy(model)
    sizes = _layer_sizes(model, image)
    with torch.no_grad():
        for parent in list(model.modules()):
            for name, layer in list(parent.named_children()):
                if isinstance(layer, KINDS) and layer in sizes and _entries(layer, sizes[layer]) <= ENTRIES_KEPT:
                    setattr(parent, name, _FrozenConv(layer, sizes[layer]))
    return model


def spectrum_entries(model: nn.Module, image: Tensor) -> int:
    """How many numbers the spectra of all Fourier layers have for images of this size."""
    return sum(_entries(layer, size) for layer, size in _layer_sizes(model, image).items())


def _layer_sizes(model: nn.Module, image: Tensor) -> dict[LocalFourierConv2d | FourierConv2d, tuple[int, ...]]:
    """How many coefficients per axis each Fourier layer gets."""
    sizes: dict[LocalFourierConv2d | FourierConv2d, tuple[int, ...]] = {}

    def note(layer: Any, inputs: tuple[Tensor, ...]) -> None:
        sizes[layer] = tuple(inputs[0].shape[-2:])

    hooks = [layer.register_forward_pre_hook(note) for layer in model.modules() if isinstance(layer, KINDS)]
    with torch.no_grad():
        model(image)
    for hook in hooks:
        hook.remove()
    return sizes


def _entries(layer: LocalFourierConv2d | FourierConv2d, size: tuple[int, ...]) -> int:
    return layer.in_channels * layer.out_channels * math.prod(size)


class _FrozenConv(nn.Module):
    """A Fourier layer for coefficients of one size."""

    def __init__(self, layer: LocalFourierConv2d | FourierConv2d, size: tuple[int, ...]) -> None:
        super().__init__()
        spectrum = layer.spectrum(size)
        if layer.pointwise is not None:
            spectrum = spectrum + delta_spectrum(layer.pointwise, size)
        self.weights: Tensor
        self.register_buffer("weights", plain.mixing_weights(spectrum).detach().contiguous())
        self.bias = layer.bias

    def forward(self, coeffs: Tensor) -> Tensor:
        """Coefficients to coefficients."""
        y = plain.mix(frequency_first(coeffs, 2), self.weights)
        if self.bias is not None:
            first = torch.cat([y[:1, :1] + self.bias, y[:1, 1:]], 1)
            y = torch.cat([first, y[1:]])
        return channel_first(y, coeffs.shape[:-3])
