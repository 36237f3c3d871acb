"""Features with a scale axis, ``(B, C, S, H, W)``: how they lie in memory, and what is done at each of their scales.

They lie scale by scale, so the images of one scale, or of all scales, are an ordinary batch without a copy. In half
precision on GPUs the channels come last in memory, as tensor cores want them, and stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.lab.baselines.parts.half import fused
from fourierscale.nn.checks import positive

__all__ = [
    "MeanPool2d",
    "ScaleBatchNorm2d",
    "ScaleMaxPool2d",
    "each_map",
    "each_scale",
    "max_over_scales",
    "norm_relu",
    "split_scales",
    "stack_scales",
]

CHOICES = 8
"""Most numbers that the kernel for maxima chooses from."""


def stack_scales(images: Sequence[Tensor]) -> Tensor:
    """Images ``(B, C, H, W)`` of every scale to features ``(B, C, S, H, W)``.

    >>> stack_scales([torch.rand(2, 3, 8, 8) for _ in range(4)]).shape
    torch.Size([2, 3, 4, 8, 8])
    """
    return _apart(torch.cat(list(images)), len(images))


def each_scale(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A function of images at every scale, which are so many more images to it; images without scales as they are.

    >>> each_scale(nn.AvgPool2d(2), torch.rand(2, 3, 4, 8, 8)).shape
    torch.Size([2, 3, 4, 4, 4])
    """
    if x.ndim == 4:
        return function(x)
    return _apart(function(_together(x)), x.shape[2])


def each_map(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """What :func:`each_scale` gives of a function that treats every channel alike, such as a pool, without a copy.

    >>> each_map(nn.AvgPool2d(2), torch.rand(2, 3, 4, 8, 8)).shape
    torch.Size([2, 3, 4, 4, 4])
    """
    if x.ndim == 5 and x.is_contiguous():  # as a convolution to all scales at once leaves them
        return torch.unflatten(function(x.flatten(1, 2)), 1, x.shape[1:3])
    return each_scale(function, x)


def max_over_scales(x: Tensor) -> Tensor:
    """``(B, C, S, H, W)`` to ``(B, C, H, W)``; an image without scales as it is."""
    if x.ndim == 4:
        return x
    if fused(x) and x.shape[2] <= CHOICES:
        from fourierscale.lab.baselines.kernels.largest import largest_of_images

        return largest_of_images(_together(x), x.shape[2])
    if x.stride(1) == 1 and x.shape[1] > 1:  # channels last, and so is the result
        return x.permute(2, 0, 3, 4, 1).amax(0).permute(0, 3, 1, 2)
    return x.amax(2)


def split_scales(x: Tensor, extent: int = 1) -> list[Tensor]:
    """From features the images of each scale, with those of the next ones beside them as channels.

    ``(B, C, S, H, W)`` to ``S - extent + 1`` times ``(B, extent * C, H, W)``. Gradients come back in one piece, where
    indexing the scales one by one would give each of them a tensor of all scales, to be added up.

    >>> [tuple(images.shape) for images in split_scales(torch.rand(2, 3, 4, 8, 8), extent=3)]
    [(2, 9, 8, 8), (2, 9, 8, 8)]
    """
    scales = torch.split_with_sizes(_together(x), [x.shape[0]] * x.shape[2])
    if extent == 1:
        return list(scales)
    return [torch.cat(scales[s : s + extent], 1) for s in range(len(scales) - extent + 1)]


class ScaleBatchNorm2d(nn.BatchNorm2d):
    """Batch norm of images or of features with scales, with one mean and one variance for all scales."""

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, H, W)`` or ``(B, C, S, H, W)`` in and out."""
        return each_scale(super().forward, x)


def norm_relu(norm: nn.Module, x: Tensor, dropout: nn.Dropout | None = None) -> Tensor:
    """Batch norm, ReLU and dropout of images or of features with scales, as the blocks of residual nets have them.

    In half precision on GPUs they are one pass of a kernel each way, which keeps nothing but its input: these steps
    move numbers and hardly compute, and one by one they take longer than the convolutions of some baselines.

    >>> norm_relu(nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4), nn.Dropout(0.5)).min()
    tensor(0., grad_fn=<MinBackward1>)
    """
    assert isinstance(norm, nn.BatchNorm2d)
    share = dropout.p if dropout is not None and dropout.training else 0.0
    if norm.affine and fused(x):
        from fourierscale.lab.baselines.kernels.norms import fused_norm_relu, fused_scale_relu

        if norm.training and share < 1 and x.numel() > x.shape[1]:
            return each_scale(lambda images: fused_norm_relu(norm, images, share), x)
        if not norm.training and norm.track_running_stats and not share and not torch.is_grad_enabled():
            return each_scale(lambda images: fused_scale_relu(norm, images), x)
    y = nn.functional.relu(norm(x))
    return dropout(y) if dropout is not None else y


class ScaleMaxPool2d(nn.Module):
    """Max pooling of images or of features with scales, in windows side by side."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = positive(window, "window")

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, H, W)`` or ``(B, C, S, H, W)`` in, with smaller images out."""
        return each_scale(self._pool, x)

    def _pool(self, images: Tensor) -> Tensor:
        whole = not any(side % self.window for side in images.shape[-2:])
        if whole and self.window**2 <= CHOICES and fused(images):
            from fourierscale.lab.baselines.kernels.largest import largest_of_windows

            return largest_of_windows(images, self.window)
        return nn.functional.max_pool2d(images, self.window)

    def extra_repr(self) -> str:
        """The window, for ``print(model)``."""
        return str(self.window)


class MeanPool2d(nn.AvgPool2d):
    """Average pooling in windows side by side, with a gradient that is one copy; torch's takes far longer."""

    kernel_size: int

    def __init__(self, window: int) -> None:
        super().__init__(positive(window, "window"))

    def forward(self, input: Tensor) -> Tensor:
        """``(B, C, H, W)`` in, with smaller images out."""
        whole = not any(side % self.kernel_size for side in input.shape[-2:])
        if whole and input.requires_grad and torch.is_grad_enabled():
            pooled: Tensor = _Mean.apply(input, self.kernel_size)  # type: ignore[no-untyped-call]
            return pooled
        return super().forward(input)


class _Mean(torch.autograd.Function):
    """Means of windows that fill the image."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: int) -> Tensor:
        ctx.window, ctx.shape = window, x.shape
        return nn.functional.avg_pool2d(x, window)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        window = ctx.window
        each = (gradient / window**2)[..., :, None, :, None]
        return each.expand(*each.shape[:-3], window, each.shape[-2], window).reshape(ctx.shape), None


def _together(features: Tensor) -> Tensor:
    """Features as images of all scales, scale by scale; nothing is copied where they lie so."""
    return features.permute(2, 0, 1, 3, 4).flatten(0, 1)


def _apart(images: Tensor, count: int) -> Tensor:
    """Images of all scales, scale by scale, as features."""
    return torch.unflatten(images, 0, (count, -1)).permute(1, 2, 0, 3, 4)
