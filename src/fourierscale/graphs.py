"""Replay a model's forward and backward pass as CUDA graphs, one per image size: no launch overhead."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class GraphedTraining:
    """A model's training pass, captured for each image size.

    Full batches are captured when their size first comes; ragged last batches run as they are. All graphs share one
    pool of memory: a step uses one of them, from its forward to its backward pass.

    Args:
        model: On a CUDA device, in training mode whenever this is called.
        batch_size: Images in a full batch.
    """

    def __init__(self, model: nn.Module, batch_size: int) -> None:
        self.model = model
        self.batch_size = batch_size
        self._graphs: dict[tuple[int, ...], _Graph] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, x: Tensor) -> Tensor:
        """What ``model(x)`` gives, with its gradient."""
        if len(x) != self.batch_size:
            y: Tensor = self.model(x)
            return y
        shape = tuple(x.shape)
        if shape not in self._graphs:
            # capturing draws numbers and moves the averages of batch norms: a replayed step must not know
            state, buffers = torch.cuda.get_rng_state(x.device), [buffer.clone() for buffer in self.model.buffers()]
            self._graphs[shape] = _Graph(self.model, x, self._pool)
            torch.cuda.set_rng_state(state, x.device)
            for buffer, before in zip(self.model.buffers(), buffers, strict=True):
                buffer.copy_(before)
        graph = self._graphs[shape]
        replayed: Tensor = _Replay.apply(graph, x, *graph.parameters)  # type: ignore[no-untyped-call]
        return replayed


class _Graph:
    """Forward and backward pass of a model on one shape."""

    def __init__(self, model: nn.Module, x: Tensor, pool: Any) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.parameters = list(named.values())
        # Leaves of their own on the parameters' memory: the parameters' own belong to the stream that first used them.
        leaves = {name: p.detach().requires_grad_() for name, p in named.items()}
        self.input = x.detach().clone()

        def forward() -> Tensor:
            y: Tensor = torch.func.functional_call(model, leaves, (self.input,))
            return y

        def backward(y: Tensor, gradient: Tensor) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(y, list(leaves.values()), gradient, allow_unused=True)

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries set themselves up on first use, which cannot be captured
                y = forward()
                backward(y, torch.ones_like(y))
        torch.cuda.current_stream().wait_stream(stream)
        del y
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward, pool=pool):
            self.output = forward()
        self.output_gradient = torch.empty_like(self.output)
        with torch.cuda.graph(self.backward, pool=pool):
            self.gradients = backward(self.output, self.output_gradient)
        self.output = self.output.detach()


class _Replay(torch.autograd.Function):
    """A captured pass as one step of autograd."""

    @staticmethod
    def forward(ctx: Any, graph: _Graph, x: Tensor, *parameters: Tensor) -> Tensor:
        graph.input.copy_(x)
        graph.forward.replay()
        ctx.graph = graph
        return graph.output.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        graph = ctx.graph
        graph.output_gradient.copy_(gradient)
        graph.backward.replay()
        return None, None, *(None if g is None else g.clone() for g in graph.gradients)
