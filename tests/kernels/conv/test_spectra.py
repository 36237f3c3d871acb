"""Spectra are kept as long as the parameters are what they were, and no longer."""

import threading

import pytest
import torch

from fourierscale.kernels.conv import operator, spectra
from fourierscale.nn import LocalFourierConv2d


@pytest.fixture(autouse=True)
def by_spectrum(monkeypatch):
    """So few images would be convolved on samples."""
    monkeypatch.setattr(operator, "choose_way", lambda *_: "spectrum")


def test_spectra_are_kept_in_evaluation_and_made_again_when_taps_change():
    layer = LocalFourierConv2d(2, 3, 3, 9, pointwise=True).eval()
    x = torch.randn(1, 2, 9, 9)
    with torch.no_grad():
        before = layer(x)
        assert len(layer._spectra) == 1
        assert torch.equal(layer(x), before)
        assert len(layer._spectra) == 1
        layer.weight.mul_(2)
        layer.pointwise.mul_(2)
        torch.testing.assert_close(layer(x) - _bias(layer), 2 * (before - _bias(layer)))
        assert len(layer._spectra) == 1
    layer.train()
    assert len(layer._spectra) == 0
    with torch.no_grad():
        layer(x)
        assert len(layer._spectra) == 0  # training keeps none


def _bias(layer):
    constant = torch.zeros(1, 3, 9, 9)
    constant[..., 0, 0] = layer.bias
    return constant


def _made_anew(layer):
    """A layer with the same parameters that has never been used."""
    fresh = LocalFourierConv2d(2, 3, 3, 9, pointwise=layer.pointwise is not None).eval()
    state = {name: getattr(layer, name) for name in fresh.state_dict()}
    fresh.load_state_dict(state)
    return fresh


@torch.no_grad()
def _assert_as_new(layer, x):
    # close, not equal: a spectrum that is kept and one that is made in pieces are rounded differently
    torch.testing.assert_close(layer(x), _made_anew(layer)(x))


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
@pytest.mark.parametrize("switched", [True, False])
def test_a_fused_optimizer_leaves_no_old_spectra(optimizer, switched):
    layer = LocalFourierConv2d(2, 3, 3, 9, pointwise=True).eval()
    x = torch.randn(1, 2, 9, 9)
    step = optimizer(layer.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        _assert_as_new(layer, x)
        if switched:  # fine-tuning may stay in evaluation mode
            layer.train()
        layer(x).square().sum().backward()
        step.step()
        if switched:
            layer.eval()
    _assert_as_new(layer, x)


def test_evaluation_anew_forgets_what_was_written_behind_the_back():
    layer = LocalFourierConv2d(2, 3, 3, 9).eval()
    x = torch.randn(1, 2, 9, 9)
    _assert_as_new(layer, x)
    layer.weight.data.mul_(2)  # as averages of weights are swapped in
    _assert_as_new(layer.eval(), x)


@pytest.mark.parametrize(
    "change", [lambda p: p.data.mul_(2), lambda p: p.data.copy_(p.flip(-1)), lambda p: p.data.add_(1e-6)]
)
def test_what_is_written_behind_the_back_is_noticed_on_a_cpu(change):
    layer = LocalFourierConv2d(2, 3, 3, 9, pointwise=True).eval()
    x = torch.randn(1, 2, 9, 9)
    for parameter in (layer.weight, layer.pointwise):
        _assert_as_new(layer, x)
        kept = next(iter(layer._spectra._by_size.values()))
        change(parameter)
        _assert_as_new(layer, x)
        assert next(iter(layer._spectra._by_size.values())) is not kept


def test_taps_that_are_computed_are_computed_every_time():
    layer = torch.nn.utils.parametrizations.weight_norm(LocalFourierConv2d(2, 3, 3, 9)).eval()
    x = torch.randn(1, 2, 9, 9)
    for factor in (1, 2, 3):
        with torch.no_grad():
            layer.parametrizations.weight.original0.mul_(factor)
        _assert_as_new(layer, x)


@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
@torch.no_grad()
def test_parameters_from_outside_are_used_as_they_are(kind):
    layer = LocalFourierConv2d(2, 3, 3, 9).eval()
    x, start = torch.randn(1, 2, 9, 9), {name: p.clone() for name, p in layer.state_dict().items()}
    for factor in (1, 2, 3, 4):
        scaled = {name: kind(p * factor) for name, p in start.items()}
        y = torch.func.functional_call(layer, scaled, (x,))
        fresh = LocalFourierConv2d(2, 3, 3, 9).eval()
        fresh.load_state_dict(scaled)
        torch.testing.assert_close(y, fresh(x))
        del scaled  # so that the next ones may lie at the same place


class Forgetful(dict):
    """Spectra that another thread drops as soon as one has seen that they are there."""

    def __contains__(self, size):
        found = super().__contains__(size)
        self.clear()
        return found


def test_spectra_may_be_forgotten_by_another_thread_at_any_moment():
    layer = LocalFourierConv2d(2, 3, 3, 9).eval()
    x = torch.randn(1, 2, 9, 9)
    with torch.no_grad():
        before = layer(x)
        layer._spectra._by_size = Forgetful(layer._spectra._by_size)
        assert torch.equal(layer(x), before)
    stop, raised = threading.Event(), []

    @torch.no_grad()
    def work():
        try:
            while not stop.is_set():
                assert torch.equal(layer(x), before)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        layer.eval()
    stop.set()
    for thread in threads:
        thread.join()
    assert not raised


def test_the_kept_spectra_are_bounded(monkeypatch):
    layer = LocalFourierConv2d(2, 3, 3, 33).eval()
    one = 2 * 17 * 33 * 6
    monkeypatch.setattr(spectra, "ENTRIES_KEPT", int(1.5 * one))
    with torch.no_grad():
        for n in (33, 31, 29, 27):
            layer(torch.randn(1, 2, n, n))
            assert layer._spectra.entries() <= spectra.ENTRIES_KEPT
