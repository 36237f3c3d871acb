"""Compare the Triton kernels of the baselines with torch in float64; run by ``test_triton.py``."""

import copy
import sys

import torch

from fourierscale.lab.baselines.kernels.largest import largest_of_images, largest_of_windows
from fourierscale.lab.baselines.kernels.norms import fused_norm_relu, fused_scale_relu
from tests.kernels.triton_cases import LIMIT, check

HALF = 1e-4  # relative squared error in bfloat16


def check_norm(shape, memory_format, dtype, draw):
    """The kernels in one pass against three steps of torch, with gradients and averages."""
    x = (3 * draw(*shape) + 7).to(dtype).contiguous(memory_format=memory_format).requires_grad_()
    ours = torch.nn.BatchNorm2d(shape[1], device=x.device)
    with torch.no_grad():
        ours.weight.copy_(draw(shape[1]))
        ours.bias.copy_(draw(shape[1]))
    twin = copy.deepcopy(ours).double()
    y, gradient = fused_norm_relu(ours, x, 0.0), draw(*shape).to(dtype)
    values = [y, *torch.autograd.grad(y, (x, ours.weight, ours.bias), gradient)]
    exact = x.detach().double().requires_grad_()
    z = torch.relu(twin(exact))
    references = [z, *torch.autograd.grad(z, (exact, twin.weight, twin.bias), gradient.double())]
    assert all(t.is_contiguous(memory_format=memory_format) for t in values[:2])
    limit = LIMIT if dtype is torch.float32 else HALF
    check(f"norm {shape}", values, references, limit)
    check("averages", [ours.running_mean, ours.running_var], [twin.running_mean, twin.running_var], limit)
    assert ours.num_batches_tracked == 1
    check("evaluation", [fused_scale_relu(ours.eval(), x.detach())], [torch.relu(twin.eval()(exact))], limit)


def check_dropout(draw):
    """What is kept is drawn with its probability, alike in both passes, anew in the next."""
    norm, x = torch.nn.BatchNorm2d(8), draw(4, 8, 32, 32).requires_grad_()
    norm.to(x.device)
    whole, y = fused_norm_relu(norm, x, 0.0), fused_norm_relu(norm, x, 0.25)
    there = whole > 0
    kept = (y > 0) & there
    share = (kept.sum() / there.sum()).item()
    assert abs(share - 0.75) < 0.02, share
    assert (kept.float().mean((0, 2, 3)) / there.float().mean((0, 2, 3)) - 0.75).abs().max() < 0.05
    torch.testing.assert_close(y, torch.where(kept, whole / 0.75, 0))
    (gradient,) = torch.autograd.grad(y, norm.bias, torch.ones_like(y))
    torch.testing.assert_close(gradient, kept.sum((0, 2, 3)) / 0.75)
    assert not torch.equal(fused_norm_relu(norm, x, 0.25) > 0, y > 0)
    print("dropout agrees")


def main(device):
    def draw(*shape):
        return torch.randn(*shape, device=device)

    torch.manual_seed(0)
    for shape, last, dtype in (
        ((3, 70, 5, 3), True, torch.float32),  # a second block of channels
        ((2, 5, 33, 37), False, torch.float32),
        ((2, 3, 7, 5), True, torch.bfloat16),
        ((1, 2, 40, 40), True, torch.float32),  # a second, ragged part of the rows
        ((4, 2, 3, 3), False, torch.bfloat16),
    ):
        check_norm(shape, torch.channels_last if last else torch.contiguous_format, dtype, draw)
    check_dropout(draw)

    for memory_format in (torch.channels_last, torch.contiguous_format):
        x = draw(6, 5, 8, 4).round().contiguous(memory_format=memory_format).requires_grad_()  # with equal numbers
        cases = (
            (lambda x: largest_of_images(x, 3), lambda x: torch.unflatten(x, 0, (3, 2)).amax(0)),
            (lambda x: largest_of_windows(x, 2), torch.nn.MaxPool2d(2)),
        )
        for ours, theirs in cases:
            gradient, values = draw(*theirs(x).shape), []
            for function in (ours, theirs):
                y = function(x)
                values.append([y, *torch.autograd.grad(y, x, gradient)])
            assert values[0][0].is_contiguous(memory_format=memory_format)
            check("largest", values[0], [t.double() for t in values[1]])


if __name__ == "__main__":
    main(torch.device(sys.argv[1]))
