"""Every fast path has the values and gradients of the specification, for any shape, level set and option."""

import math
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourierscale import functional as F
from fourierscale import kernels
from fourierscale.functional import Levels
from fourierscale.functional.nested import ACTIVATIONS, plan_levels
from fourierscale.kernels import butterflies, mixing, nested, plans, products
from fourierscale.kernels.backend import implementation
from fourierscale.nn import FourierConv1d, LocalFourierConv2d, LocalFourierConv3d, ScaleActivation2d
from fourierscale.testing import TOLERANCE, assert_scale_equivariant

DTYPES = st.sampled_from([torch.float32, torch.float64])


@contextmanager
def shared(share):
    """Two threads whose shares have so many samples, of any number of images and channels."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, "SHARE", share)
            patch.setattr(products, "NARROW", 1)
            yield
    finally:
        torch.set_num_threads(before)


def relative(value, reference):
    return ((value - reference).norm().square() / reference.norm().square().clamp_min(1e-30)).item()


def twins(function, tensors):
    """Value and gradients of the specification in float64, and of the fast path in the type of the tensors."""
    results = []
    for name, inputs in (("torch", [t.double() for t in tensors]), ("auto", tensors)):
        inputs = [t.detach().requires_grad_() for t in inputs]
        with kernels.backend(name):
            value = function(*inputs)
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)
        results.append([value, *torch.autograd.grad(value, inputs, weight)])
    return zip(*results, strict=True)


def assert_twins(function, tensors):
    for reference, value in twins(function, tensors):
        assert relative(value.double(), reference) < TOLERANCE[tensors[0].dtype], function


@st.composite
def chains(draw, axes):
    steps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    resolutions = [draw(st.integers(2, 5)) + sum(steps[:i]) for i in range(1)]
    for step in steps:
        resolutions.append(resolutions[-1] + step)
    size = tuple(2 * draw(st.integers(0, 5)) + 1 for _ in range(axes))
    return resolutions, size


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda axes: st.tuples(st.just(axes), chains(axes))),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.booleans(),
    st.sampled_from([(1, "max"), (2, "max"), (3, "max"), (2, "average")]),
    st.sampled_from([("level", 1.0), ("common", 1.0), ("level", 1.5)]),
    DTYPES,
    st.integers(0, 99),
    st.sampled_from([1, 3, 128]),
)
def test_nested_activation(case, activation, norm, pooling, sampling, dtype, seed, share):
    axes, (resolutions, size) = case
    torch.manual_seed(seed)
    x = torch.randn(2, 3, *size, dtype=dtype)
    levels = Levels(resolutions)
    parameters = [torch.randn(len(levels), 3, dtype=dtype) for _ in range(2)] if norm else []

    def function(x, weight=None, bias=None):
        apply = F.nested_activation if kernels.get_backend() == "torch" else kernels.nested_activation
        return apply(
            x,
            levels,
            ACTIVATIONS[activation] if apply is F.nested_activation else activation,
            axes=axes,
            weight=weight,
            bias=bias,
            norm=norm,
            pool=pooling[0],
            pool_kind=pooling[1],
            grid=sampling[0],
            oversample=sampling[1],
        )

    with shared(share):
        assert_twins(function, [x, *parameters])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([64, 2**20]),
    st.sampled_from([64, 2**20]),
    DTYPES,
)
def test_local_convolution(axes, in_channels, out_channels, piece, features, dtype):
    size, taps = tuple(2 * k + 1 for k, _ in axes), tuple(n for _, n in axes)
    reference = tuple(max(n + 1, t) for n, t in zip(size, taps, strict=True))
    torch.manual_seed(0)
    x = torch.randn(2, in_channels, *size, dtype=dtype)
    weight = torch.randn(out_channels, in_channels, *taps, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mixing.PIECE, "cpu", piece)  # one piece, and many
        patch.setitem(mixing.FEATURES, "cpu", features)
        assert_twins(lambda x, w: kernels.local_conv(x, lambda: w, reference), [x, weight])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), DTYPES)
def test_spectrum_convolution(bands, dtype):
    size = tuple(2 * k + 1 for k in bands)
    torch.manual_seed(0)
    x, spectrum = torch.randn(2, 3, *size, dtype=dtype), torch.randn(4, 3, *size, dtype=dtype)
    assert_twins(kernels.spectrum_conv, [x, spectrum])


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True),
    st.integers(1, 7),
    st.integers(1, 3),
    st.sampled_from(["max", "average"]),
    DTYPES,
    st.sampled_from([1, 128]),
)
def test_pooling_of_the_head(bands, window, cells, kind, dtype, share):
    bands = sorted(bands)
    torch.manual_seed(0)
    x = torch.randn(2, 3, 2 * bands[-1] + 1, 2 * bands[-1] + 1, dtype=dtype)
    boxes = [(k, k) for k in bands]
    if kind == "max" and bands[-1] == 0 and window > 1:
        return  # a constant: equal samples, of which any one may be the largest
    if kind == "max":
        boxes = [box for box in boxes if box != (0, 0)] or boxes
    with shared(share):
        assert_twins(lambda x: kernels.level_pool(x, boxes, window, cells, kind), [x])
        trained = kernels.level_pool(x.requires_grad_(), boxes, window, cells, kind)
        with torch.no_grad():  # where no maxima have to be found again
            assert torch.equal(kernels.level_pool(x, boxes, window, cells, kind), trained)


def test_pooling_of_levels_that_are_no_chain():
    boxes = [(1, 4), (3, 2), (3, 2), (4, 4)]  # the last one holds all of them
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)

    def function(x):
        apply = F.level_pool if kernels.get_backend() == "torch" else kernels.level_pool
        return apply(x, boxes, 3, 2, "max")

    assert_twins(function, [x])


def test_large_grids_take_products_where_the_specification_takes_ffts(monkeypatch):
    torch.manual_seed(0)
    x = torch.randn(1, 2, 251, 9, dtype=torch.float64)
    levels, boxes = Levels([(120, 5), (251, 9)]), [(60, 2), (125, 4)]
    expected = F.nested_activation(x, levels, torch.relu), F.level_pool(x, boxes, 126, 2)

    def refuse(*_, **__):
        raise AssertionError("an FFT")

    monkeypatch.setattr(torch.fft, "irfft", refuse)
    torch.testing.assert_close(kernels.nested_activation(x, levels, "relu"), expected[0])
    torch.testing.assert_close(kernels.level_pool(x, boxes, 126, 2), expected[1])
    with pytest.raises(AssertionError, match="an FFT"):
        F.nested_activation(x, levels, torch.relu)
    monkeypatch.setattr(products, "LARGEST", {"cpu": 250})
    with pytest.raises(AssertionError, match="an FFT"):
        kernels.nested_activation(x, levels, "relu")


def test_variances_of_large_images_are_exact_to_rounding():
    """In one long product in float32 they were off by up to 4e-4, and differently for every image size."""
    torch.manual_seed(0)
    falling = 1 / torch.arange(1, 512)[:, None, None]
    x = (torch.randn(511, 511, 2) * falling * falling.movedim(0, 1))[:, :, None]
    plan = tuple(plan_levels(Levels([192, 511]), (255, 255)))
    options = plans.Options("relu", True, 0.0, 1, "max")
    prepared = plans.prepare(plan, (511, 511), 1, torch.float32, x.device)
    scale, _, _ = nested.statistics(x, None, None, prepared, options)
    squares = x.double().square()
    squares[0, 0] = 0
    expected = torch.stack([squares[:n, :n].sum((0, 1, 2)).rsqrt() for n in (191, 511)])
    torch.testing.assert_close(scale.double(), expected, rtol=2e-6, atol=0)


def test_second_derivatives_go_through_the_fast_paths():
    torch.manual_seed(0)
    conv = LocalFourierConv2d(2, 3, 3, 8, pointwise=True).double()
    activation = ScaleActivation2d(3, [4, 6, 8], "gelu").double()
    x = torch.randn(1, 2, 7, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: activation(conv(x)), (x,))
    spread = torch.randn(3, 5, 1, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: butterflies.gather(butterflies.spread(x) ** 2), (spread,))
    pool = torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: kernels.level_pool(x, [(1, 1), (2, 2)], 3, 2) ** 2, (pool,))


@pytest.mark.parametrize(
    "layer", [LocalFourierConv2d(2, 3, (3, 5), 9), LocalFourierConv3d(2, 3, 2, 5), FourierConv1d(2, 3, 9)]
)
def test_layers_reach_the_operators(layer):
    axes = layer.axes
    x = torch.randn(4, 2, *(5,) * axes)
    y = layer(x)
    stored_frequency_first = y.permute(*range(2, y.ndim), 0, 1)
    assert stored_frequency_first.is_contiguous()
    with kernels.backend("torch"):
        torch.testing.assert_close(layer(x), y, atol=1e-5, rtol=1e-4)


def test_results_are_stored_frequency_first_and_read_without_a_copy():
    x = torch.randn(2, 3, 9, 9)
    y = ScaleActivation2d(3, [4, 9])(x)
    from fourierscale.kernels.layers import frequency_first

    assert frequency_first(y, 2).data_ptr() == y.data_ptr()
    assert frequency_first(x, 2).data_ptr() != x.data_ptr()


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


def test_the_kept_spectra_are_bounded(monkeypatch):
    from fourierscale.kernels import layers

    layer = LocalFourierConv2d(2, 3, 3, 33).eval()
    one = 2 * 17 * 33 * 6
    monkeypatch.setattr(layers, "KEPT", int(1.5 * one))
    with torch.no_grad():
        for n in (33, 31, 29, 27):
            layer(torch.randn(1, 2, n, n))
            assert layer._spectra.entries() <= layers.KEPT


def test_unknown_backend_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose one of auto, torch, gemm, triton"):
        kernels.set_backend("cuda")
    assert kernels.get_backend() == "auto"


def test_transforms_and_export_get_plain_operators():
    x = torch.randn(2, 3)
    assert implementation(x) == "gemm"
    seen = []
    torch.func.vmap(lambda row: seen.append(implementation(row)) or row)(x)
    assert seen == ["torch"]


def test_equivariance_is_that_of_the_specification():
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        net = torch.nn.Sequential(
            LocalFourierConv2d(1, 8, 5, 28), ScaleActivation2d(8, range(8, 29)), LocalFourierConv2d(8, 4, 5, 28)
        ).to(dtype)
        x = torch.randn(1, 1, 27, 27, dtype=dtype)
        assert_scale_equivariant(net, x, range(8, 29), domain="coefficients")


def test_a_rim_is_cut_into_blocks_that_do_not_overlap():
    for box, inside in (((3, 3), (2, 2)), ((3, 5), (3, 2)), ((2, 2, 4), (1, 2, 2)), ((4,), (1,)), ((2, 2), None)):
        count = torch.zeros([2 * k + 1 for k in box])
        for block in plans.rim(box, inside):
            count[tuple(slice(*span) for span in block)] += 1
        if inside is not None:
            corner = tuple(slice(0, 2 * k + 1) for k in inside)
            assert count[corner].sum() == 0
            count[corner] = 1
        assert (count == 1).all(), (box, inside)


def test_a_plan_survives_the_list_of_ints():
    plan = plan_levels(Levels([4, 6, 9]), (4, 4), pool=2, grid="common")
    assert list(plans.decode(tuple(plans.encode(plan)), 2)) == plan
    assert math.prod(plans.decode(tuple(plans.encode(plan)), 2)[-1].grid) == math.prod(plan[-1].grid)
