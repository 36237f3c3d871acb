"""Replay a model's forward and backward pass as CUDA graphs, one per shape of a batch: no launch overhead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

Output: TypeAlias = Tensor | tuple[Tensor, ...]


class GraphedTraining:
    """A model's training pass, captured for each shape of a batch.

    All graphs share one pool of memory: a step uses one of them, from its forward to its backward pass. Two passes in
    one step need two of these.

    Args:
        model: On a CUDA device, in training mode whenever this is called; gives a tensor or a tuple of them.
        wait: Batches of a shape that run as they are before it is captured, which takes as long as three of them.
    """

    def __init__(self, model: nn.Module, *, wait: int = 0) -> None:
        self.model = model
        self.wait = wait
        self._seen: Counter[tuple[int, ...]] = Counter()
        self._graphs: dict[tuple[int, ...], _Graph] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, x: Tensor) -> Any:
        """What ``model(x)`` gives, with its gradient."""
        shape = tuple(x.shape)
        self._seen[shape] += 1
        if self._seen[shape] <= self.wait:
            return self.model(x)
        if shape not in self._graphs:
            # capturing draws numbers and moves the averages of batch norms: a replayed step must not know
            state, buffers = torch.cuda.get_rng_state(x.device), [buffer.clone() for buffer in self.model.buffers()]
            self._graphs[shape] = _Graph(self.model, x, self._pool)
            torch.cuda.set_rng_state(state, x.device)
            for buffer, before in zip(self.model.buffers(), buffers, strict=True):
                buffer.copy_(before)
        graph = self._graphs[shape]
        replayed = _Replay.apply(graph, x, *graph.parameters)  # type: ignore[no-untyped-call]
        return replayed[0] if graph.single else replayed


class _Graph:
    """Forward and backward pass of a model on one shape."""

    def __init__(self, model: nn.Module, x: Tensor, pool: Any) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.parameters = list(named.values())
        # Leaves of their own on the parameters' memory: the parameters' own belong to the stream that first used them.
        leaves = {name: p.detach().requires_grad_() for name, p in named.items()}
        self.input = x.detach().clone()

        def forward() -> tuple[Tensor, ...]:
            y: Output = torch.func.functional_call(model, leaves, (self.input,))
            self.single = isinstance(y, Tensor)
            return (y,) if isinstance(y, Tensor) else tuple(y)

        def backward(y: tuple[Tensor, ...], gradients: list[Tensor]) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(y, list(leaves.values()), gradients, allow_unused=True)

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries set themselves up on first use, which cannot be captured
                y = forward()
                backward(y, [torch.ones_like(part) for part in y])
        torch.cuda.current_stream().wait_stream(stream)
        del y
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward, pool=pool):
            outputs = forward()
        self.output_gradients = [torch.empty_like(part) for part in outputs]
        with torch.cuda.graph(self.backward, pool=pool):
            self.gradients = backward(outputs, self.output_gradients)
        self.outputs = [part.detach() for part in outputs]


class _Replay(torch.autograd.Function):
    """A captured pass as one step of autograd."""

    @staticmethod
    def forward(ctx: Any, graph: _Graph, x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        graph.input.copy_(x)
        graph.forward.replay()
        ctx.graph = graph
        return tuple(part.clone() for part in graph.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        graph = ctx.graph
        for own, given in zip(graph.output_gradients, gradients, strict=True):
            own.copy_(given)
        graph.backward.replay()
        return None, None, *_copies(graph.gradients)


def _copies(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Copies that no later replay writes to, made by one kernel: one for each would take as long as a small net."""
    present = [tensor for tensor in tensors if tensor is not None]
    copies = [torch.empty_like(tensor) for tensor in present]
    if present:
        torch._foreach_copy_(copies, present)
    left = iter(copies)
    return [None if tensor is None else next(left) for tensor in tensors]
