"""Training passes replayed as CUDA graphs are the passes themselves."""

import pytest
import torch
from torch import nn

from fourierscale import create_model


def test_gradients_are_copied_out_of_the_graph():
    from fourierscale.training.graphs import _copies

    own = [torch.randn(3, 4), None, torch.randn(5).expand(2, 5), torch.randn(4, 3).mT, torch.tensor(2.0)]
    copies = _copies(own)
    for tensor, copy in zip(own, copies, strict=True):
        assert (tensor is None) == (copy is None)
        if tensor is not None:
            assert torch.equal(tensor, copy)
            assert tensor.data_ptr() != copy.data_ptr()
    assert _copies([None, None]) == [None, None]


@pytest.mark.gpu
def test_a_replayed_pass_has_the_values_and_gradients_of_the_model():
    from fourierscale.training.graphs import GraphedTraining

    options = {"head": "temperature", "dropout": 0.0}
    model, twin = (create_model("scalenet-tiny", **options).cuda().train() for _ in range(2))
    twin.load_state_dict(model.state_dict())
    graphed = GraphedTraining(model)
    labels = torch.arange(8, device="cuda")
    for size in (28, 20, 28, 20, 12):
        x = torch.randn(8, 1, size, size, device="cuda")
        losses = []
        for function, owner in ((graphed, model), (twin, twin)):
            owner.zero_grad()
            losses.append(nn.functional.cross_entropy(function(x)[:, -1], labels))
            losses[-1].backward()
        torch.testing.assert_close(losses[0], losses[1])
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
        for owner in (model, twin):  # the graph reads the parameters' memory: it must see their new values
            with torch.no_grad():
                for parameter in owner.parameters():
                    parameter -= 0.01 * parameter.grad


@pytest.mark.gpu
def test_dropout_of_a_replayed_pass_follows_the_seed():
    from fourierscale.training.graphs import GraphedTraining

    model = create_model("scalenet-tiny", dropout=0.5).cuda().train()
    x = torch.randn(4, 1, 16, 16, device="cuda")

    def draws(graphed, *seeds):
        outputs = []
        for seed in seeds:
            torch.manual_seed(seed)
            outputs.append(graphed(x).detach())
        return outputs

    first = draws(GraphedTraining(model), 1, 2, 1)
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[1])
    again = draws(GraphedTraining(model), 2)  # captured at another step: the same mask for the same seed
    torch.testing.assert_close(again[0], first[1])


@pytest.mark.gpu
def test_capturing_leaves_the_averages_of_batch_norms_alone():
    from fourierscale.training.graphs import GraphedTraining

    model, twin = (create_model("cnn-mnist", widths=(4, 5, 6), dropout=0.0).cuda().train() for _ in range(2))
    twin.load_state_dict(model.state_dict())
    graphed = GraphedTraining(model)
    for _ in range(3):
        x = torch.randn(8, 1, 28, 28, device="cuda")
        torch.testing.assert_close(graphed(x), twin(x))
    for (name, a), b in zip(model.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
    assert model.norms[0].num_batches_tracked.item() == 3


@pytest.mark.gpu
def test_a_model_of_which_a_batch_uses_a_part_leaves_the_rest_without_gradients():
    from fourierscale.training.graphs import GraphedTraining

    model = create_model("per-resolution-cnn-mnist", widths=(2, 3, 4), hidden=5).cuda().train()
    graphed = GraphedTraining(model)
    for size in (8, 28, 8):
        model.zero_grad()
        graphed(torch.randn(4, 1, size, size, device="cuda")).sum().backward()
        with_gradients = {name.split(".")[1] for name, p in model.named_parameters() if p.grad is not None}
        assert with_gradients == {str(size)}


@pytest.mark.gpu
def test_a_shape_is_captured_when_it_has_come_often_enough():
    from fourierscale.training.graphs import GraphedTraining

    calls = []
    model = create_model("scalenet-tiny", dropout=0.0).cuda().train()
    model.register_forward_pre_hook(lambda module, arguments: calls.append(len(arguments[0])))
    graphed = GraphedTraining(model, wait=1)
    for count in (4, 3, 4, 4, 3):
        graphed(torch.randn(count, 1, 16, 16, device="cuda")).sum().backward()
    assert calls == [4, 3, 4, 4, 4, 3, 3, 3]  # once as it is, then two passes to warm up and one to capture
