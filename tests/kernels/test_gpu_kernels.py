"""The Triton kernels against the matrix products, in Triton's interpreter here and on a GPU with ``-m gpu``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CASES = Path(__file__).with_name("triton_cases.py")


def run_cases(device, environment):
    result = subprocess.run(
        [sys.executable, str(CASES), device],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")
def test_kernels_agree_with_the_products_in_the_interpreter():
    pytest.importorskip("triton")
    output = run_cases("cpu", {"TRITON_INTERPRET": "1"})  # read when triton is imported, hence a process of its own
    assert output.count("agrees") == 19


@pytest.mark.gpu
def test_kernels_agree_with_the_products_on_a_gpu():
    output = run_cases("cuda", {})
    assert output.count("agrees") == 19


@pytest.mark.gpu
@pytest.mark.parametrize("grid", ["level", "common"])
@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_a_net_on_a_gpu_is_equivariant_in_every_precision(grid, precision):
    from fourierscale import create_model
    from fourierscale.functional import crop

    torch.manual_seed(0)
    net = create_model("scalenet-mnist", grid=grid).cuda().net
    x = torch.rand(2, 1, 28, 28, device="cuda")
    from fourierscale.functional import downscale

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
