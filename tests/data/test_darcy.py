"""Pressure in the ground against exact solutions and a dense solver."""

import math

import pytest
import torch

from fourierscale.data import random_permeability, solve_darcy


def _centres(n):
    return (torch.arange(n, dtype=torch.float64) + 0.5) / n


def test_a_made_up_solution_is_found_with_second_order():
    errors = []
    for n in (16, 32):
        x, y = _centres(n)[:, None], _centres(n)[None, :]
        exact = (math.pi * x).sin() * (math.pi * y).sin()
        a = 1 + x + 0 * y
        gradient = math.pi * (math.pi * x).cos() * (math.pi * y).sin()
        source = 2 * math.pi**2 * a * exact - gradient
        errors.append(float((solve_darcy(a, source) - exact).norm() / exact.norm()))
    assert errors[1] < 2e-3
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_it_is_the_solution_of_the_system_written_cell_by_cell():
    n = 6
    a = random_permeability(1, n, torch.Generator().manual_seed(3))[0]
    matrix = torch.zeros(n * n, n * n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            for row, column in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                inside = 0 <= row < n and 0 <= column < n
                wall = 2 / (1 / a[i, j] + 1 / a[row, column]) if inside else 2 * a[i, j]
                matrix[i * n + j, i * n + j] += wall
                if inside:
                    matrix[i * n + j, row * n + column] -= wall
    expected = torch.linalg.solve(matrix, torch.full((n * n,), 1 / n**2, dtype=torch.float64))
    torch.testing.assert_close(solve_darcy(a), expected.view(n, n), rtol=1e-8, atol=0)


def test_a_batch_is_solved_as_each_of_its_fields():
    fields = random_permeability(3, 16, torch.Generator().manual_seed(0))
    assert set(fields.unique().tolist()) == {3.0, 12.0}
    together = solve_darcy(fields)
    for field, pressure in zip(fields, together, strict=True):
        torch.testing.assert_close(solve_darcy(field), pressure, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("bad", [torch.zeros(4, 4), torch.ones(4, 5), torch.full((4, 4), math.nan)])
def test_ground_that_cannot_be_is_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        solve_darcy(bad)
