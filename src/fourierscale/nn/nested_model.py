"""Any model made exact: one nested map around the whole of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint as compute_again

from fourierscale.functional.bands import Boundary, Box, Size, as_size, axis_bands, check_boundary, spatial_size, widest
from fourierscale.functional.levels import Levels, Resolutions
from fourierscale.functional.resample import corner
from fourierscale.functional.transform import analyze, full_precision, synthesize, widened
from fourierscale.nn.checks import choice, warn_caller
from fourierscale.nn.input_sizes import InputSizes, find_input_sizes
from fourierscale.nn.level_norms import LevelIndex, LevelNorm, give_levels_norms
from fourierscale.nn.level_outputs import LevelOutputs, LevelPass, find_rates, mixes_images
from fourierscale.nn.pass_table import PassTable, table_of_passes

__all__ = ["NestedModel", "equivariant"]

Above: TypeAlias = Literal["own", "nothing"]
"""Above the highest level: the model runs once more on all that the image has, or the answer has nothing there."""
Statistics: TypeAlias = Literal["shared", "level"]
"""Whether the batch norms of the model have one set of statistics, or one for each level."""
Form: TypeAlias = Literal["image", "coefficients"]
QUICK = {1: 129, 2: 65, 3: 17}  # sides at which a model is tried first, by its axes


class NestedModel(nn.Module):
    r"""A model of anybody's inside one nested map: exactly equivariant to downscaling, whatever the model is.

    Every level of the image goes through the model :math:`f` on a grid of its own, and of each result only the
    frequencies that the level before could not hold are kept:

    .. math:: Y[k] = \mathcal F\big(f(\mathcal F^{-1}(X[-K_i : K_i]))\big)[k]
        \quad\text{for the first level } i \text{ with } |k|_\infty \le \lfloor K_i / w \rfloor

    What a level adds depends on nothing finer, so the whole commutes with ideal downscaling to every level. Of a model
    that gives **maps** (of the image's size over a rate ``w``) the result is exactly equivariant. A model that gives
    **vectors** has no frequencies to keep: it gets one vector for each level, that of level ``k`` from the image's band
    ``k`` alone, which is consistent by construction. Tuples, lists and dictionaries of both are taken apart and put
    together again.

    ``net(x)`` has the form of the model's own output; :meth:`per_level` gives what every level says, coarse to fine;
    :meth:`at` samples maps on any grid. An image may have any size. Its band decides what happens, as in
    :class:`fourierscale.Levels`: between two levels, and above the highest, its own band is one more level.

    The weights are those of the model: ``net.load_state_dict(model.state_dict())``, and back. Hooks inside the model
    fire once for every level.

    Args:
        model: Takes images ``(B, C, n_1, ..., n_d)`` in 1, 2 or 3 dimensions.
        levels: The resolutions at which the result is exact.
        boundary: What lies beyond the image's edge: ``"circular"`` or ``"mirror"``.
        stride: Sides that the model takes are multiples of this; found by trying if not given.
        only: The one size that it takes, if it is one.
        above: ``"own"``: above the highest level the model runs once more on the image's own band. ``"nothing"``: the
            answer stays limited to the highest level, right for an operator on a finer grid and a model of one size.
        norms: ``"shared"``: batch norms have one set of statistics, updated once for each level, coarse to fine.
            ``"level"``: one for each level; the norms are converted in place, as torch does for ``SyncBatchNorm``.
        temperature: Multiply vectors by a learned factor for each level, at first 1.
        checkpoint: Compute each level again in the backward pass instead of keeping what is inside.
        domain: ``"image"``: maps are samples. ``"coefficients"``: they are left as Fourier coefficients, for the
            layers and heads of this library.

    >>> net = NestedModel(nn.Conv2d(3, 8, 3, padding=1), levels=(16, 24))
    >>> x = torch.rand(2, 3, 24, 24)
    >>> net(x).shape, [tuple(y.shape[2:]) for y in net.per_level(x)]
    (torch.Size([2, 8, 24, 24]), [(16, 16), (24, 24)])
    >>> from fourierscale.testing import assert_scale_equivariant
    >>> assert_scale_equivariant(net, x, [16]) < 1e-11
    True
    """

    def __init__(
        self,
        model: nn.Module,
        levels: Resolutions,
        *,
        boundary: Boundary = "circular",
        stride: int | None = None,
        only: int | Sequence[int] | None = None,
        above: Above = "own",
        norms: Statistics = "shared",
        temperature: bool = False,
        checkpoint: bool = False,
        domain: Form = "image",
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"expected a torch.nn.Module, got {type(model).__name__}: put the function into a module")
        if check_boundary(boundary).startswith("canvas"):
            raise ValueError("the canvas of a downscaled image is not the downscaled canvas: choose circular or mirror")
        for value, options, name in ((above, Above, "above"), (norms, Statistics, "norms"), (domain, Form, "domain")):
            choice(value, get_args(options), name)
        if stride is not None and only is not None:
            raise ValueError(f"got stride={stride} and only={only}: give one of them")
        self.levels, self.boundary, self.above, self.norms = Levels(levels), boundary, above, norms
        if self.levels.is_open and above == "nothing":
            raise ValueError("above='nothing' needs a highest level: give a list or range instead of 'all'")
        self.checkpoint, self.domain = checkpoint, domain
        self._periods = self.levels.periods(boundary)
        self._level = LevelIndex()
        self.model = give_levels_norms(model, len(self.levels), self._level) if norms == "level" else model
        self.training = model.training
        self.log_scales = nn.Parameter(torch.zeros(len(self.levels))) if temperature else None
        self._said = InputSizes(stride or 1) if stride else None
        self._only = only
        self._found: tuple[InputSizes, list[int | None]] | None = None
        self.register_state_dict_post_hook(_leave_out_prefix)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_put_prefix_in)  # type: ignore[no-untyped-call]
        self._axes = 0
        self._mixes = False
        conv = next((part for part in model.modules() if isinstance(part, _ConvNd)), None)
        if conv is not None:
            with contextlib.suppress(Exception):  # images know better than the first convolution what is taken
                self.look(conv.weight.new_zeros(1, conv.in_channels, *(1,) * len(conv.kernel_size)))

    def forward(self, x: Tensor) -> Any:
        """What the model gives, for the top level: maps of ``ceil(n / w)`` samples, or the image's own vector."""
        _, rates = self.look(x)
        passes = self.passes(x.shape[2:])
        if all(rate is None for rate in rates):
            passes = passes[-1:]
        sides = x.shape[2:]
        return self._run(x, passes, lambda found: self._sampled(found, -1, sides, x.dtype))

    def per_level(self, x: Tensor, chosen: Sequence[int] | None = None) -> list[Any]:
        """What every level says, coarse to fine; the last one is ``net(x)``, each is that of the downscaled image.

        Args:
            x: Images.
            chosen: Numbers of the levels to give; all if not given. Of vectors, no other level is computed.
        """
        _, rates = self.look(x)
        passes = self.passes(x.shape[2:])
        sides = [*(self._side(one.band) for one in passes[:-1]), tuple(x.shape[2:])]
        wanted = list(range(len(passes)))
        wanted = wanted if chosen is None else [wanted[number] for number in chosen]
        if all(rate is None for rate in rates):
            passes, sides = [passes[n] for n in wanted], [sides[n] for n in wanted]
            wanted = list(range(len(passes)))
        outputs: list[Any] = self._run(
            x, passes, lambda found: [self._sampled(found, n, sides[n], x.dtype) for n in wanted]
        )
        return outputs

    def at(self, x: Tensor, size: Size) -> Any:
        """The maps of ``net(x)`` sampled on any grid; on one too coarse for them they alias, as samples do."""
        self.look(x)
        target = (size,) * (x.ndim - 2) if isinstance(size, int) else as_size(size)

        def give(found: LevelOutputs) -> Any:
            return _narrowed(found.sampled(len(found.passes) - 1, lambda rate: target), x.dtype)

        return self._run(x, self.passes(x.shape[2:]), give)

    @property
    def rate(self) -> int:
        """How much smaller than the image its map is, for a model that gives one map."""
        rates = [] if self._found is None else [rate for rate in self._found[1] if rate is not None]
        if len(rates) != 1:
            raise ValueError(f"expected a model that gives one map and was called before, found {len(rates)} maps")
        return rates[0]

    @property
    def sizes(self) -> InputSizes:
        """The sizes of images that the model inside takes."""
        if self._found is None and self._said is None:
            raise ValueError("the sizes that the model takes are not known yet: call it once, or give stride")
        return self._found[0] if self._found is not None else self._said  # type: ignore[return-value]

    def passes(self, size: Sequence[int]) -> list[LevelPass]:
        """The passes of the model for images of this size, coarse to fine.

        >>> net = NestedModel(nn.Conv2d(3, 8, 3, padding=1), levels=(32, 96), stride=32)
        >>> [one.grid for one in net.passes((100, 96))]
        [(32, 32), (96, 96), (128, 96)]
        """
        box = axis_bands(size, self.boundary)
        lowest = (0,) * len(box)
        if not self._periods.is_open:
            lowest, highest = self._periods.extremes(box)
            if self.above == "nothing":
                box = tuple(map(min, box, highest))
        return [
            # an image below the lowest level is sampled as that level is
            LevelPass(self._periods.index(band), band, self.sizes.grid(tuple(map(max, band, lowest)), self.boundary))
            for band in self._periods.of_input(box)
        ]

    def summary(self, size: Size) -> PassTable:
        """The passes of the model for images of this size, and their share of the work; it can be printed.

        >>> print(NestedModel(nn.Conv2d(3, 8, 3, padding=1), levels=(48, 68, 96)).summary(96))
        level    grid     passes
        48 x 48  48 x 48    0.25
        68 x 68  68 x 68    0.50
        96 x 96  96 x 96    1.00
        1.75 passes of the highest level
        """
        sides = (size,) * self._likely_axes() if isinstance(size, int) else as_size(size)
        passes = self.passes(sides)
        rates: Sequence[int | None] = (1,) if self._found is None else self._found[1]
        needed = {number for together in self._together(passes, rates) for number in together}
        if all(rate is None for rate in rates):
            needed = {len(passes) - 1}
        return table_of_passes(passes, [self._side(one.band) for one in passes[:-1]] + [sides], needed)

    def _likely_axes(self) -> int:
        """Axes of an image, 2 where neither the levels nor a convolution tells."""
        named = () if self.levels.is_open else self.levels.highest
        conv = next((part for part in self.model.modules() if isinstance(part, _ConvNd)), None)
        return len(named) if len(named) > 1 else 2 if conv is None else len(conv.kernel_size)

    def look(self, x: Tensor) -> tuple[InputSizes, list[int | None]]:
        """Try the model, once: which sizes it takes, and how much smaller than the image each tensor it gives is.

        Args:
            x: Images, of any size.

        Returns:
            The sizes, and the rates in the order of the tensors; None for a vector.

        Raises:
            ValueError: No nested map can be put around what it gives; the text says what to do.
        """
        if self._found is None or (x.ndim - 2 != self._axes and x.ndim > 2):
            if torch.compiler.is_compiling():
                raise RuntimeError("call the nested model once before it is compiled or exported: it tries its model")
            axes = len(spatial_size(x, x.ndim - 2)) if x.ndim > 2 else 0
            if axes not in QUICK:
                raise ValueError(f"expected images (batch, channels, ...) of 1 to 3 dimensions, got {tuple(x.shape)}")
            self._level.now = 0
            found = self._try(x[:1])
            box = (0,) * axes
            if not self.levels.is_open:
                box = self._periods.extremes(axis_bands(x.shape[2:], self.boundary))[0]
            self._mixes = mixes_images(self.model, x[:1], found[0].grid(box, self.boundary))
            self._found, self._axes = found, axes
            self._warn(axes)
        return self._found

    def _try(self, example: Tensor) -> tuple[InputSizes, list[int | None]]:
        axes = example.ndim - 2
        quick = highest = (QUICK[axes],) * axes
        if not self.levels.is_open:
            highest = self.levels.highest if len(self.levels.highest) == axes else self.levels.highest * axes
        if self._only is not None:
            only = (self._only,) * axes if isinstance(self._only, int) else as_size(self._only)
            sizes = InputSizes(only=only)
            return sizes, find_rates(self.model, example, sizes, only)
        if self._said is not None:
            return self._said, find_rates(self.model, example, self._said, highest)
        smaller = tuple(map(min, quick, highest))
        sizes = find_input_sizes(self.model, example, smaller)
        if sizes.only is not None or (sizes.stride == 1 and smaller != highest):
            sizes = find_input_sizes(self.model, example, highest)  # a size may be too small for a model
        return sizes, find_rates(self.model, example, sizes, smaller if sizes.only is None else highest)

    def _warn(self, axes: int) -> None:
        """Say what levels lose or cost with the sizes and rates of this model."""
        if self.levels.is_open or len(self.levels) == 1:
            return
        highest = self.levels.highest if len(self.levels.highest) == axes else self.levels.highest * axes
        passes = self.passes(highest)
        grids = [one.grid for one in passes]
        shared = sorted({grid for grid in grids if grids.count(grid) > 1})
        if shared and self.sizes.only is None:
            shown = ", ".join(" x ".join(map(str, grid)) for grid in shared)
            warn_caller(
                f"the model takes {self.sizes}, so some levels share a grid ({shown}) and cost as much as the finest "
                "of them: levels that suit the stride cost less"
            )
        assert self._found is not None
        for rate in sorted({rate for rate in self._found[1] if rate is not None}):
            if len({one.writes(rate) for one in passes}) < len(passes):
                warn_caller(
                    f"the model's maps are {rate} times smaller than the image, so some levels write the same band and "
                    "become one, the coarsest of them: choose levels further apart"
                )

    def _run(self, x: Tensor, passes: Sequence[LevelPass], give: Callable[[LevelOutputs], Any]) -> Any:
        """Let every pass look at the images, and give what is asked of what was found."""
        axes, (_, rates) = x.ndim - 2, self.look(x)
        with full_precision(x):
            coeffs = analyze(widened(_wide(x)), axes, boundary=self.boundary).to(_wide(x).dtype)
            images = [synthesize(coeffs[corner(one.band)], one.grid, self.boundary).to(x.dtype) for one in passes]
        outputs: list[Any] = [None] * len(passes)
        for numbers in self._together(passes, rates):
            together = [images[n] for n in numbers]
            found = self._pass(passes[numbers[0]].row, torch.cat(together) if len(numbers) > 1 else together[0])
            parts = [found] if len(numbers) == 1 else _parts(found, len(numbers), len(x))
            for n, part in zip(numbers, parts, strict=True):
                outputs[n] = part
        with full_precision(x):
            scales = None if self.log_scales is None else self.log_scales.exp()
            return give(LevelOutputs(passes, outputs, rates, self.boundary, scales))

    def _together(self, passes: Sequence[LevelPass], rates: Sequence[int | None]) -> Iterator[list[int]]:
        """Numbers of the passes that are needed; in evaluation those on one grid go through the model together."""
        needed: list[int] = []
        written: set[tuple[int | None, Box]] = set()
        for number, one in enumerate(passes):
            bands = {(rate, one.band if rate is None else one.writes(rate)) for rate in rates}
            if not bands <= written:  # where all that it writes is written by a coarser level, it need not run
                needed.append(number)
            written |= bands
        apart = self.training or self.norms == "level" or self._mixes
        for number in needed:
            same = [number] if apart else [n for n in needed if passes[n].grid == passes[number].grid]
            if same[0] == number:
                yield same

    def _pass(self, index: int, image: Tensor) -> Any:
        self._level.now = index
        if not (self.checkpoint and self.training and torch.is_grad_enabled()):
            return self.model(image)

        def run(image: Tensor) -> Any:
            self._level.now = index  # the backward pass runs the levels in another order
            return self.model(image)

        return compute_again(
            run, image, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), _still_norms(self.model))
        )

    def _side(self, band: Box) -> Box:
        """The size of images of a level: as the set names it, else the widest of its band."""
        named = () if self.levels.is_open or self.levels.keeps_ratio else self.levels.resolutions
        for resolution in named:
            size = (resolution,) * len(band) if isinstance(resolution, int) else resolution
            if axis_bands(size, self.boundary) == band:
                return size
        return tuple(widest(k, self.boundary) for k in band)

    def _sampled(self, found: LevelOutputs, number: int, sides: Sequence[int], dtype: torch.dtype) -> Any:
        def over(rate: int) -> Box:
            return tuple(-(-n // rate) for n in sides)

        number = range(len(found.passes))[number]
        return _narrowed(found.sampled(number, over if self.domain == "image" else None), dtype)

    def extra_repr(self) -> str:
        """Levels and options, for ``print(model)``."""
        return f"{self.levels!r}, boundary={self.boundary!r}, above={self.above!r}, norms={self.norms!r}"


def equivariant(
    model: nn.Module,
    levels: Resolutions,
    *,
    boundary: Boundary = "circular",
    stride: int | None = None,
    only: int | Sequence[int] | None = None,
    above: Above = "own",
    norms: Statistics = "shared",
    temperature: bool = False,
    checkpoint: bool = False,
    domain: Form = "image",
) -> NestedModel:
    """Make any model exactly equivariant to downscaling, or, if it gives vectors, consistent.

    The arguments are those of :class:`fourierscale.nn.NestedModel`, which says what they do.

    >>> unet = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
    >>> net = equivariant(unet, levels=(48, 68, 96))
    >>> net(torch.rand(1, 3, 96, 96)).shape
    torch.Size([1, 2, 96, 96])
    """
    return NestedModel(
        model,
        levels,
        boundary=boundary,
        stride=stride,
        only=only,
        above=above,
        norms=norms,
        temperature=temperature,
        checkpoint=checkpoint,
        domain=domain,
    )


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _narrowed(output: Any, dtype: torch.dtype) -> Any:
    """In half precision, if that is what the images came in."""
    if dtype not in (torch.float16, torch.bfloat16):
        return output
    return tree_map(lambda leaf: leaf.to(dtype) if isinstance(leaf, Tensor) else leaf, output)


def _parts(output: Any, count: int, batch: int) -> list[Any]:
    """The output of a batch of several levels, level by level."""

    def cut(number: int) -> Any:
        rows = slice(number * batch, (number + 1) * batch)
        return tree_map(lambda leaf: leaf[rows] if isinstance(leaf, Tensor) and leaf.ndim else leaf, output)

    return [cut(number) for number in range(count)]


@contextlib.contextmanager
def _still_norms(model: nn.Module) -> Iterator[None]:
    """Running statistics stay as they are while a level is computed again."""
    norms: list[Any] = [part for part in model.modules() if isinstance(part, (_NormBase, LevelNorm))]
    norms = [norm for norm in norms if norm.running_mean is not None]
    before = [(norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, before, strict=True):
            norm.momentum = momentum
            norm.num_batches_tracked.copy_(count)


INSIDE = "model."


def _leave_out_prefix(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Weights are called what the model alone calls them."""
    for key in [key for key in state if key.startswith(prefix + INSIDE)]:
        state[prefix + key[len(prefix + INSIDE) :]] = state.pop(key)


def _put_prefix_in(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """What :func:`_leave_out_prefix` undoes."""
    own = {prefix + name for name, _ in module.named_parameters(recurse=False)}
    for key in [key for key in state if key.startswith(prefix) and key not in own]:
        state[prefix + INSIDE + key[len(prefix) :]] = state.pop(key)
