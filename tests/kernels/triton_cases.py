"""Compare the Triton kernels with the matrix products in float64; run by ``test_gpu_kernels.py``."""

import itertools
import sys

import torch

from fourierscale.functional import Levels
from fourierscale.functional.bands import grids
from fourierscale.functional.nested import plan_levels
from fourierscale.kernels import mixing, nested, plans, pooling

LIMIT = 1e-11  # relative squared error in float32


def check(name, values, references, limit=LIMIT):
    for value, reference in zip(values, references, strict=True):
        if reference.numel():
            error = ((value.double() - reference).norm() / reference.norm()).square().item()
            assert error < limit, f"{name}: {error}"
    print(name, "agrees")


def main(device):
    from fourierscale.kernels.gpu import common_grid, edges, head, level_grids

    def draw(*shape):
        return torch.randn(*shape, device=device)

    torch.manual_seed(0)
    edges.PIECE, edges.ALIGNED = 3 * edges.BLOCK, 1  # pieces of three small tiles or of a large one, the last ragged
    for size, resolutions, grid, activation, norm, *pooling_kind in (
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
    ):
        levels, pool = Levels(resolutions), 1 + len(pooling_kind)
        plan = tuple(plan_levels(levels, tuple((n - 1) // 2 for n in size), grid=grid, pool=pool))
        options = plans.Options(activation, norm, 1e-5, pool, *pooling_kind or ["max"])
        channels = {(13, 13): 5, (33, 35): 1}.get(size, 2)
        x, gradient = draw(*size, 1, channels), draw(*grids(plan[-1].writes), 1, channels)
        affine = [draw(len(levels), channels), draw(len(levels), channels)] if norm else [None, None]
        exact = [None if t is None else t.double() for t in affine]
        implementation = common_grid if len({level.grid for level in plan}) == 1 else level_grids
        value = implementation.nested_forward(x, *affine, plan, options)
        gradients = implementation.nested_backward(gradient, x, *affine, plan, options)
        reference = nested.nested_forward(x.double(), *exact, plan, options)
        expected = nested.nested_backward(gradient.double(), x.double(), *exact, plan, options)
        check(f"{size} {grid} {activation} pool {pool}", [value, *gradients], [reference, *expected])

    for cells, window in ((2, 14), (1, 16), (3, 5)):
        x, boxes = draw(27, 27, 2, 2), ((3, 3), (8, 8), (13, 13))
        reference, places = pooling.pool_forward(x.double(), boxes, window, cells, "max")
        value, found = head.pool_forward(x, boxes, window, cells)
        assert torch.equal(found, places)
        gradient = draw(*value.shape)
        expected = pooling.pool_backward(gradient.double(), places, boxes, window, cells, "max", "circular", 2)
        back = head.pool_backward(gradient, places, boxes, window, cells, 2)
        check(f"pool {cells} x {window}", [value, back], [reference, expected])

    for size, whole in itertools.product(((7, 9), (1, 5)), (False, True)):
        x = draw(*size, 3, 4).requires_grad_()
        kernel, expand = mixing.tap_kernel(draw(6, 4, 3, 3), (12, 12), size)
        if whole:
            kernel, expand = mixing.full_kernel(kernel, expand), None
        kernel.requires_grad_()
        results, gradient = [], draw(*size, 3, 6)
        for engine in ("gemm", "triton"):
            y = mixing.mix(x, kernel, expand, engine)
            results.append([y, *torch.autograd.grad(y, (x, kernel), gradient)])
        check(f"mix {size} {whole}", results[1], [t.double() for t in results[0]])


if __name__ == "__main__":
    main(torch.device(sys.argv[1]))
