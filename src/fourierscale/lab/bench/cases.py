"""What is measured, as data: each case is one size of one network or layer, ours beside its peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fourierscale.functional.levels import Levels
from fourierscale.functional.nested import Grid
from fourierscale.lab.bench.suites import Precision, chosen
from fourierscale.models import model_info

__all__ = ["PAIR", "SWEEPS", "Case", "choose_cases", "list_cases", "spaced"]

PAIR = "pair"
"""Name of the model that is one Fourier layer and one nested activation."""

SWEEPS = ("size", "channels", "levels", "batch")
"""Groups in which one number grows."""

FFT_PEERS = ("cnn", "cnn-no-norm", "naive-fft")
LAYER_PEERS = (*FFT_PEERS, "fno", "sesn", "disco")


@dataclass(frozen=True)
class Case:
    """One measurement of ours and of its peers, in one run.

    Attributes:
        name: Begins with the name of its group.
        model: A name of :func:`fourierscale.create_model`, or ``"pair"``.
        size: Side of the images.
        batch: Images in a batch.
        channels: Of the pair, in and out; of a network, of the image.
        resolutions: At which it is equivariant.
        train: Forward pass, loss and backward pass; else a forward pass for inference.
        peers: What is measured beside it; see :mod:`fourierscale.lab.bench.contestants`.
        taps: Per axis, of the pair.
        grid: Where each level is sampled.
        precision: None: what the run is told.
        graphed: Contestants that are measured once more as CUDA graphs, on GPUs.
        quick: Whether a quick run has it, with the peers of ``FFT_PEERS`` alone.
    """

    name: str
    model: str
    size: int
    batch: int
    channels: int
    resolutions: tuple[int, ...]
    train: bool = True
    peers: tuple[str, ...] = FFT_PEERS
    taps: int = 5
    grid: Grid = "level"
    precision: Precision | None = None
    graphed: tuple[str, ...] = ()
    quick: bool = False

    @property
    def group(self) -> str:
        """What stands before the first hyphen of its name."""
        return self.name.split("-")[0]

    @property
    def levels(self) -> int:
        """How many distinct levels it has."""
        return len(Levels(self.resolutions))

    def quickly(self) -> Case:
        """The case as a quick run measures it."""
        return replace(self, peers=tuple(peer for peer in self.peers if peer in FFT_PEERS))


def spaced(size: int, levels: int) -> tuple[int, ...]:
    """So many resolutions, evenly spaced up to ``size``, the lowest of several being a quarter of it.

    >>> spaced(28, 4), spaced(28, 1)
    ((7, 14, 21, 28), (28,))
    """
    lowest = size / 4
    steps = max(levels - 1, 1)
    return tuple(round(size - i * (size - lowest) / steps) for i in reversed(range(levels)))


def list_cases(device: str) -> tuple[Case, ...]:
    """Every case for a kind of device, ``"cpu"`` or ``"cuda"``; batches are smaller on a CPU.

    >>> [case.name for case in list_cases("cpu") if case.group == "size"]
    ['size-28', 'size-48', 'size-96', 'size-192', 'size-384']
    """
    return (*_mnist(device), *_stl10(device), *_sweeps(device))


def choose_cases(names: Sequence[str], device: str, quick: bool = False) -> list[Case]:
    """Cases by their names or by those of their groups; all of them where no name is given.

    >>> [case.name for case in choose_cases(["channels", "size-28"], "cpu", quick=True)]
    ['size-28', 'channels-8', 'channels-16', 'channels-32', 'channels-64']
    """
    known = list_cases(device)
    chosen(names, {name: name for case in known for name in (case.name, case.group)})  # a name that is unknown is told
    wanted = [case for case in known if not names or case.name in names or case.group in names]
    if not quick:
        return wanted
    named = {case.name for case in wanted if case.name in names}  # asked for one by one: measured, quick or not
    return [case.quickly() for case in wanted if case.quick or case.name in named]


def _mnist(device: str) -> list[Case]:
    cases = []
    for grid in ("level", "common"):
        for train in (True, False):
            for batch in (16, 128):
                name = f"mnist-{'train' if train else 'inference'}-{batch}{'-common' if grid == 'common' else ''}"
                case = Case(name, "scalenet-mnist", 28, batch, 1, tuple(range(8, 29)), train, grid=grid)
                own = ("specification",) if device == "cpu" else ("specification", "gemm")
                # The other networks once, on GPUs at the batch of their recipes.
                once = name == ("mnist-train-16" if device == "cpu" else "mnist-train-128")
                others = ("fourier-cnn-mnist", "sesn-mnist", "disco-mnist") if once else ()
                cases.append(
                    replace(
                        case,
                        peers=(*own, *case.peers, *others) if grid == "level" else (*own, "cnn"),
                        graphed=("ours", "cnn"),
                        quick=batch == 16 and grid == "level",
                    )
                )
    if device == "cuda":
        half = replace(cases[1], name="mnist-train-128-bfloat16", precision="bfloat16", peers=("cnn",), graphed=())
        cases.insert(2, half)
    return cases


def _stl10(device: str) -> list[Case]:
    resolutions = tuple(model_info("scalenet-stl10").default("resolutions"))
    batch, grids = (64, ("level", "common")) if device == "cuda" else (4, ("level",))
    return [
        Case(
            f"stl10-{'train' if train else 'inference'}-{batch}{'-common' if grid == 'common' else ''}",
            "scalenet-stl10",
            96,
            batch,
            3,
            resolutions,
            train,
            peers=("cnn", "cnn-no-norm") if grid == "level" else ("cnn",),
            grid=grid,  # type: ignore[arg-type]
            graphed=("ours", "cnn"),
        )
        for grid in grids
        for train in (True, False)
    ]


def _sweeps(device: str) -> list[Case]:
    """One pair of layers from which one number at a time is changed."""
    gpu = device == "cuda"
    base = Case("", PAIR, 28, 64 if gpu else 8, 32, spaced(28, 11))
    large = replace(base, batch=16 if gpu else 2)  # whose batch is that of the largest image
    cases = [
        replace(large, name=f"size-{n}", size=n, resolutions=spaced(n, 6), peers=LAYER_PEERS, quick=n <= 96)
        for n in (28, 48, 96, 192, 384)
    ]
    widths = (8, 16, 32, 64, 128, 256) if gpu else (8, 16, 32, 64, 128)
    cases += [replace(base, name=f"channels-{c}", channels=c, quick=c <= 64) for c in widths]
    cases += [
        replace(base, name=f"levels-{count}", resolutions=spaced(28, count), quick=True) for count in (1, 2, 4, 8, 11)
    ]
    batches = (1, 8, 64, 512) if gpu else (1, 4, 16, 64)
    return cases + [replace(base, name=f"batch-{b}", batch=b, quick=b <= 16) for b in batches]
