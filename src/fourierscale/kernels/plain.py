r"""The fast twins for programs that leave PyTorch: plain operators, nothing in place, any number of images.

``torch.export`` and ONNX know neither the operators of this library nor loops over pieces of a batch. Here a Fourier
layer is one batched product between sums and differences, a nested map a few products per level, all of them frequency
first, ``(n_1, n_2, B, C)``, so that a runtime sees large products and hardly a permutation. Images alone; other numbers
of axes are exported as :mod:`fourierscale.functional` writes them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor

from fourierscale.functional.bands import Box, grids
from fourierscale.functional.constants import made_apart
from fourierscale.functional.nested import ACTIVATIONS, Level, PoolKind
from fourierscale.functional.transform import synthesis_matrix
from fourierscale.kernels.mixing import halves
from fourierscale.kernels.nested import statistics
from fourierscale.kernels.plans import Options, Step, prepare


def fourier_conv(x: Tensor, spectrum: Tensor) -> Tensor:
    """Mix the channels of each frequency; see :func:`fourierscale.functional.fourier_conv`.

    Args:
        x: ``(n_1, n_2, B, C_in)``.
        spectrum: Even and odd parts ``(C_out, C_in, n_1, n_2)``.
    """
    return mix(x, mixing_weights(spectrum))


def mixing_weights(spectrum: Tensor) -> Tensor:
    """What :func:`mix` takes of a spectrum ``(C_out, C_in, n_1, n_2)``: ``(n_1, n_2 // 2 + 1, C_in, 2 C_out)``."""
    factors = halves(spectrum.shape[2], spectrum.dtype, spectrum.device).reshape(-1, 1, 1, 1)
    return torch.cat(_spread(spectrum.permute(2, 3, 1, 0) * factors), -1)


def mix(x: Tensor, weights: Tensor) -> Tensor:
    r"""One batched product: rows :math:`[\mathrm{Re}\,h; \mathrm{Im}\,h]` of the half plane, columns
    :math:`[\mathrm{Re}\,K, \mathrm{Im}\,K]`. All four products of complex numbers are in it, each weight read once.

    Args:
        x: ``(n_1, n_2, B, C_in)``.
        weights: ``(n_1, n_2 // 2 + 1, C_in, 2 C_out)``.
    """
    batch, out_channels = x.shape[2], weights.shape[3] // 2
    products = torch.cat(_spread(x), 2) @ weights  # (n_1, q, 2 B, 2 C_out)
    from_re, from_im = products[:, :, :batch], products[:, :, batch:]
    y_re = from_re[..., :out_channels] - from_im[..., out_channels:]
    y_im = from_re[..., out_channels:] + from_im[..., :out_channels]
    return _gather(y_re, y_im)


def _spread(x: Tensor) -> tuple[Tensor, Tensor]:
    r""":math:`T` of :mod:`fourierscale.kernels.mixing`: real and imaginary parts ``(n_1, n_2 // 2 + 1, ...)``.

    The first axis is ordered :math:`0, +1, +2, \dots, -1, -2, \dots`, the second :math:`0, 1, 2, \dots`.
    """
    re = torch.cat([x[:, :1], x[:, 1::2]], 1)
    im = torch.cat([torch.zeros_like(x[:, :1]), x[:, 2::2]], 1)
    re_cos, re_sin, im_cos, im_sin = re[1::2], re[2::2], im[1::2], im[2::2]
    return (
        torch.cat([re[:1], re_cos - im_sin, re_cos + im_sin]),
        torch.cat([im[:1], im_cos + re_sin, im_cos - re_sin]),
    )


def _gather(re: Tensor, im: Tensor) -> Tensor:
    r""":math:`T^\top`: back to cosines and sines, ``(n_1, n_2, ...)``."""
    middle = re.shape[0] // 2 + 1
    re_plus, re_minus, im_plus, im_minus = re[1:middle], re[middle:], im[1:middle], im[middle:]
    cosines = torch.cat([re[:1], _interleave(re_plus + re_minus, im_plus - im_minus, 0)])
    sines = torch.cat([im[:1], _interleave(im_plus + im_minus, re_minus - re_plus, 0)])
    return torch.cat([cosines[:, :1], _interleave(cosines[:, 1:], sines[:, 1:], 1)], 1)


def _interleave(first: Tensor, second: Tensor, axis: int) -> Tensor:
    return torch.stack([first, second], axis + 1).flatten(axis, axis + 1)


def nested_activation(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: tuple[Level, ...], o: Options
) -> Tensor:
    """Value of the nested activation, ``(n_1, n_2, B, C)`` to ``(n'_1, n'_2, B, C)``, levels that are a chain."""
    size = tuple(operator.index(n) for n in x.shape[:2])
    prepared = made_apart(prepare, plan, size, o.pool, x.dtype, x.device)
    shape = x.shape[2:]
    flat = x.flatten(2)
    if o.norm:  # the norm replaces the mean: without it, the new mean is a number added to the samples
        first = torch.cat([torch.zeros_like(flat[:1, :1]), flat[:1, 1:]], 1)
        flat = torch.cat([first, flat[1:]])
    scale, shift, _ = statistics(x, weight, bias, prepared, o, flat.to(prepared.rows.dtype).square())
    output: Tensor | None = None
    for i, step in enumerate(prepared.steps):
        c = flat[step.read]
        z = _synthesize(c * scale[i], step) + shift[i] if o.norm else _synthesize(c, step)
        samples = _pool(ACTIVATIONS[o.activation](z), o.pool, o.pool_kind)
        output = _frame(output, samples, step)
    assert output is not None
    return torch.unflatten(output, -1, shape)


def _synthesize(c: Tensor, step: Step) -> Tensor:
    rows, columns = step.synthesis
    return columns @ _down(rows, c)


def _down(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply along the first of two frequency axes, as one product."""
    return torch.unflatten(matrix @ x.flatten(1), -1, x.shape[1:])


def _frame(inside: Tensor | None, samples: Tensor, step: Step) -> Tensor:
    """Coefficients of a level: those of the levels before it, framed by the rim of its own samples."""
    blocks = {}
    for place, rows in step.rims:
        y = samples
        for axis, matrix in rows:
            y = _down(matrix, y) if axis == 0 else matrix @ y
        blocks[place[0].start > 0] = y  # below, over all columns; else beside
    if inside is None:
        return y
    if False in blocks:
        inside = torch.cat([inside, blocks[False]], 1)
    return torch.cat([inside, blocks[True]]) if True in blocks else inside


def _pool(x: Tensor, window: int, kind: PoolKind) -> Tensor:
    """Pool both axes of ``(n_1, n_2, Q)``, one after the other: two simple reductions."""
    if window == 1:
        return x
    for axis in (1, 0):
        windows = torch.unflatten(x, axis, (x.shape[axis] // window, window))
        x = windows.amax(axis + 1) if kind == "max" else windows.mean(axis + 1)
    return x


def level_pool(x: Tensor, boxes: Sequence[Box], window: int, cells: int, kind: PoolKind) -> Tensor:
    """Pooled samples of every level, ``(B, levels, C * cells^2)``; see :func:`fourierscale.functional.level_pool`."""
    n = window * cells
    flat = x.flatten(2)
    pooled = []
    for box in boxes:
        rows, columns = (synthesis_matrix(n, k, x.dtype, x.device) for k in box)
        height, width = grids(box)
        pooled.append(_pool(columns @ _down(rows, flat[:height, :width]), window, kind))
    every = torch.unflatten(torch.stack(pooled), -1, x.shape[2:])  # (levels, cells, cells, B, C)
    return every.permute(3, 0, 4, 1, 2).flatten(2)
