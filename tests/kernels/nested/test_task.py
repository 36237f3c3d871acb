"""Which route an activation takes, and that a task survives the text an operator takes."""

import pytest
import torch

from fourierscale.functional import InstanceNorm, Levels, Pooling
from fourierscale.functional.nested import Level
from fourierscale.kernels import products
from fourierscale.kernels.nested import task
from fourierscale.kernels.nested.task import choose_route, decode, encode, make_plan


def route(monkeypatch, engine, levels, *, size=(27, 27), activation="relu", window=1, grid="level", oversample=1.0):
    """The route where a GPU, say, would be asked; fused kernels only where they can."""

    def choose(x, *, fused, plain):
        return "gemm" if (engine, fused) == ("triton", False) else engine

    monkeypatch.setattr(task, "implementation", choose)
    plan = make_plan(Levels(levels), tuple(n // 2 for n in size), window, grid, oversample)
    return choose_route(torch.zeros(1, 2, *size), plan, activation, window)


def test_routes_of_the_engines(monkeypatch):
    for engine, expected in (("gemm", "products"), ("torch", "specification"), ("plain", "plain")):
        assert route(monkeypatch, engine, [8, 28]) == expected
    assert route(monkeypatch, "triton", [8, 28]) == "level grids"
    assert route(monkeypatch, "triton", [8, 28], grid="common") == "common grid"
    assert route(monkeypatch, "triton", [28]) == "common grid"  # one level has one grid
    assert route(monkeypatch, "gemm", [8, 28], activation=None) == "specification"


def test_fused_kernels_have_limits(monkeypatch):
    def fused(*arguments, **options):
        return route(monkeypatch, "triton", *arguments, **options) != "products"

    assert fused([8, 31], size=(31, 31))
    assert not fused([8, 33], size=(33, 33))
    assert not fused([8, 31], size=(31, 31), oversample=1.05)  # 33 samples
    assert not fused([8, 28], window=2)
    assert fused([8, 28], window=2, grid="common")
    assert not fused([8, 28], window=3, grid="common")
    assert fused([8, 128], size=(127, 127), grid="common")
    assert not fused([8, 129], size=(129, 129), grid="common")


def test_levels_that_are_no_chain_and_long_grids_take_the_specification(monkeypatch):
    assert route(monkeypatch, "gemm", Levels.independent([8, 28], [8, 28])) == "specification"
    monkeypatch.setattr(products, "PRODUCTS_UP_TO", {"cpu": 26})
    assert route(monkeypatch, "gemm", [8, 28]) == "specification"


@pytest.mark.parametrize("norm", [None, InstanceNorm(eps=1e-3)])
def test_a_task_survives_the_text(norm):
    plan = make_plan(Levels([4, 6, 9]), (4, 4), 2, "common", 1.5)
    text = encode("products", "gelu", norm, Pooling(2, "average"), plan)
    back = decode(text)
    assert (back.route, back.activation, back.pool) == ("products", "gelu", Pooling(2, "average"))
    assert back.eps == (None if norm is None else 1e-3)
    assert back.levels == plan.levels
    assert isinstance(back.levels[0], Level)
    assert decode(str(text)) is back  # constants are kept by its identity
