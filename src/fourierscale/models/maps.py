"""Models that give maps: any net, inside one nested map or bare, with what the tools of this library ask of it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.functional import Levels, analyze, downscale, synthesize
from fourierscale.functional.bands import Boundary, Box, Size, as_size, axis_bands
from fourierscale.models.contract import ImageModel
from fourierscale.models.fno import FNO
from fourierscale.models.registry import ModelInfo, register
from fourierscale.models.unet import UNet
from fourierscale.nn import NestedModel

__all__ = ["MapModel", "as_map_model", "register_factory"]


class MapModel(ImageModel):
    """A net whose answer is a map ``(B, K, n, n)``: of logits for every pixel, or of another field's values.

    Args:
        net: Takes images, gives maps.
        resolutions: The levels.
        exact: Whether the net is inside one nested map (:class:`fourierscale.nn.NestedModel`); if not, the levels are
            the sizes at which it is trained, and nothing is exact.
        in_channels: Channels of the images; if given, the sizes that the net takes are found at once.
        outputs: Channels of the maps.
        above: See :class:`fourierscale.nn.NestedModel`, as ``norms`` and ``boundary``.
        norms: ``"shared"`` or ``"level"``.
        boundary: ``"circular"`` or ``"mirror"``.
    """

    scale: Tensor

    def __init__(
        self,
        net: nn.Module,
        resolutions: Sequence[int],
        *,
        exact: bool = True,
        in_channels: int | None = None,
        outputs: int = 1,
        above: str = "own",
        norms: str = "shared",
        boundary: Boundary = "circular",
    ) -> None:
        super().__init__()
        self.resolutions = tuple(resolutions)
        self._boundary = boundary
        options: dict[str, Any] = {"above": above, "norms": norms, "boundary": boundary}
        self.net = NestedModel(net, self.resolutions, **options) if exact else net
        self.register_buffer("scale", torch.ones(outputs))
        if isinstance(self.net, NestedModel) and in_channels is not None:
            with contextlib.suppress(ValueError):  # images know better than this one what is taken
                self.net.look(torch.zeros(1, in_channels, 1, 1, device=self.scale.device))

    @property
    def exact(self) -> bool:
        """Whether the net is inside a nested map."""
        return isinstance(self.net, NestedModel)

    @property
    def boundary(self) -> Boundary:
        """What it takes to lie beyond the edge of its images."""
        return self._boundary

    @property
    def levels(self) -> Levels | None:
        """The resolutions at which it is exact; None for a bare net."""
        return Levels(self.resolutions) if self.exact else None

    @property
    def has_features(self) -> bool:
        """The maps are its features."""
        return True

    def features(self, x: Tensor) -> Tensor:
        """The maps, on which the equivariance error is measured."""
        maps: Tensor = self(x)
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """The map of the image itself."""
        return self._scaled(self.net(x))

    def per_level(self, x: Tensor) -> list[Tensor]:
        """The map of every level that an image has, coarse to fine, each on its level's own grid.

        A bare net is asked at each size by itself.
        """
        if isinstance(self.net, NestedModel):
            return [self._scaled(maps) for maps in self.net.per_level(x)]
        sizes = self._sizes(x.shape[2:])
        return [self(x if size == x.shape[2:] else downscale(x, size, boundary=self._boundary)) for size in sizes]

    def at(self, x: Tensor, size: Size) -> Tensor:
        """The map of the image sampled on any grid, by ideal upscaling."""
        if isinstance(self.net, NestedModel):
            return self._scaled(self.net.at(x, size))
        maps = self(x)
        return synthesize(analyze(maps, boundary=self._boundary), as_size(size), self._boundary)

    def level_bands(self, size: Sequence[int]) -> list[Box]:
        """Band of each level of an image, coarse to fine."""
        return [axis_bands(side, self._boundary) for side in self._sizes(size)]

    def level_names(self, size: int) -> list[str]:
        """The resolutions of the levels of a square image."""
        return [str(side[0]) for side in self._sizes((size, size))]

    def _sizes(self, size: Sequence[int]) -> list[Box]:
        own = tuple(size)
        below = [(r,) * len(own) for r in self.resolutions if all(r < n for n in own)]
        last = [own] if min(own) <= max(self.resolutions) or not below or self.exact else []
        return [*below, *last]

    def _scaled(self, maps: Tensor) -> Tensor:
        return maps * self.scale.to(maps.dtype)[:, None, None]


def as_map_model(model: ImageModel) -> MapModel:
    """The model, after refusing one that gives no maps."""
    if isinstance(model, MapModel):
        return model
    raise TypeError(f"expected a model that gives maps, got {type(model).__name__}: choose unet, or a net of your own")


def _unet(
    in_channels: int = 3,
    classes: int = 2,
    widths: Sequence[int] = (32, 64, 128, 256),
    resolutions: Sequence[int] = (48, 68, 96),
    exact: bool = True,
    above: str = "own",
    norms: str = "shared",
    boundary: str = "circular",
) -> MapModel:
    net = UNet(in_channels, classes, tuple(widths))
    return MapModel(
        net,
        resolutions,
        exact=exact,
        in_channels=in_channels,
        outputs=classes,
        above=above,
        norms=norms,
        boundary=boundary,
    )


def _fno(
    in_channels: int = 1,
    classes: int = 1,
    modes: int = 12,
    width: int = 32,
    depth: int = 4,
    norm: str = "none",
    positions: bool = True,
    resolutions: Sequence[int] = (32, 64),
    exact: bool = True,
    above: str = "nothing",
) -> MapModel:
    net = FNO(in_channels, classes, modes, width, depth, norm, positions)  # type: ignore[arg-type]
    return MapModel(net, resolutions, exact=exact, in_channels=in_channels, outputs=classes, above=above)


def register_factory(name: str, factory: Callable[..., nn.Module], task: str = "segmentation") -> ModelInfo:
    """Make a net of yours known by a name, so that it can be trained and its weights be loaded again.

    The factory is called with ``in_channels`` and ``classes``, channels of the image and of the map, as far as it takes
    them. Weights are only ever loaded into a model that was made known in this way: a file of weights cannot ask for
    code to be run.

    Args:
        name: What configs and weights call it, ``"package.module:factory"`` for example.
        factory: Builds the net, which takes images and gives maps.
        task: ``"segmentation"`` or ``"field"``.

    >>> info = register_factory("mine:linear", lambda in_channels, classes: nn.Conv2d(in_channels, classes, 1))
    >>> info.build(in_channels=3, classes=5, resolutions=(8, 16))(torch.rand(1, 3, 16, 16)).shape
    torch.Size([1, 5, 16, 16])
    """
    taken = inspect.signature(factory).parameters
    every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())

    def build(
        in_channels: int,
        classes: int,
        resolutions: Sequence[int] = (48, 68, 96),
        exact: bool = True,
        above: str = "own" if task == "segmentation" else "nothing",
        norms: str = "shared",
    ) -> MapModel:
        given = {"in_channels": in_channels, "classes": classes}
        net = factory(**{key: value for key, value in given.items() if every or key in taken})
        if not isinstance(net, nn.Module):
            raise TypeError(f"{name} gave {type(net).__name__}: expected a function that builds a torch.nn.Module")
        return MapModel(
            net, resolutions, exact=exact, in_channels=in_channels, outputs=classes, above=above, norms=norms
        )

    recipe, channels = ("segmentation", (3, 2)) if task == "segmentation" else ("field", (1, 1))
    defaults = dict(zip(("in_channels", "classes"), channels, strict=True))
    info = ModelInfo(name=name, build=build, description="a net of yours", recipe=recipe, defaults=defaults)
    register(info)
    return info


register(
    ModelInfo(
        name="unet",
        build=_unet,
        description="a small U-Net for masks inside one nested map: exact at 48, 68 and 96 pixels",
        recipe="segmentation",
        small={"widths": (4, 6), "resolutions": (8, 12)},
        citation="Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation (2015)",
    ),
    ModelInfo(
        name="fno",
        build=_fno,
        description="a Fourier neural operator for fields inside one nested map: exact at 32 and 64 samples",
        recipe="field",
        small={"modes": 3, "width": 4, "depth": 2, "resolutions": (8, 12)},
        citation="Li et al., Fourier Neural Operator for Parametric Partial Differential Equations (2021)",
    ),
)
