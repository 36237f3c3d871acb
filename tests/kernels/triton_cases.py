"""Compare the Triton kernels with the matrix products in float64; run by ``test_triton.py``."""

import itertools
import sys

import torch

from fourierscale.functional import Levels, Pooling
from fourierscale.functional.bands import grids
from fourierscale.kernels import ACTIVATIONS, Activation
from fourierscale.kernels.conv import operator, spectra
from fourierscale.kernels.nested import products as nested
from fourierscale.kernels.nested.task import Task, make_plan
from fourierscale.kernels.pool import products as pool
from fourierscale.kernels.pool.task import PoolTask
from tests.kernels.nested.test_activations import squared, squared_backward, squared_triton

LIMIT = 1e-11  # relative squared error in float32


def check(name, values, references, limit=LIMIT):
    for value, reference in zip(values, references, strict=True):
        if reference.numel():
            error = ((value.double() - reference).norm() / reference.norm()).square().item()
            assert error < limit, f"{name}: {error}"
    print(name, "agrees")


def main(device):
    from fourierscale.kernels import triton_edges
    from fourierscale.kernels.nested import triton_common_grid, triton_level_grids
    from fourierscale.kernels.pool import triton_pool

    def draw(*shape):
        return torch.randn(*shape, device=device)

    torch.manual_seed(0)
    triton_edges.LINES_AT_ONCE = 3 * triton_edges.BLOCK  # pieces of three small tiles or of a large one,
    triton_edges.ALIGNED = 1  # the last ragged
    ACTIVATIONS["squared_relu"] = Activation(squared, backward=squared_backward, triton=squared_triton)
    for size, resolutions, grid, activation, norm, *kind in (
        ((13, 13), range(4, 16), "level", "relu", True),
        ((13, 13), range(6, 16, 4), "common", "relu", True),
        ((27, 27), [8, 13, 28], "level", "gelu", True),
        ((17, 17), [8, 13, 18], "common", "gelu", True),
        ((9, 13), [4, 8, 16], "level", "tanh", False),
        ((9, 13), [4, 8, 16], "common", "leaky_relu", False),
        ((21, 27), [8, 18, 28], "level", "silu", True),
        ((31, 9), [32], "common", "silu", True),
        ((19, 19), [12, 20], "common", "relu", True, "max"),
        ((15, 13), [8, 12, 16], "common", "tanh", False, "average"),
        ((33, 35), [24, 36], "common", "relu", True),  # several blocks of samples from here on
        ((13, 9), [(66, 34)], "common", "gelu", True, "max"),
        ((9, 7), [4, 10], "level", "squared_relu", True),  # one entry of the table is all that it needs
        ((9, 9), [6, 10], "common", "squared_relu", True, "average"),
        ((9, 7), [4, 10], "level", "identity", False),
    ):
        levels, pooling = Levels(resolutions), Pooling(1 + len(kind), *kind)
        plan = make_plan(levels, tuple((n - 1) // 2 for n in size), pooling.window, grid, 1.0)
        task = Task("products", activation, 1e-5 if norm else None, pooling, plan.levels)
        channels = {(13, 13): 5, (33, 35): 1}.get(size, 2)
        x, gradient = draw(*size, 1, channels), draw(*grids(plan.levels[-1].writes), 1, channels)
        affine = [draw(len(levels), channels), draw(len(levels), channels)] if norm else [None, None]
        exact = [None if t is None else t.double() for t in affine]
        fused = triton_common_grid if plan.is_common else triton_level_grids
        value = fused.nested_forward(x, *affine, task)
        gradients = fused.nested_backward(gradient, x, *affine, task)
        reference = nested.nested_forward(x.double(), *exact, task)
        expected = nested.nested_backward(gradient.double(), x.double(), *exact, task)
        check(f"{size} {grid} {activation} pool {pooling.window}", [value, *gradients], [reference, *expected])

    for cells, window in ((2, 14), (1, 16), (3, 5)):
        x, task = draw(27, 27, 2, 2), PoolTask("triton", ((3, 3), (8, 8), (13, 13)), window, cells)
        reference, places = pool.pool_forward(x.double(), task)
        value, found = triton_pool.pool_forward(x, task)
        assert torch.equal(found, places)
        gradient = draw(*value.shape)
        expected = pool.pool_backward(gradient.double(), places, 2, task)
        back = triton_pool.pool_backward(gradient, places, 2, task)
        check(f"pool {cells} x {window}", [value, back], [reference, expected])
        value, found = triton_pool.pool_forward(x, task._replace(places=False))
        assert found.numel() == 0

    for size, whole in itertools.product(((7, 9), (1, 5)), (False, True)):
        x = draw(*size, 3, 4).requires_grad_()
        kernel, expand = spectra.tap_kernel(draw(6, 4, 3, 3), (12, 12), size)
        if whole:
            kernel, expand = spectra.full_kernel(kernel, expand), None
        kernel.requires_grad_()
        results, gradient = [], draw(*size, 3, 6)
        for engine in ("gemm", "triton"):
            y = operator.mix(x, kernel, expand, engine)
            results.append([y, *torch.autograd.grad(y, (x, kernel), gradient)])
        check(f"mix {size} {whole}", results[1], [t.double() for t in results[0]])


if __name__ == "__main__":
    main(torch.device(sys.argv[1]))
