"""What exact nets have in common: what their layers are made of, and what a classifier asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fourierscale.functional.bands import Boundary, period
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.nested import Grid, PoolKind
from fourierscale.nn import FourierConv2d, LocalFourierConv2d, ScaleActivation2d, ToCoefficients
from fourierscale.nn.checks import check_images, positive
from fourierscale.nn.nested import Norm
from fourierscale.nn.norms import BatchNorm


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """What the layers of an exact net are made of.

    Attributes:
        activation: Name of the activation.
        norm: ``"instance"``, ``"batch"`` or ``"none"``.
        grid: ``"level"`` or ``"common"``, where each level is sampled.
        oversample: Samples per axis relative to that grid.
        pool_kind: ``"max"`` or ``"average"``.
        pointwise: Whether each Fourier layer has a 1x1 path beside its kernel, as in the paper.
        local: Whether kernels are local; if not, every frequency has a weight (the ablation "w/o local filter").
        nested: Whether activations are scale-equivariant; if not, they act on the input's own grid alone (the
            ablation "w/o scale-equivariant ReLU").
        norm_per_level: Whether a batch norm has a scale and a shift for each level, not one pair for all.
        norm_synchronised: Whether processes that train together share the statistics of a batch norm.
    """

    activation: str = "relu"
    norm: Norm = "instance"
    grid: Grid = "level"
    oversample: float = 1.0
    pool_kind: PoolKind = "max"
    pointwise: bool = True
    local: bool = True
    nested: bool = True
    norm_per_level: bool = False
    norm_synchronised: bool = False

    def activation_norm(self) -> Norm | BatchNorm:
        """What an activation takes as its norm."""
        if self.norm != "batch":
            return self.norm
        return BatchNorm(per_level=self.norm_per_level, synchronised=self.norm_synchronised)

    def conv(
        self, inputs: int, outputs: int, taps: int, place: Place, bias: bool = False, pointwise: bool = False
    ) -> LocalFourierConv2d | FourierConv2d:
        """A Fourier layer."""
        if self.local:
            return LocalFourierConv2d(inputs, outputs, taps, place.reference, bias, pointwise)
        return FourierConv2d(inputs, outputs, place.highest, bias, pointwise)

    def activate(self, channels: int, place: Place, window: int = 1) -> ScaleActivation2d:
        """Norm, activation and pooling."""
        return ScaleActivation2d(
            channels,
            # Below its lowest level an input is a level of its own: the plain activation.
            place.levels if self.nested else [place.highest],
            self.activation,
            self.activation_norm(),
            self.grid if self.nested else "level",
            self.oversample,
            window,
            self.pool_kind,
        )


@dataclass(frozen=True)
class Place:
    """Where in a net a layer stands: the resolutions it sees, and the grid on which one tap is one sample there."""

    levels: Levels
    reference: int

    def pooled(self, window: int) -> Place:
        """Behind a pooling."""
        return Place(self.levels.pooled(window), -(-self.reference // window))

    @property
    def highest(self) -> tuple[int, ...]:
        """The highest resolution, an entry per axis."""
        highest = self.levels.highest
        return highest * 2 if len(highest) == 1 else highest


class ExactNet(nn.Module):
    """Images of any resolution to coefficients of features; the base of :class:`ScaleNet` and :class:`ScaleResNet`.

    Attributes:
        levels: Resolutions of the image at which the net is equivariant.
        out_channels: Channels of the features.
        out_levels: Their resolutions.
        rate: How much the net pools in all.
    """

    out_channels: int
    out_levels: Levels
    rate: int

    def __init__(self, in_channels: int, resolutions: Resolutions, boundary: Boundary) -> None:
        super().__init__()
        self.in_channels = positive(in_channels, "in_channels")
        self.door = ToCoefficients(2, boundary)
        self.levels = levels_of_images(resolutions)

    def entrance(self, reference_size: int | None) -> Place:
        """Where the first layer stands."""
        own = max(self.levels.highest) if reference_size is None else positive(reference_size, "reference_size")
        return Place(self.levels.periods(self.boundary), period(own, self.boundary))

    def enter(self, x: Tensor) -> Tensor:
        """Coefficients of images ``(B, C, H, W)``."""
        check_images(x, self.in_channels, 2, next((p.dtype for p in self.parameters()), x.dtype))
        coeffs: Tensor = self.door(x)
        return coeffs

    @property
    def boundary(self) -> Boundary:
        """What lies beyond the image's edge."""
        return self.door.boundary


def per_part(value: int | Sequence[int], count: int, name: str, part: str) -> list[int]:
    """One positive int for each of so many parts of a net."""
    values = [value] * count if isinstance(value, int) else list(value)
    if len(values) != count:
        raise ValueError(f"{name} must be one int or one per {part} ({count}), got {value!r}")
    return [positive(v, name) for v in values]


def levels_of_images(resolutions: Resolutions) -> Levels:
    """The levels, unless they are those of signals or volumes, of which no image net can be made."""
    given = resolutions if isinstance(resolutions, (list, tuple)) else ()
    levels = Levels(resolutions)
    for box in (*given, *(() if levels.is_open else levels.resolutions)):
        if not isinstance(box, int) and len(box) != 2:
            raise ValueError(
                f"expected resolutions as ints or (height, width), got {box}: nets for signals and volumes are made "
                "of LocalFourierConv1d and ScaleActivation1d, or LocalFourierConv3d and ScaleActivation3d"
            )
    return levels
