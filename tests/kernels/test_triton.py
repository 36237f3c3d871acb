"""The Triton kernels against matrix products or torch, in Triton's interpreter here and on a GPU with ``-m gpu``."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

CASES = [("tests.kernels.triton_cases", 22), ("tests.lab.baselines.kernels.triton_cases", 20)]


def run_cases(module, device, environment):
    result = subprocess.run(
        [sys.executable, "-m", module, device],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")
@pytest.mark.parametrize(("module", "count"), CASES)
def test_kernels_agree_with_their_definitions_in_the_interpreter(module, count):
    pytest.importorskip("triton")
    environment = {"TRITON_INTERPRET": "1"}  # read when triton is imported, hence a process of its own
    output = run_cases(module, "cpu", environment)
    assert output.count("agrees") == count


@pytest.mark.gpu
@pytest.mark.parametrize(("module", "count"), CASES)
def test_kernels_agree_with_their_definitions_on_a_gpu(module, count):
    output = run_cases(module, "cuda", {})
    assert output.count("agrees") == count


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")
def test_kernels_run_on_the_device_of_their_numbers(monkeypatch):
    pytest.importorskip("triton")
    from fourierscale.kernels.triton_launch import on_its_device

    entered, x = [], SimpleNamespace(is_cuda=True, device=torch.device("cuda", 1))
    monkeypatch.setattr(torch.cuda, "device", lambda device: entered.append(device) or contextlib.nullcontext())
    for current, expected in ((1, []), (0, [torch.device("cuda", 1)])):
        monkeypatch.setattr(torch.cuda, "current_device", lambda current=current: current)
        assert on_its_device(lambda x, y: (x, y))(x, y=2) == (x, 2)
        assert entered == expected


@pytest.mark.gpu
@pytest.mark.parametrize("grid", ["level", "common"])
@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_a_net_on_a_gpu_is_equivariant_in_every_precision(grid, precision):
    from fourierscale import create_model
    from fourierscale.functional import crop, downscale

    torch.manual_seed(0)
    net = create_model("scalenet-mnist", grid=grid).cuda().net
    x = torch.rand(2, 1, 28, 28, device="cuda")

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        whole = net(x)
        tolerance = {"highest": 1e-11, "high": 1e-4, "medium": 1e-2}[precision]
        for n in (8, 13, 20, 27):
            low = net(downscale(x, n))
            error = (low - crop(whole, n)).norm() ** 2 / low.norm() ** 2
            assert error < tolerance, (n, error)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
def test_a_net_on_a_gpu_compiles_and_runs_in_bfloat16():
    from fourierscale import create_model

    torch.manual_seed(0)
    net = create_model("scalenet-tiny").cuda().eval()
    x = torch.rand(4, 1, 28, 28, device="cuda")
    expected = net(x)
    torch.testing.assert_close(torch.compile(net, dynamic=False)(x), expected, atol=1e-3, rtol=1e-3)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = net(x)
    assert (y.float() - expected).norm() / expected.norm() < 0.05
