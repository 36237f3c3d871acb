"""Batch norm per level: statistics in training, constants in evaluation, shared by processes if asked."""

import json
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

from fourierscale.functional import LevelAffine, level_moments, nested_activation
from fourierscale.nn import (
    BatchNorm,
    LevelBatchNorm,
    LocalFourierConv2d,
    ScaleActivation1d,
    ScaleActivation2d,
    ScaleActivation3d,
)
from fourierscale.testing import assert_scale_equivariant
from fourierscale.training.optim import parameter_groups

LEVELS = [6, 9, 13]


def trained(layer, axes=2, sizes=(13, 9, 6, 13, 11), channels=2):
    """After some batches of several sizes, in evaluation."""
    torch.manual_seed(0)
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    for n in sizes:
        layer(2 + torch.randn(3, channels, *(2 * ((n - 1) // 2) + 1,) * axes, dtype=next(layer.parameters()).dtype))
    return layer.eval()


@pytest.mark.parametrize("layer", [ScaleActivation1d, ScaleActivation2d, ScaleActivation3d])
@pytest.mark.parametrize("options", [{}, {"grid": "common", "pool": 2}, {"norm": BatchNorm(per_level=True)}])
def test_in_evaluation_the_layer_is_exact(layer, options):
    activation = trained(layer(2, LEVELS, **{"norm": "batch", **options}).double(), layer.axes)
    side = 15 if layer.axes < 3 else 13
    x = torch.randn(2, 2, *(side,) * layer.axes, dtype=torch.float64)
    sizes = [(n,) * layer.axes for n in LEVELS]
    assert_scale_equivariant(activation, x, sizes, domain="coefficients")
    assert torch.equal(activation(x[:1]), activation(x)[:1]) or torch.allclose(activation(x[:1]), activation(x)[:1])


def test_in_training_levels_have_the_moments_of_the_batch():
    torch.manual_seed(0)
    activation = ScaleActivation2d(2, LEVELS, norm="batch").double()
    x = 3 + torch.randn(4, 2, 13, 13, dtype=torch.float64)
    mean, variance = level_moments(x, [(2, 2), (4, 4), (6, 6)])
    scale = (variance + 1e-5).rsqrt()
    expected = nested_activation(x, LEVELS, torch.relu, norm=LevelAffine(scale, -mean * scale))
    torch.testing.assert_close(activation(x), expected)
    norm = activation.batch_norm
    torch.testing.assert_close(norm.running_mean, mean.expand(3, -1))
    torch.testing.assert_close(norm.running_var, variance)
    small = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    activation(small)
    own = level_moments(small, [(2, 2)])[1][0]
    torch.testing.assert_close(norm.running_var[0], (variance[0] + own) / 2)  # the first batches count alike
    torch.testing.assert_close(norm.running_var[1:], variance[1:])  # not seen
    assert norm.num_batches_tracked.tolist() == [2, 1, 1]


def test_averages_forget_at_the_rate_of_the_momentum():
    norm = LevelBatchNorm(1, 1, BatchNorm(momentum=0.5))
    for value in (8.0, 4.0, 2.0, 0.0):
        norm.batch(torch.tensor([[value]]), torch.ones(1, 1), [0], 1)
    assert norm.running_mean.item() == pytest.approx(((8 + 4) / 2 + 2) / 4)


def test_levels_that_use_one_row_are_normalised_together():
    """Above the highest level an input has two levels with its row."""
    norm = LevelBatchNorm(2, 1, BatchNorm())
    affine = norm.batch(torch.tensor([[0.0], [2.0], [4.0]]), torch.ones(3, 1), [0, 1, 1], 5)
    assert norm.running_mean.flatten().tolist() == [0, 3]
    assert norm.running_var.flatten().tolist() == [1, 2]  # around the mean of both
    assert affine.scale.shape == (2, 1)


def test_what_a_resolution_uses_follows_from_its_band_alone():
    activation = trained(ScaleActivation2d(2, LEVELS, norm="batch").double())
    between, row = torch.randn(1, 2, 11, 11, dtype=torch.float64), activation.batch_norm.running()
    alone = nested_activation(between, LEVELS, torch.relu, norm=LevelAffine(row.scale, row.shift))
    torch.testing.assert_close(activation(between), alone)
    changed = LevelAffine(*(torch.cat([t[:2], 0 * t[2:]]) for t in (row.scale, row.shift)))
    other = nested_activation(between, LEVELS, torch.relu, norm=changed)
    assert torch.equal(other[..., :9, :9], alone[..., :9, :9]) or torch.allclose(other[..., :9, :9], alone[..., :9, :9])
    assert not torch.allclose(other, alone)  # band 5 lies between 4 and 6 and uses the row of 6


def test_gradients_of_a_training_step_are_those_of_the_specification():
    from fourierscale.kernels import backend

    torch.manual_seed(0)
    net = nn.Sequential(LocalFourierConv2d(2, 3, 3, 13, bias=False), ScaleActivation2d(3, LEVELS, "gelu", "batch"))
    net = net.double()
    x = torch.randn(3, 2, 13, 13, dtype=torch.float64)
    results = []
    for name in ("torch", "auto"):
        with backend(name):
            results.append(torch.autograd.grad(net(x).square().mean(), list(net.parameters())))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_half_precision_keeps_its_statistics_in_single_precision():
    activation = ScaleActivation2d(2, LEVELS, norm="batch")
    x = torch.randn(8, 2, 13, 13)
    with torch.autocast("cpu", torch.bfloat16):
        y = activation(x.bfloat16())
    assert y.dtype is torch.bfloat16
    _, variance = level_moments(x, [(2, 2), (4, 4), (6, 6)])
    torch.testing.assert_close(activation.batch_norm.running_var, variance, rtol=1e-2, atol=0)


@pytest.mark.parametrize("per_level", [False, True])
def test_scale_and_shift_do_not_decay(per_level):
    net = nn.Sequential(
        LocalFourierConv2d(2, 3, 3, 13), ScaleActivation2d(3, LEVELS, norm=BatchNorm(per_level=per_level))
    )
    decayed, free = parameter_groups(net, 0.1)
    assert [p.ndim for p in decayed["params"]] == [4]
    assert {id(p) for p in net[1].parameters()} <= {id(p) for p in free["params"]}


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="momentum must be above 0"):
        BatchNorm(momentum=0)
    with pytest.raises(ValueError, match="eps must be above 0"):
        BatchNorm(eps=0)
    with pytest.raises(ValueError, match="unknown norm 'group'"):
        ScaleActivation2d(2, LEVELS, norm="group")


SCRIPT = """
    import json, sys, torch
    import torch.distributed as dist
    from fourierscale.nn import BatchNorm, LocalFourierConv2d, ScaleActivation2d

    torch.set_num_threads(1)
    folder, rank, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(0)
    norm = BatchNorm(synchronised=True)
    net = torch.nn.Sequential(
        LocalFourierConv2d(2, 3, 3, 13, bias=False), ScaleActivation2d(3, [6, 9, 13], norm=norm, pool=2),
        LocalFourierConv2d(3, 2, 3, 7, bias=False), ScaleActivation2d(2, [3, 5, 7], norm=norm),
    ).double()
    x = torch.randn(6, 2, 13, 13, dtype=torch.float64)
    wrapped = net
    if count > 1:
        dist.init_process_group("gloo", init_method="file://" + folder + "/meet", rank=rank, world_size=count)
        wrapped = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(3):
        own = x[rank::count] * (step + 1)
        loss = (wrapped(own) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # processes whose images have unlike resolutions: the small one's take part in the first row alone
    if count > 1:
        net(x[rank::count] if rank == 0 else x[rank::count, :, :5, :5])
    else:
        net(x)
    state = {name: value.tolist() for name, value in net.state_dict().items()}
    open(f"{folder}/state-{count}-{rank}.json", "w").write(json.dumps(state))
    if count > 1:
        dist.destroy_process_group()
"""


def test_two_processes_with_synchronised_norms_train_as_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    processes = [
        subprocess.Popen([sys.executable, script, tmp_path, str(rank), str(count)], stderr=subprocess.PIPE, text=True)
        for count in (1, 2)
        for rank in range(count)
    ]
    told = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], told
    alone, first, second = (json.loads((tmp_path / f"state-{name}.json").read_text()) for name in ("1-0", "2-0", "2-1"))
    for name, value in alone.items():
        ours = torch.tensor(first[name])
        assert first[name] == second[name]
        if "batch_norm" not in name or name.endswith(("weight", "bias")):
            torch.testing.assert_close(ours, torch.tensor(value))
    counts = first["1.batch_norm.num_batches_tracked"]
    assert counts == alone["1.batch_norm.num_batches_tracked"] == [4, 4, 4]
    # the row that both reached is the mixture of all images, as in one process
    torch.testing.assert_close(
        torch.tensor(first["1.batch_norm.running_var"])[0], torch.tensor(alone["1.batch_norm.running_var"])[0]
    )
