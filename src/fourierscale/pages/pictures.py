"""Pictures for the page: feature maps both ways round, and digits with their probabilities at every level."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fourierscale.data import ScaledSplits
from fourierscale.metrics import shrink_features
from fourierscale.models import ImageModel, Preprocessing
from fourierscale.testing import relative_error

__all__ = ["BothWays", "Judged", "both_ways", "choose_digit", "judge", "png"]


@dataclass(frozen=True)
class BothWays:
    """One channel of a model's last feature map at one resolution.

    Attributes:
        of_small: Features of the downscaled image ``(m, m)``.
        shrunk: Downscaled features of the image, of the same size.
        error: Relative squared difference over all channels.
    """

    of_small: Tensor
    shrunk: Tensor
    error: float


@torch.inference_mode()
def both_ways(
    model: ImageModel, preprocessing: Preprocessing, pixels: Tensor, resolutions: Sequence[int]
) -> list[BothWays]:
    """Features of the downscaled image and downscaled features of the image, for each resolution.

    The channel is the one that varies most over the image.

    Args:
        model: Has ``features``.
        preprocessing: How pixels become its input.
        pixels: One image ``(1, C, n, n)`` from 0 to 1.
        resolutions: Where to look.
    """
    size, x = int(pixels.shape[-1]), pixels.to(next(model.parameters()).device)
    large = model.features(preprocessing(x)).float()
    channel = int(model.feature_maps(large, size)[0].flatten(1).var(1).argmax())
    found = []
    for r in resolutions:
        small = model.features(preprocessing(preprocessing.downscale(x, r))).float()
        shrunk = shrink_features(large, small, r / size, model.domain, preprocessing)
        maps = [model.feature_maps(value, r)[0, channel].cpu() for value in (small, shrunk)]
        found.append(BothWays(maps[0], maps[1], relative_error(shrunk, small)))
    return found


@dataclass(frozen=True)
class Judged:
    """A digit and what the model says of it.

    Attributes:
        image: ``(n, n)`` from 0 to 1.
        label: Its class.
        levels: Names of the levels, coarse to fine.
        probabilities: Of each class at each level.
    """

    image: Tensor
    label: int
    levels: list[str]
    probabilities: list[list[float]]


@torch.inference_mode()
def judge(model: ImageModel, splits: ScaledSplits, count: int = 6, among: int = 96) -> list[Judged]:
    """A few test digits at full resolution: half of them the first ones, half the hardest when small.

    Hardest are those to which the coarsest level gives the least probability, among the first so many.
    """
    device = next(model.parameters()).device
    images = _images(splits, range(min(among, len(splits.test.labels))))
    x = splits.preprocessing(images).to(device)
    size = int(x.shape[-1])
    logits = torch.cat([model(x[first : first + 32]) for first in range(0, len(x), 32)])
    probabilities = (logits[:, None] if logits.ndim == 2 else logits).float().softmax(-1).cpu()  # (B, L, classes)
    labels = splits.test.labels[: len(x)].cpu()
    levels = model.level_names(size)
    coarsest = probabilities[torch.arange(len(x)), 0, labels]
    easy = list(range(min(count - count // 2, len(x))))
    hard = [int(item) for item in coarsest.argsort() if int(item) not in easy][: count // 2]
    return [
        Judged(
            images[item, 0].cpu(),
            int(labels[item]),
            levels[-probabilities.shape[1] :],
            probabilities[item].tolist(),
        )
        for item in (*easy, *hard)
    ]


def choose_digit(splits: ScaledSplits, label: int = 5) -> Tensor:
    """The first test image of a class (of any, if there is none), pixels from 0 to 1, ``(1, C, n, n)``."""
    items = (splits.test.labels == label).nonzero().flatten().tolist() or [0]
    return _images(splits, items[:1])


def png(values: Tensor, low: float | None = None, high: float | None = None, colours: str = "gray") -> str:
    """A map ``(m, n)`` as a PNG in the text of a ``data:`` address.

    Args:
        values: What to draw.
        low: Value of the darkest colour; the smallest value if not given.
        high: Value of the brightest; the largest if not given.
        colours: Name of a colour map of matplotlib.
    """
    from matplotlib import colormaps
    from PIL import Image

    array = values.double().numpy()
    bottom, top = float(array.min() if low is None else low), float(array.max() if high is None else high)
    pixels = colormaps[colours]((array - bottom) / max(top - bottom, 1e-12), bytes=True)[..., :3]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _images(splits: ScaledSplits, items: Sequence[int]) -> Tensor:
    """Test images ``(B, C, n, n)`` at full resolution, from 0 to 1."""
    return splits.test.images[torch.tensor(list(items))].float() / 255
