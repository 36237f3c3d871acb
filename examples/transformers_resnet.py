"""A ResNet of transformers, from its config: a classifier made consistent, and a backbone made exact.

    pip install transformers
    python examples/transformers_resnet.py

The classifier gives an object with ``logits``, a backbone one with a tuple of feature maps, 4, 8 and 16 times smaller
than the image. Both come back as what they were. No weights are downloaded: exactness does not depend on them, and
those of ``from_pretrained`` go through the same line.

Expect 1e-12 or less for each row called exact, in float32. Two levels that differ by less than the map's rate write
the same frequencies of the coarsest map, so levels here are octaves of 64 pixels.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import ResNetBackbone, ResNetConfig, ResNetForImageClassification

from fourierscale import downscale, equivariant
from fourierscale.testing import equivariance_error, relative_error

LEVELS = (64, 128)
CONFIG = ResNetConfig(
    embedding_size=16,
    hidden_sizes=[16, 24, 32],
    depths=[1, 1, 1],
    layer_type="basic",
    num_labels=10,
    out_features=["stage1", "stage2", "stage3"],
)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 128, 150)  # sides need not divide by anything
    table = Table(title="128 x 150 px against 64 x 64 px, relative squared error", min_width=60)
    for column in ("output", "alone", "exact"):
        table.add_column(column, justify="right")
    with torch.inference_mode():
        classifier = ResNetForImageClassification(CONFIG).eval()
        consistent = equivariant(classifier, LEVELS).eval()
        small = consistent(downscale(x, 64)).logits
        levels = consistent.per_level(x)  # one output for each level, coarse to fine
        alone = relative_error(classifier(x).logits, classifier(downscale(x, 64)).logits)
        table.add_row("logits of level 64", f"{alone:.0e}", f"{relative_error(levels[0].logits, small):.0e}")

        backbone = ResNetBackbone(CONFIG).eval()
        exact = equivariant(backbone, LEVELS).eval()

        def maps(net: Callable[..., object], number: int) -> Callable[[Tensor], Tensor]:
            return lambda image: net(image).feature_maps[number]  # type: ignore[attr-defined]

        for number, name in enumerate(CONFIG.out_features):
            shape = " x ".join(map(str, exact(x).feature_maps[number].shape[2:]))
            errors = [equivariance_error(maps(net, number), x, (64, 64)) for net in (backbone, exact)]
            table.add_row(f"{name}, {shape}", *(f"{error:.0e}" for error in errors))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
