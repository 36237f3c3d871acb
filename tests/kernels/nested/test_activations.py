"""The table of activations: what an entry may leave out, and that one entry is all that a new one needs."""

import pytest
import torch
from torch import nn

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.functional import InstanceNorm, Levels
from fourierscale.kernels.nested import task
from fourierscale.kernels.nested.activations import Activation, name_of
from fourierscale.kernels.nested.task import choose_route, make_plan
from fourierscale.nn import ScaleActivation2d
from fourierscale.testing import assert_scale_equivariant
from tests.kernels.twins import operators

LEVELS = range(4, 10)


def squared(z):
    return z.relu().square()


def squared_backward(g, z):
    return g.mul_(2 * z.relu())


def squared_triton(z, g, BACKWARD):
    r = tl.maximum(z, 0.0)  # noqa: F821 (Triton's language, which is there when it is compiled)
    if BACKWARD:
        return 2 * r * g
    return r * r


@pytest.fixture
def table(monkeypatch):
    def add(**parts):
        monkeypatch.setitem(kernels.ACTIVATIONS, "squared_relu", Activation(squared, **parts))

    return add


def values(function, *tensors):
    y = function(*tensors)
    return [y, *torch.autograd.grad(y, tensors, torch.ones_like(y))]


@pytest.mark.parametrize("given", ["squared_relu", squared])
def test_one_entry_makes_a_new_activation_fast(table, given):
    table(backward=squared_backward, triton=squared_triton)
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(len(Levels(LEVELS)), 3, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def function(apply, activation):
        return values(lambda x, w, b: apply(x, LEVELS, activation, norm=InstanceNorm(w, b)), x, weight, bias)

    expected = function(F.nested_activation, squared)
    fast, ran = operators(lambda: function(kernels.nested_activation, given))
    assert ran == {"nested_activation", "nested_activation_backward"}
    for a, b in zip(fast, expected, strict=True):
        torch.testing.assert_close(a, b)
    layer = ScaleActivation2d(3, LEVELS, given).double()
    torch.testing.assert_close(layer(x), F.nested_activation(x, LEVELS, squared, norm=InstanceNorm()))
    assert_scale_equivariant(layer, x.detach(), LEVELS, domain="coefficients")


def test_without_triton_code_it_is_products_and_without_a_gradient_the_specification(table, monkeypatch):
    x, plan = torch.zeros(1, 3, 9, 9), make_plan(Levels(LEVELS), (4, 4), 1, "level", 1.0)
    monkeypatch.setattr(task, "implementation", lambda x, *, fused, plain: "triton" if fused else "gemm")
    routes = []
    for parts in (
        {"backward": squared_backward, "triton": squared_triton},
        {"backward": squared_backward},
        {"triton": squared_triton},
        {},
    ):
        table(**parts)
        routes.append(choose_route(x, plan, "squared_relu", 1))
    assert routes == ["level grids", "products", "specification", "specification"]


@pytest.mark.parametrize("function", [torch.relu, nn.functional.relu, torch.tanh, nn.functional.gelu])
def test_a_function_of_the_table_takes_the_fast_path(function):
    x = torch.randn(1, 2, 9, 9)
    y, ran = operators(lambda: kernels.nested_activation(x, LEVELS, function))
    assert ran == {"nested_activation"}
    assert torch.equal(y, kernels.nested_activation(x, LEVELS, name_of(function)))


@pytest.mark.parametrize("name", sorted(kernels.ACTIVATIONS))
def test_entries_are_consistent(name):
    entry = kernels.ACTIVATIONS[name]
    z = torch.linspace(-3, 3, 41, dtype=torch.float64, requires_grad=True)
    y = entry.function(z)
    for twin in (*entry.also, *([entry.overwriting] if entry.overwriting else [])):
        torch.testing.assert_close(twin(z.detach().clone()), y.detach())
    g = torch.randn(41, dtype=torch.float64)
    (expected,) = torch.autograd.grad(y, z, g)
    torch.testing.assert_close(entry.backward(g.clone(), z.detach()), expected)


def test_an_unknown_name_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="unknown activation 'swish': choose one of relu, "):
        kernels.nested_activation(torch.randn(1, 2, 9, 9), LEVELS, "swish")
