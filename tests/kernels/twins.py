"""What the tests of fast paths share: value and gradients beside those of the specification."""

from contextlib import contextmanager

import pytest
import torch
from hypothesis import strategies as st

from fourierscale import kernels
from fourierscale.kernels import products
from fourierscale.testing import TOLERANCE

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


def operators(function):
    """What a function gives, and the operators of this library that ran for it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    names = {event.key for event in profile.key_averages()}
    return result, {name.removeprefix("fourierscale::") for name in names if name.startswith("fourierscale::")}
