"""The flow against exact solutions, finer grids and shorter steps."""

import math

import pytest
import torch

from fourierscale.data import random_vorticity, solve_navier_stokes
from fourierscale.functional import downscale, upscale


def _start(count=2, size=96, seed=0):
    return random_vorticity(count, size, torch.Generator().manual_seed(seed))


def _far(a, b):
    return float((a - b).norm() / b.norm())


def test_a_single_wave_only_decays():
    line = torch.arange(32, dtype=torch.float64) / 32
    wave = (2 * math.pi * (2 * line[:, None] - 3 * line[None, :])).cos()
    end = solve_navier_stokes(wave, 1e-2, 0.5, forcing=0.0)
    torch.testing.assert_close(end, wave * math.exp(-1e-2 * 4 * math.pi**2 * 13 * 0.5))


def test_the_force_alone_is_what_is_given():
    """From rest and in no time, the vorticity is time times the force."""
    end = solve_navier_stokes(torch.zeros(16, 16).double(), 1e-3, 1e-4)
    line = 2 * math.pi * torch.arange(16, dtype=torch.float64) / 16
    phase = line[:, None] + line[None, :]
    torch.testing.assert_close(end, 1e-5 * (phase.sin() + phase.cos()), rtol=1e-4, atol=1e-12)


def test_advection_is_its_definition():
    """The change in a short time is u . grad w, by finite differences of the samples."""
    n, h = 192, 1 / 192
    w = upscale(_start(1, 16), n)[0]
    k = 2 * math.pi * torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
    squares = k[:, None] ** 2 + k[None, :] ** 2
    squares[0, 0] = 1
    stream = torch.fft.ifft2(torch.fft.fft2(w) / squares).real

    def slope(x, axis):
        return (x.roll(-1, axis) - x.roll(1, axis)) / (2 * h)

    u, v = slope(stream, 1), -slope(stream, 0)
    expected = -(u * slope(w, 0) + v * slope(w, 1))
    step = 1e-4
    change = (solve_navier_stokes(w, 1e-12, step, step=step, forcing=0.0) - w) / step
    assert _far(change, expected) < 5e-3


@pytest.mark.parametrize(("viscosity", "grid", "limit"), [(1e-3, 48, 1e-5), (1e-4, 96, 1e-4)])
def test_the_coarse_solution_is_that_of_a_finer_grid(viscosity, grid, limit):
    start = _start()
    fine = solve_navier_stokes(start, viscosity, 5.0, grid=144)
    coarse = solve_navier_stokes(start, viscosity, 5.0, grid=grid)
    assert _far(downscale(coarse, 30), downscale(fine, 30)) < limit


def test_halving_the_step_divides_the_error_by_sixteen():
    start = _start(1, 32)
    exact = solve_navier_stokes(start, 1e-3, 2.0, step=0.01)
    errors = [_far(solve_navier_stokes(start, 1e-3, 2.0, step=step), exact) for step in (0.2, 0.1)]
    assert errors[0] / errors[1] > 11
    assert _far(solve_navier_stokes(start, 1e-3, 2.0), exact) < 1e-7


def test_random_fields_have_the_published_spectrum_and_depend_on_the_seed_alone():
    fields = _start(400, 16)
    assert torch.equal(fields[:2], _start(400, 16)[:2])
    assert not torch.equal(fields, _start(400, 16, seed=1))
    assert fields.mean((-2, -1)).abs().max() < 1e-12
    k = torch.fft.fftfreq(16, 1 / 16, dtype=torch.float64)
    inside = k.abs() < 8
    squares = (k[:, None] ** 2 + k[None, :] ** 2)[inside][:, inside]
    variance = 2 * 7**3 * (4 * math.pi**2 * squares + 49) ** -2.5
    variance[0, 0] = 0
    assert float(fields.square().mean()) == pytest.approx(float(variance.sum()), rel=0.1)


@pytest.mark.parametrize(("shape", "viscosity"), [((4, 5), 1e-3), ((4, 4), 0.0)])
def test_what_cannot_flow_is_refused(shape, viscosity):
    with pytest.raises(ValueError, match="expected"):
        solve_navier_stokes(torch.zeros(shape), viscosity, 1.0)
