"""One axis: a net on a real EEG recording, sampled at other rates.

    python examples/signal_1d.py

Four electrodes, 800 samples each, from the sample data inside matplotlib. Two nets with the same taps see the
recording and the recording at lower sampling rates. Expect an error near 1e-12 for ours at every rate, and for the
plain CNN, whose kernels span another time when the rate changes, 0.4 to 1 at lower rates. Ours takes 3 to 20 times as
long on signals this small.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
import torch
from matplotlib.cbook import get_sample_data
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from fourierscale import Levels, downscale
from fourierscale.nn import LocalFourierConv1d, ScaleActivation1d, ScaleEquivariant
from fourierscale.testing import equivariance_error

WIDTHS = (1, 8, 16, 16)
TAPS = 9
LEVELS = Levels.geometric(100, 800, 10)  # sampling rates with a constant ratio, three octaves


def recording() -> Tensor:
    """``(4, 1, 800)``: a batch of four electrodes with one channel each, mean 0 and standard deviation 1."""
    with get_sample_data("eeg.dat") as file:
        samples = np.frombuffer(file.read(), dtype=np.float64).reshape(-1, 4).T
    x = torch.from_numpy(samples.copy()).float()[:, None]
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def scale_net(length: int) -> ScaleEquivariant:
    """Signals in, signals out: three blocks of local Fourier convolution and scale-equivariant activation."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(WIDTHS):
        layers += [LocalFourierConv1d(a, b, TAPS, reference_size=length), ScaleActivation1d(b, LEVELS)]
    return ScaleEquivariant(nn.Sequential(*layers), axes=1)


def plain_net() -> nn.Sequential:
    """The same blocks as everybody writes them."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(WIDTHS):
        convolution = nn.Conv1d(a, b, TAPS, padding="same", padding_mode="circular")
        layers += [convolution, nn.InstanceNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


def milliseconds(net: nn.Module, x: Tensor, repeats: int = 5) -> float:
    net(x)
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        net(x)
        times.append(time.perf_counter() - begun)
    return 1000 * sorted(times)[repeats // 2]


def main() -> None:
    torch.manual_seed(0)
    x = recording()
    net, cnn = scale_net(x.shape[-1]), plain_net()
    for ours, theirs in zip(net.module[::2], cnn[::3], strict=True):
        ours.load_state_dict(theirs.state_dict())  # a local layer stores its taps as torch does
    table = Table(title=f"EEG, {x.shape[0]} electrodes of {x.shape[-1]} samples: relative squared error and time")
    for column in ("samples", "fourierscale", "plain CNN", "fourierscale, ms", "plain CNN, ms"):
        table.add_column(column, justify="right")
    with torch.inference_mode():
        for length in LEVELS.resolutions:
            size = (length,)  # an int would mean two axes
            small = downscale(x, size)
            errors = [f"{equivariance_error(model, x, size):.0e}" for model in (net, cnn)]
            table.add_row(str(length), *errors, *(f"{milliseconds(model, small):.1f}" for model in (net, cnn)))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
