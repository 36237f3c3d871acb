"""Residual nets in half precision on a GPU, where they have kernels of their own."""

import pytest
import torch

from fourierscale import create_model
from fourierscale.kernels import backend


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["wrn-stl10", "sesn-stl10", "disco-stl10", "dss-stl10", "si-convnet-stl10"])
def test_a_residual_net_in_half_precision_is_what_torch_computes(name):
    torch.manual_seed(0)
    model = create_model(name, widths=(8, 16, 24, 32), dropout=0.0).cuda()
    x, state = torch.rand(8, 3, 48, 48, device="cuda"), {k: v.clone() for k, v in model.state_dict().items()}
    results = []
    for kind in ("auto", "torch"):
        model.load_state_dict(state)
        with backend(kind), torch.autocast("cuda", torch.bfloat16):
            y = model.train()(x).float()
            gradients = torch.autograd.grad(y.square().sum(), list(model.parameters()))
            with torch.no_grad():
                again = model.eval()(x).float()
        results.append([y, again, torch.cat([g.flatten() for g in gradients])])
    for ours, theirs in zip(*results, strict=True):
        assert ((ours - theirs).norm() / theirs.norm()).item() < 0.1
    assert not torch.equal(results[0][-1], results[1][-1])  # other kernels did run
