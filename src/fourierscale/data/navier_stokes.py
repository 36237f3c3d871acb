r"""Solutions of the Navier-Stokes equation on a periodic square, made here: vorticity at the start and at the end.

.. math:: \partial_t w + u \cdot \nabla w = \nu \Delta w + f, \qquad \nabla \cdot u = 0, \quad w = \nabla \times u,
    \qquad f = 0.1 \left(\sin 2\pi(x + y) + \cos 2\pi(x + y)\right)

This is the flow that neural operators are tested on since Li et al., Fourier Neural Operator for Parametric Partial
Differential Equations (2021), with their forcing and their random field at the start. Frequencies up to a third of the
grid are solved for (the 2/3 rule), so products alias into nothing that is kept; diffusion is exact in every step and
the rest is advanced by the method of Runge and Kutta of order four (Lawson's integrating factor), in double precision.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fourierscale.data.progress import ProgressCallback
from fourierscale.functional import analyze, band, downscale, synthesize
from fourierscale.functional.bands import frequencies

__all__ = ["random_vorticity", "solve_navier_stokes"]

ROUGHNESS, LENGTH = 2.5, 7.0  # of the random field: its covariance is 2 * 7^3 (-laplacian + 49)^-2.5
STEP = 0.02


def random_vorticity(count: int, size: int, generator: torch.Generator) -> Tensor:
    r"""Random smooth fields of mean zero, ``(count, size, size)``, in double precision.

    Coefficients are independent and normal, with standard deviation
    :math:`\sqrt2 \cdot 7^{3/2} (4 \pi^2 |k|^2 + 49)^{-5/4}`.

    >>> random_vorticity(2, 16, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 16, 16])
    """
    length = 2 * band(size) + 1
    k = frequencies(length, torch.float64, torch.device("cpu"))
    squares = k[:, None] ** 2 + k[None, :] ** 2
    deviation = math.sqrt(2) * LENGTH ** (ROUGHNESS - 1) * (4 * math.pi**2 * squares + LENGTH**2) ** (-ROUGHNESS / 2)
    deviation[0, 0] = 0
    coeffs = deviation * torch.randn(count, length, length, generator=generator, dtype=torch.float64)
    return synthesize(coeffs, (size, size))


def solve_navier_stokes(
    vorticity: Tensor,
    viscosity: float,
    time: float,
    *,
    grid: int | None = None,
    step: float = STEP,
    forcing: float = 0.1,
    report: ProgressCallback | None = None,
) -> Tensor:
    """The vorticity after some time.

    Args:
        vorticity: At the start, ``(..., n, n)`` on the unit square.
        viscosity: Of the fluid.
        time: How long it flows.
        grid: Samples per axis of the grid on which it is solved; frequencies up to a third of it are kept. That of the
            start if not given.
        step: Longest step in time.
        forcing: Strength of the force.
        report: Told which share of the time has passed.

    Returns:
        At the end, on the grid of the start.

    >>> start = random_vorticity(1, 32, torch.Generator().manual_seed(0))
    >>> solve_navier_stokes(start, 1e-3, time=1.0).shape
    torch.Size([1, 32, 32])
    """
    if vorticity.ndim < 2 or vorticity.shape[-1] != vorticity.shape[-2]:
        raise ValueError(f"expected fields on a square grid (..., n, n), got shape {tuple(vorticity.shape)}")
    if viscosity <= 0 or time <= 0 or step <= 0:
        raise ValueError(f"expected viscosity, time and step above 0, got {viscosity}, {time}, {step}")
    size = vorticity.shape[-1]
    n = grid or size
    start = vorticity.double()
    on_grid = downscale(start, n) if n <= size else synthesize(analyze(start), n)
    flow = _Flow(n, viscosity, forcing)
    steps = math.ceil(time / step)
    w = flow.start(on_grid)
    decay = flow.decay(time / steps)
    for number in range(steps):
        w = flow.advance(w, time / steps, decay)
        if report is not None:
            report("solving Navier-Stokes", (number + 1) / steps)
    return synthesize(analyze(flow.samples(w)), size).to(vorticity.dtype)


class _Flow:
    """One grid: its frequencies and what advances the vorticity's spectrum on it."""

    def __init__(self, n: int, viscosity: float, forcing: float) -> None:
        self.n = n
        rows = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)[:, None]
        columns = torch.fft.rfftfreq(n, 1 / n, dtype=torch.float64)[None, :]
        self.kept = ((rows.abs() < n / 3) & (columns.abs() < n / 3)).double()
        self.x, self.y = 2 * math.pi * rows * self.kept, 2 * math.pi * columns * self.kept
        self.squares = 4 * math.pi**2 * (rows**2 + columns**2)
        self.inverse = torch.where(self.squares > 0, 1 / self.squares, 0.0)
        self.diffusion = viscosity * self.squares
        line = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
        phase = line[:, None] + line[None, :]
        self.force = torch.fft.rfft2(forcing * (phase.sin() + phase.cos())) * self.kept

    def start(self, w: Tensor) -> Tensor:
        """The spectrum of samples, as far as it is kept."""
        spectrum: Tensor = torch.fft.rfft2(w) * self.kept
        return spectrum

    def samples(self, w: Tensor) -> Tensor:
        """The samples whose spectrum this is."""
        x: Tensor = torch.fft.irfft2(w, s=(self.n, self.n))
        return x

    def decay(self, step: float) -> tuple[Tensor, Tensor]:
        """What diffusion leaves after half a step and after a whole one."""
        return (-self.diffusion * step / 2).exp(), (-self.diffusion * step).exp()

    def rate(self, w: Tensor) -> Tensor:
        r"""Advection and force: :math:`-\partial_{xy}(v^2 - u^2) - (\partial_{xx} - \partial_{yy})(uv) + f`.

        This form of the advection (Basdevant's) takes two transforms there and two back.
        """
        stream = 1j * w * self.inverse
        u, v = self.samples(stream * self.y), self.samples(-stream * self.x)
        squares, product = torch.fft.rfft2(v * v - u * u), torch.fft.rfft2(u * v)
        change: Tensor = self.force + self.x * self.y * squares + (self.x**2 - self.y**2) * product
        return change

    def advance(self, w: Tensor, step: float, decay: tuple[Tensor, Tensor]) -> Tensor:
        """One step of Runge and Kutta for the spectrum without its diffusion."""
        half, whole = decay
        a = self.rate(w)
        b = self.rate(half * (w + step / 2 * a))
        c = self.rate(half * w + step / 2 * b)
        d = self.rate(whole * w + step * half * c)
        return whole * w + step / 6 * (whole * a + 2 * half * (b + c) + d)
