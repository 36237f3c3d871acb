"""One CNN for every resolution, behind one forward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from fourierscale.lab.baselines.cnn import build_cnn_mnist
from fourierscale.lab.baselines.parts.frames import SIDE, check_images, register_in_frame
from fourierscale.models.contract import ImageModel
from fourierscale.models.registry import ModelInfo
from fourierscale.testing import Domain

BLACK = -0.0607 / 0.2161  # of normalised digits


class PerResolutionCNN(ImageModel):
    """Twenty-one CNNs that share nothing: an image is seen by the CNN of its own resolution alone.

    The image comes at its native size and is padded with ``background`` to 28 x 28, so each CNN is the plain one and
    sees what it would see. A batch holds one resolution, so in a step one CNN has gradients and the others have none
    (``None``, not zero): optimizers of torch leave those as they are, without decay and without moving their averages.
    With several processes, DDP has to look for them: ``--strategy ddp_find_unused_parameters_true``.

    Features are the part of the CNN's 7 x 7 map that the image covers, ``round(n / 4)`` samples a side, centred: so
    Equi-Err compares what two different CNNs make of one image at two resolutions, on the grid of the smaller one.

    Args:
        image_resolutions: Every resolution that images have, at most 28.
        background: What to pad with, black after normalisation.
        frame: Options of each CNN; see :class:`MnistFrame`.

    >>> import torch
    >>> model = PerResolutionCNN([8, 9], widths=(2, 3, 4)).eval()
    >>> model(torch.rand(2, 1, 9, 9)).shape, model.features(torch.rand(2, 1, 9, 9)).shape
    (torch.Size([2, 10]), torch.Size([2, 4, 2, 2]))
    """

    domain: Domain = "image"

    def __init__(
        self, image_resolutions: Iterable[int] = range(8, 29), background: float = BLACK, **frame: Any
    ) -> None:
        super().__init__()
        sizes = sorted(set(image_resolutions))
        if not sizes or sizes[0] < 1 or sizes[-1] > SIDE:
            raise ValueError(f"image_resolutions must be from 1 to {SIDE}, the input size of each CNN, got {sizes}")
        self.background = background
        cnns = {str(n): build_cnn_mnist(**frame) for n in sizes}
        self.in_channels = cnns[str(sizes[0])].in_channels
        self.cnns = nn.ModuleDict(cnns)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, n, n)`` of one resolution to logits ``(B, classes)``."""
        logits: Tensor = self._cnn(x)(self._pad(x))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """The part of the last map that the image covers, ``(B, widths[-1], round(n / 4), round(n / 4))``."""
        features: Tensor = self._cnn(x).features(self._pad(x))  # type: ignore[operator]
        whole = features.shape[-1]
        side = max(1, round(whole * x.shape[-1] / SIDE))
        first = (whole - side) // 2
        return features[..., first : first + side, first : first + side]

    def _cnn(self, x: Tensor) -> nn.Module:
        check_images(x, self.in_channels)
        name = str(x.shape[-1])
        if x.shape[-2] != x.shape[-1] or name not in self.cnns:
            have = f"{next(iter(self.cnns))} to {list(self.cnns)[-1]}"
            raise ValueError(
                f"there is no CNN for images of {x.shape[-2]} x {x.shape[-1]}: give squares of {have} pixels"
            )
        return self.cnns[name]

    def _pad(self, x: Tensor) -> Tensor:
        """Centred, as ``enlarge_to`` does it; these images are normalised already, so black is not 0."""
        before = (SIDE - x.shape[-1]) // 2
        after = SIDE - x.shape[-1] - before
        return nn.functional.pad(x, (before, after, before, after), value=self.background)


register_in_frame(
    "per-resolution-cnn-mnist",
    PerResolutionCNN,
    "a CNN of its own for each resolution of 8 to 28 pixels",
    ModelInfo.citation,
    native=True,
)
