"""The choice of an implementation: by name, in threads, under transforms, export and the compiler."""

import threading

import pytest
import torch

from fourierscale import kernels
from fourierscale.kernels.choice import implementation
from fourierscale.nn import LocalFourierConv2d, ScaleActivation2d
from tests.kernels.twins import operators


def test_unknown_backend_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose one of auto, torch, gemm, triton"):
        kernels.set_backend("cuda")
    assert kernels.get_backend() == "auto"


def test_transforms_and_export_get_plain_operators():
    x = torch.randn(2, 3)
    assert implementation(x) == "gemm"
    seen = []
    torch.func.vmap(lambda row: seen.append(implementation(row)) or row)(x)
    assert seen == ["torch"]


def test_blocks_that_threads_interleave_do_not_see_each_other():
    inside, seen = [threading.Event(), threading.Event()], {}

    def first():
        with kernels.backend("torch"):
            inside[0].set()
            inside[1].wait(10)
            seen["first"] = kernels.get_backend()
        seen["first, left"] = kernels.get_backend()

    def second():
        inside[0].wait(10)
        with kernels.backend("gemm"):
            inside[1].set()
            threads[0].join(10)
            seen["second"] = kernels.get_backend()

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert seen == {"first": "torch", "first, left": "auto", "second": "gemm"}
    assert kernels.get_backend() == "auto"


def test_a_choice_for_the_process_reaches_threads_and_yields_to_blocks():
    seen = []
    kernels.set_backend("gemm")
    try:
        with kernels.backend("torch"):
            thread = threading.Thread(target=lambda: seen.append(kernels.get_backend()))
            thread.start()
            thread.join()
            seen.append(kernels.get_backend())
        seen.append(kernels.get_backend())
    finally:
        kernels.set_backend("auto")
    assert seen == ["gemm", "torch", "gemm"]


def test_blocks_nest_and_are_left_when_something_is_raised():
    with kernels.backend("gemm"):
        with pytest.raises(RuntimeError, match="within"), kernels.backend("torch"):
            raise RuntimeError("within")
        assert kernels.get_backend() == "gemm"
    assert kernels.get_backend() == "auto"


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_net_follows_the_choice():
    net = torch.nn.Sequential(LocalFourierConv2d(2, 3, 3, 9), ScaleActivation2d(3, [5, 9], torch.relu))
    graphs = []

    def look(graph, _):
        graphs.append(str(graph.graph))
        return graph.forward

    compiled = torch.compile(net, fullgraph=True, dynamic=False, backend=look)
    x = torch.randn(1, 2, 9, 9)
    expected = compiled(x)
    with kernels.backend("torch"):
        torch.testing.assert_close(compiled(x), expected, atol=1e-5, rtol=1e-4)
    compiled(x)
    assert ["fourierscale.nested_activation" in graph for graph in graphs] == [True, False]


def test_the_backward_pass_takes_the_route_of_the_forward_pass():
    x, layer = torch.randn(1, 3, 9, 9, requires_grad=True), ScaleActivation2d(3, [5, 9])
    for forward, backward, expected in (
        ("torch", "gemm", set()),
        ("gemm", "torch", {"nested_activation_backward"}),
    ):
        with kernels.backend(forward):
            y = layer(x)
        with kernels.backend(backward):
            assert operators(y.sum().backward)[1] == expected
