"""Random layers: coefficients in and out, or images in and out, alone and in stacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fourierscale.functional import Levels, analyze, crop, downscale
from fourierscale.functional.bands import Box, axis_bands, grids
from fourierscale.kernels import ACTIVATIONS, backend
from fourierscale.nn import conv, nested
from fourierscale.nn.structure import ScaleDropout, ScaleEquivariant, ScaleResidual, ToCoefficients
from tests.attack import exactness
from tests.attack.exactness import BACKENDS, DEVICE, DTYPES, Pair
from tests.attack.frame import Case, Part


class Layers(Part):
    """Stacks of one to three layers over any level set; every pass that is downscaled must give the same numbers."""

    name = "layers"
    what = "random layers, levels, sizes, boundaries, dtypes and backends: downscaled passes agree"
    cases = 10_000

    def attack(self, case: Case) -> str:
        """One stack at one size, downscaled to some resolutions."""
        axes = case.choose("axes", [1, 2, 2, 2, 2, 3])
        boundary = case.choose("boundary", ["circular", "circular", "mirror"])
        images = case.often("images", 0.4)
        dtype = case.choose("dtype", DTYPES)
        levels = exactness.draw_levels(case, axes)
        size = exactness.draw_size(case, levels, axes)
        inner = levels.periods(boundary) if images else levels
        full = grids(axis_bands(size, boundary if images else "circular"))
        channels = case.whole("channels", 1, 3)
        circular = boundary == "circular"
        stack, rate = draw_stack(case, axes, inner, full, channels)
        exactness.randomise(stack)
        layer: nn.Module = stack
        if images:  # with a mirror the statement is about coefficients: features are no mirror images
            layer = (
                ScaleEquivariant(stack, rate, axes)
                if circular
                else nn.Sequential(ToCoefficients(axes, boundary), stack)
            )
        layer = layer.to(DEVICE).train(case.often("training", 0.2))
        x = exactness.draw_input(case, (case.whole("batch", 1, 2), channels, *size))
        first, second = case.choose("backend", BACKENDS), case.choose("other backend", BACKENDS)
        sizes = exactness.smaller_sizes(case, levels, size)

        def passes(dtype: torch.dtype) -> list[Pair]:
            layer.to(dtype)
            given = (x if images else analyze(x, axes)).to(dtype)
            with backend(first):
                large = layer(given)
            with backend(second):
                found = [Pair(f"{second} beside {first}", layer(given), large, large)]
                for smaller in sizes:
                    if not images:
                        small = layer(crop(given, smaller))
                    else:
                        small = layer(downscale(x, smaller, boundary=boundary).to(dtype))
                    both = [analyze(y.double(), axes).to(dtype) if images and circular else y for y in (large, small)]
                    found.append(exactness.common_frequencies(*both, axes, f"downscaled to {smaller}"))
            return found

        with torch.set_grad_enabled(case.often("grad", 0.3)):
            exact = exactness.agree(passes, dtype)
        return f"{axes}D" if exact else "rounding magnified"


def draw_stack(case: Case, axes: int, levels: Levels, full: Box, channels: int) -> tuple[nn.Module, int]:
    """One to three layers, and by how much they pool in all."""
    layers: list[nn.Module] = []
    rate = 1
    highest = tuple(max(n, m) for n, m in zip(full, _named_highest(levels, full), strict=True))
    for depth in range(case.whole("depth", 1, 3)):
        kind = case.choose(f"layer {depth}", ["local", "global", "activation", "activation", "pool", "residual"])
        layer, window = draw_layer(case, f" {depth}", kind, axes, levels, highest, channels)
        layers.append(layer)
        rate *= window
        levels, highest = levels.pooled(window), tuple(-(-n // window) for n in highest)
    return nn.Sequential(*layers), rate


def draw_layer(
    case: Case, mark: str, kind: str, axes: int, levels: Levels, highest: Box, channels: int
) -> tuple[nn.Module, int]:
    """A layer that keeps the number of channels, and by how much it pools."""
    if kind == "residual":
        inner = case.choose(f"body{mark}", ["local", "activation", "pool"])
        body, window = draw_layer(case, mark, inner, axes, levels, highest, channels)
        return ScaleResidual(nn.Sequential(ScaleDropout(0.0, axes), body), axes=axes), window
    if kind == "local":
        reference = [case.random.randint(1, n) for n in highest]
        taps = [case.random.randint(1, min(n, 5)) for n in reference]
        case.note(f"taps{mark}", (taps, reference))
        return _class(conv.LocalFourierConv1d, conv.LocalFourierConv2d, conv.LocalFourierConv3d)[axes](
            channels, channels, taps, reference, case.often(f"bias{mark}", 0.5), case.often(f"pointwise{mark}", 0.5)
        ), 1
    if kind == "global":
        return _class(conv.FourierConv1d, conv.FourierConv2d, conv.FourierConv3d)[axes](
            channels, channels, highest, case.often(f"bias{mark}", 0.5), case.often(f"pointwise{mark}", 0.5)
        ), 1
    grid = case.choose(f"grid{mark}", ["level"] if levels.is_open else ["level", "common"])
    oversample = case.choose(f"oversample{mark}", [1.0, 1.0, 1.25, 1.5, 2.0])
    window, pooling = case.whole(f"window{mark}", 1, 3), case.choose(f"pooling{mark}", ["max", "average"])
    if kind == "pool":
        return _class(nested.ScalePool1d, nested.ScalePool2d, nested.ScalePool3d)[axes](
            window, levels, pooling, grid, oversample
        ), window
    activation = case.choose(f"activation{mark}", [*ACTIVATIONS, squashed])
    return _class(nested.ScaleActivation1d, nested.ScaleActivation2d, nested.ScaleActivation3d)[axes](
        channels,
        levels,
        activation,
        case.choose(f"norm{mark}", ["instance", "none"]),
        grid,
        oversample,
        window,
        pooling,
    ), window


def squashed(x: Tensor) -> Tensor:
    """An activation of the user's own."""
    return x / (1 + x.abs())


def _class(*by_axes: type[nn.Module]) -> dict[int, type[nn.Module]]:
    return dict(enumerate(by_axes, 1))


def _named_highest(levels: Levels, full: Box) -> Box:
    if levels.is_open:
        return full
    highest = levels.highest
    return highest * len(full) if len(highest) == 1 else highest
