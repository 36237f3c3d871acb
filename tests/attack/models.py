"""Random classifiers: their features and the logits of every level, of the whole image and of downscaled ones."""

from __future__ import annotations

import math

import torch

from fourierscale.functional import Levels, downscale
from fourierscale.kernels import ACTIVATIONS, backend
from fourierscale.models import LayerConfig, ScaleClassifier, ScaleHead, ScaleNet
from tests.attack import exactness
from tests.attack.exactness import BACKENDS, DEVICE, DTYPES, Pair
from tests.attack.frame import Case, Part

HEADS = ["plain", "temperature", "cumulative", "average"]


class Models(Part):
    """A net and a head at one size: features and logits of downscaled images are among those of the whole one."""

    name = "models"
    what = "random classifiers, heads and levels: features and logits of downscaled images agree"
    cases = 3_000

    def attack(self, case: Case) -> str:
        """One classifier at one size, downscaled to some resolutions."""
        boundary = case.choose("boundary", ["circular", "circular", "mirror"])
        dtype = case.choose("dtype", DTYPES)
        levels = exactness.draw_levels(case, 2, closed=True)
        local = case.often("local", 0.8)  # if not, there are no weights above the highest level
        size = exactness.draw_size(case, levels, 2, above=local)
        channels = case.whole("channels", 1, 3)
        model = draw_classifier(case, channels, levels, boundary, local).to(DEVICE).eval()
        exactness.randomise(model)
        x = exactness.draw_input(case, (case.whole("batch", 1, 2), channels, *size))
        first, second = case.choose("backend", BACKENDS), case.choose("other backend", BACKENDS)
        sizes = exactness.smaller_sizes(case, levels, size)

        def passes(dtype: torch.dtype) -> list[Pair]:
            model.to(dtype)
            with backend(first):
                features, logits = model.features_and_logits(x.to(dtype))
            with backend(second):
                found = [Pair(f"{second} beside {first}", model(x.to(dtype)), logits, logits)]
                for smaller in sizes:
                    small, answers = model.features_and_logits(downscale(x, smaller, boundary=boundary).to(dtype))
                    found.append(exactness.common_frequencies(features, small, 2, f"features at {smaller}"))
                    places = exactness.all_inside(model.level_bands(smaller), model.level_bands(size))
                    found.append(Pair(f"logits at {smaller}", logits[:, places], answers, logits))
            return found

        with torch.no_grad():
            exact = exactness.agree(passes, dtype)
        return f"head {model.head.head}" if exact else "rounding magnified"


def draw_classifier(case: Case, channels: int, levels: Levels, boundary: str, local: bool) -> ScaleClassifier:
    """A small :class:`ScaleClassifier` with options of every kind."""
    widths = [case.random.randint(4, 6) for _ in range(case.random.randint(1, 3))]
    pools = [case.random.choice([1, 1, 2, 3]) for _ in widths]
    lowest = -(-max(levels.highest) // math.prod(pools))  # samples of the reference grid behind all poolings
    layers = LayerConfig(
        activation=case.choose("activation", list(ACTIVATIONS)),
        norm=case.choose("norm", ["instance", "none"]),
        grid=case.choose("grid", ["level", "common"]),
        oversample=case.choose("oversample", [1.0, 1.0, 1.5, 2.0]),
        pool_kind=case.choose("pooling", ["max", "average"]),
        pointwise=case.often("pointwise", 0.5),
        local=local,
    )
    net = ScaleNet(
        channels,
        case.note("widths", widths),
        levels,
        kernel_size=case.whole("taps", 1, min(5, lowest)),
        pool=case.note("pool", pools),
        residual=case.often("residual", 0.3),
        stem=3,
        boundary=boundary,
        layers=layers,
    )
    head = ScaleHead(
        net.out_channels,
        case.whole("classes", 2, 5),
        net.out_levels,
        case.choose("head", HEADS),
        hidden=case.whole("hidden", 4, 8),
        cells=case.whole("cells", 1, 3),
        pool_kind=case.choose("head pooling", ["max", "average"]),
        boundary=boundary,
    )
    return ScaleClassifier(net, head)
