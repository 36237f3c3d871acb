"""A nested model on two processes, compiled as a part of a classifier, and in bfloat16."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from fourierscale.models import UNet, create_model
from fourierscale.nn import NestedModel
from fourierscale.testing import assert_scale_consistent

LEVELS = (16, 24, 32)
SCRIPT = """
    import json, sys
    import torch, torch.distributed as dist
    torch.set_num_threads(1)
    from torch.nn.parallel import DistributedDataParallel
    from fourierscale.models import UNet, create_model
    from fourierscale.nn import NestedModel

    rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    found = {}
    for name, training, options in (
        ("still", False, {}),
        ("shared", True, {}),
        ("level", True, {"norms": "level"}),
        ("again", True, {"checkpoint": True}),
    ):
        torch.manual_seed(0)
        net = NestedModel(UNet(3, 2, (4, 8)), (16, 24, 32), **options).train(training)
        x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
        both = DistributedDataParallel(net)
        for _ in range(2):
            both.zero_grad()
            both(x[2 * rank : 2 * rank + 2]).square().mean().backward()
        found[name] = [p.grad.flatten().tolist() for p in net.parameters()]
    torch.manual_seed(0)
    model = create_model("resnet-stl10-small", widths=(4, 8), hidden=8, resolutions=(16, 24, 32), made="consistent")
    both = DistributedDataParallel(model.train())
    for _ in range(2):
        both(x[2 * rank : 2 * rank + 2]).square().mean().backward()
    found["consistent"] = [p.grad.flatten().tolist() for p in model.parameters()]
    json.dump(found, open(out, "w"))
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[list[float]]]]:
    """The gradients that each of two processes has after a step."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))

    def start(rank: int) -> subprocess.Popen[str]:
        arguments = [str(folder / "script.py"), str(rank), str(folder / "store"), str(folder / f"{rank}.json")]
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
            stderr=subprocess.PIPE,
        )

    processes = [start(rank) for rank in range(2)]
    told = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told[0][-3000:] + told[1][-3000:]
    return [json.loads(Path(folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_have_the_gradients_of_one(pair):
    torch.manual_seed(0)
    net = NestedModel(UNet(3, 2, (4, 8)), LEVELS).eval()
    net(torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))).square().mean().backward()
    for parameter, gradient in zip(net.parameters(), pair[0]["still"], strict=True):
        torch.testing.assert_close(parameter.grad.flatten(), torch.tensor(gradient), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", ["shared", "level", "again", "consistent"])
def test_two_processes_train_together(pair, name):
    first, second = (process[name] for process in pair)
    assert first == second
    values = torch.tensor([value for gradient in first for value in gradient])
    assert values.isfinite().all()
    assert values.abs().max() > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("made", ["consistent", "exact"])
def test_what_is_made_of_a_plain_net_compiles(made):
    model = create_model("resnet-stl10-small", widths=(4, 8), hidden=8, resolutions=LEVELS, made=made).eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="aot_eager")
    for n in (32, 24):
        x = torch.rand(2, 3, n, n)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("made", ["consistent", "exact"])
def test_under_autocast_transforms_and_heads_stay_in_single_precision(made):
    model = create_model("resnet-stl10-small", widths=(4, 8), hidden=8, resolutions=LEVELS, made=made).eval()
    x, seen = torch.rand(2, 3, 32, 32), []
    for part in model.modules():
        if isinstance(part, (nn.Conv2d, nn.Linear)):
            part.register_forward_hook(lambda part, _, y: seen.append((type(part), y.dtype)))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model(x)
        error = assert_scale_consistent(model, x, [16, 24], tolerance=1e-3)
    assert {dtype for kind, dtype in seen if kind is nn.Conv2d} == {torch.bfloat16}
    assert {dtype for kind, dtype in seen if kind is nn.Linear} == {torch.float32}
    assert logits.dtype == torch.float32
    assert error <= 1e-3
    with torch.no_grad():
        assert (logits - model(x)).norm() / logits.norm() < 0.05
