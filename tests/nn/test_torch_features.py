"""What people do with modules: compile, autocast, copy, export, vmap, pickle, train on several processes."""

import copy
import io
import pickle

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fourierscale import Levels
from fourierscale.functional import clear_constants
from fourierscale.nn import (
    FourierConv2d,
    LocalFourierConv2d,
    ScaleActivation2d,
    ScaleDropout,
    ScaleEquivariant,
    ScalePool2d,
    ScaleResidual,
)

RESOLUTIONS = range(5, 13)


def make_net():
    torch.manual_seed(0)
    half = Levels(RESOLUTIONS).pooled(2)
    body = nn.Sequential(LocalFourierConv2d(4, 4, 3, 12), ScaleActivation2d(4, RESOLUTIONS, "gelu"))
    net = nn.Sequential(
        LocalFourierConv2d(2, 4, 3, 12, pointwise=True),
        ScaleActivation2d(4, RESOLUTIONS, grid="common"),
        ScaleResidual(body),
        ScalePool2d(2, RESOLUTIONS),
        FourierConv2d(4, 4, 6),
        ScaleDropout(0.2),
        ScaleActivation2d(4, half, "silu", norm="none", oversample=2),
    )
    return ScaleEquivariant(net, pool=2).eval()


@pytest.fixture
def net():
    clear_constants()
    return make_net()


@pytest.fixture
def x():
    return torch.randn(3, 2, 12, 12)


# The compiler's own parts warn of their own deprecations.
@pytest.mark.filterwarnings("ignore")
def test_compiles_to_one_graph_with_the_same_values_and_gradients(net, x):
    compiled = torch.compile(net, fullgraph=True, dynamic=False)
    y = compiled(x)
    gradients = torch.autograd.grad(y.square().sum(), list(net.parameters()))
    expected = net(x)
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-4)
    reference = torch.autograd.grad(expected.square().sum(), list(net.parameters()))
    for a, b in zip(gradients, reference, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_compiled_net_serves_other_sizes_too(net):
    compiled = torch.compile(net, fullgraph=True, dynamic=False, backend="aot_eager")
    for size in (12, 9, 10):
        x = torch.randn(2, 2, size, size)
        torch.testing.assert_close(compiled(x), net(x), atol=1e-5, rtol=1e-4)


def test_autocast_runs_in_bfloat16_and_stays_close(net, x):
    expected = net(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
    y.float().square().sum().backward()
    assert y.dtype is torch.bfloat16
    assert (y - expected).norm() / expected.norm() < 0.03
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())


def test_modules_in_bfloat16_and_float64_run(net, x):
    expected = net(x)
    torch.testing.assert_close(net.double()(x.double()).float(), expected, atol=1e-5, rtol=1e-4)
    assert (net.bfloat16()(x.bfloat16()).float() - expected).norm() / expected.norm() < 0.05


def test_deepcopy_and_pickle_give_the_same_function(net, x):
    expected = net(x)
    buffer = io.BytesIO()
    torch.save(net, buffer)
    buffer.seek(0)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), torch.load(buffer, weights_only=False)):
        assert torch.equal(twin(x), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("warm", [False, True])
def test_exports_with_a_free_batch_size(net, x, warm):
    expected = net(x)
    if not warm:
        clear_constants()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(net, (x,), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(x), expected, atol=1e-6, rtol=1e-5)
    more = torch.cat([x, x])
    torch.testing.assert_close(program.module()(more), net(more), atol=1e-6, rtol=1e-5)
    assert "fft" not in str(program.graph)


def test_vmap_over_the_batch_is_the_batch(net, x):
    torch.testing.assert_close(torch.func.vmap(net)(x), net(x), atol=1e-6, rtol=1e-5)


def test_per_sample_gradients_sum_to_the_gradient(net, x):
    parameters = dict(net.named_parameters())

    def loss(values, image):
        return torch.func.functional_call(net, values, (image,)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    whole = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    for a, b in zip(each.values(), whole, strict=True):
        torch.testing.assert_close(a.sum(0), b, atol=1e-4, rtol=1e-3)


def test_constants_made_while_inferring_serve_training(net, x):
    with torch.inference_mode():
        net(x)
    net(x).sum().backward()


def test_a_default_device_does_not_reach_the_constants(net, x):
    with torch.device("meta"):
        y = net(x)
    assert y.device.type == "cpu"


def test_half_of_the_work_on_two_processes_is_the_whole_gradient(tmp_path, x):
    x = torch.cat([x, x[:1]])
    reference = make_net()
    reference(x).square().mean().backward()
    torch.multiprocessing.spawn(_train_half, args=(str(tmp_path), x), nprocs=2)
    for rank in range(2):
        gradients = torch.load(tmp_path / f"{rank}.pt")
        for name, parameter in reference.named_parameters():
            torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-6, rtol=1e-4)


def _train_half(rank, folder, x):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    net = DistributedDataParallel(make_net())
    net(x[2 * rank : 2 * rank + 2]).square().mean().backward()
    torch.save({name: p.grad for name, p in net.module.named_parameters()}, f"{folder}/{rank}.pt")
    del net
    torch.distributed.barrier()  # neither takes its connections down while the other still uses them
    torch.distributed.destroy_process_group()
