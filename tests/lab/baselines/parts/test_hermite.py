"""Hermite-Gauss functions: the basis is the formula at every scale."""

import math

import pytest
import torch

from fourierscale.lab.baselines.parts.hermite import hermite_basis, hermite_functions


def hermite(order, u):
    """The explicit sum of the probabilists' polynomial."""
    return sum(
        (-1) ** m * math.factorial(order) / (math.factorial(m) * math.factorial(order - 2 * m) * 2**m)
        * u ** (order - 2 * m)
        for m in range(order // 2 + 1)
    )  # fmt: skip


def test_functions_follow_the_formula():
    functions = hermite_functions(5, 1.3, 9)
    for index in range(9):
        a, b = index % 3, index // 3
        for i in range(5):
            for j in range(5):
                u, v = (i - 2) / 1.3, (j - 2) / 1.3
                value = hermite(a, u) * hermite(b, v) * math.exp(-(u * u + v * v) / 2) / 1.3**2
                assert functions[index, i, j].item() == pytest.approx(value, abs=1e-14)


def test_basis_b_has_total_order_four_and_then_smaller_widths():
    functions = hermite_functions(15, 5.1, 49, "B", 1.5)
    assert functions.shape == (49, 15, 15)
    torch.testing.assert_close(functions[15:30], hermite_functions(15, 5.1 / 1.5, 15, "B"))
    torch.testing.assert_close(functions[45:], hermite_functions(15, 5.1 / 1.5**3, 4, "B"))
    # odd orders are odd functions: of 15 pairs, 9 are even in u, of which 6 are even in v too
    even = functions[:15] + functions[:15].flip(1)
    assert sum(f.abs().max().item() > 1e-12 for f in even) == 9


@pytest.mark.parametrize(("kind", "count"), [("A", 9), ("B", 49)])
def test_a_resized_function_is_the_formula_at_its_scale(kind, count):
    """At 2 sigma, on twice the grid, it passes through a quarter of the values at sigma: nothing is interpolated."""
    basis = hermite_basis(29, (1.5, 3.0), count, kind)
    inner = basis[:, 0, 7:22, 7:22]
    assert basis[:, 0].square().sum().item() == pytest.approx(inner.square().sum().item())  # padded with zeros
    torch.testing.assert_close(basis[:, 1, ::2, ::2], inner / 4, rtol=0, atol=1e-14)


def test_a_scale_is_cut_off_at_its_share_of_the_size_and_normalised_by_the_smallest():
    basis = hermite_basis(15, (1.7, 2.45, 3.54, 5.1), 49, "B")
    assert basis.shape == (49, 4, 15, 15)
    torch.testing.assert_close(basis[:, 0].square().sum((1, 2)), torch.ones(49, dtype=torch.float64))
    for number, inner in enumerate((5, 7, 11, 15)):  # floor(15 s / 5.1), made odd
        border = (15 - inner) // 2
        ring = basis[:, number].clone()
        ring[:, border : 15 - border, border : 15 - border] = 0
        assert ring.abs().max() == 0
        assert (basis[0, number, border] != 0).any()


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="must be odd, got 6"):
        hermite_functions(6, 1.0, 9)
    with pytest.raises(ValueError, match="square number"):
        hermite_functions(5, 1.0, 8)
    with pytest.raises(ValueError, match="smallest first"):
        hermite_basis(7, (2.0, 1.0), 9)
    with pytest.raises(ValueError, match="choose one of A, B"):
        hermite_functions(5, 1.0, 9, "C")
