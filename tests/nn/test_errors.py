"""Bad input gets one sentence: what was expected, what came, what to do."""

import pytest
import torch
from torch import nn

from fourierscale import functional as F
from fourierscale.metrics import fit_temperature
from fourierscale.nn import (
    FourierConv2d,
    LocalFourierConv1d,
    LocalFourierConv2d,
    ScaleActivation2d,
    ScaleDropout,
    ScaleEquivariant,
    ScaleMerge2d,
    ScalePool2d,
    ScaleResidual,
    ToCoefficients,
)

conv = LocalFourierConv2d(3, 4, 3, 12)
act = ScaleActivation2d(3, [5, 12])
x = torch.zeros(2, 3, 11, 11)

CASES = {
    "too few axes": (lambda: conv(torch.zeros(11, 11)), ValueError, "add the missing axes"),
    "wrong channels": (lambda: conv(torch.zeros(2, 1, 11, 11)), ValueError, "takes 3 channels, got 1"),
    "wrong channels in the activation": (lambda: act(torch.zeros(2, 4, 11, 11)), ValueError, "takes 3 channels, got 4"),
    "wrong channels in a merge": (
        lambda: ScaleMerge2d(3, [5, 12])(x, torch.zeros(2, 4, 5, 5)),
        ValueError,
        "takes 3 channels, got 4",
    ),
    "a merge of another rate": (
        lambda: ScaleMerge2d(3, [5, 12], rate=3)(x, torch.zeros(2, 3, 5, 5)),
        ValueError,
        "an input of rate 3 must have band",
    ),
    "an array": (lambda: F.downscale(x.numpy(), 4), TypeError, r"must be a tensor, got ndarray: .* torch\.as_tensor"),
    "an array in a layer": (lambda: conv(x.numpy()), TypeError, "must be a tensor, got ndarray"),
    "a size that is true": (lambda: F.downscale(x, True), TypeError, "an int or a sequence of ints, got True"),
    "no reference grid": (
        lambda: LocalFourierConv2d(3, 4, 3, None),
        ValueError,
        "reference_size must be a positive int or 2 of them, got None",
    ),
    "a temperature of nothing": (
        lambda: fit_temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)),
        ValueError,
        "at least one image",
    ),
    "integers": (
        lambda: ToCoefficients()(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)),
        TypeError,
        r"x\.float\(\) / 255",
    ),
    "integers in a layer": (lambda: conv(x.long()), TypeError, "floating point, got torch.int64"),
    "complex": (lambda: F.analyze(torch.zeros(8, 8, dtype=torch.complex64)), TypeError, "must be real"),
    "complex in a layer": (lambda: act(x.to(torch.complex64)), TypeError, "analyze the real image"),
    "empty batch": (lambda: conv(x[:0]), ValueError, r"is empty, got shape \(0, 3, 11, 11\)"),
    "size 0": (lambda: F.synthesize(x, 0), ValueError, "at least 1 sample"),
    "size of nothing": (lambda: F.as_size(()), ValueError, "at least one axis"),
    "size that is no int": (lambda: F.downscale(x, 5.5), TypeError, "an int or a sequence of ints"),
    "empty image": (lambda: F.analyze(torch.zeros(1, 3, 0, 5)), ValueError, "is empty"),
    "an image instead of coefficients": (lambda: conv(torch.zeros(2, 3, 12, 12)), ValueError, "ToCoefficients"),
    "crop that grows": (lambda: F.crop(x, 28), ValueError, r"cannot crop band 5 to resolution 28 \(band 13\)"),
    "downscale that grows": (lambda: F.downscale(x, 12), ValueError, "use upscale"),
    "upscale that shrinks": (lambda: F.upscale(x, 10), ValueError, "use downscale"),
    "unknown kind": (lambda: F.downscale(x, 10, "cubic"), ValueError, "choose one of ideal, gaussian, bicubic"),
    "band of no grid": (lambda: F.band(0), ValueError, "at least 1 sample"),
    "kernel too large": (lambda: LocalFourierConv2d(3, 4, 13, 12), ValueError, r"does not fit on the reference grid"),
    "taps too large": (lambda: F.local_spectrum(torch.zeros(1, 1, 9, 9), 8), ValueError, "does not fit"),
    "axes of a kernel": (lambda: F.local_spectrum(torch.zeros(1, 3), 8, (4,)), ValueError, "same number of axes"),
    "global above its limit": (
        lambda: FourierConv2d(3, 4, 9)(x),
        ValueError,
        r"weights up to resolution \(9, 9\), the input needs \(11, 11\)",
    ),
    "spectrum too small": (
        lambda: F.fourier_conv(x, torch.zeros(4, 3, 9, 9)),
        ValueError,
        r"known up to band \(4, 4\), the input has \(5, 5\)",
    ),
    "spectrum of other channels": (lambda: F.fourier_conv(x, torch.zeros(4, 2, 11, 11)), ValueError, "mixes 2 input"),
    "spectrum without axes": (lambda: F.fourier_conv(x, torch.zeros(4, 3)), ValueError, "spectrum must be"),
    "levels empty": (lambda: ScaleActivation2d(3, []), ValueError, "at least one resolution"),
    "levels out of order": (lambda: ScaleActivation2d(3, [12, 5]), ValueError, "must increase"),
    "unknown activation": (lambda: ScaleActivation2d(3, [5], "rleu"), ValueError, "choose one of relu, gelu"),
    "activation that is no function": (lambda: ScaleActivation2d(3, [5], 7), TypeError, "a name or a callable"),
    "unknown norm": (lambda: ScaleActivation2d(3, [5], norm="layer"), ValueError, "instance, batch, none"),
    "unknown grid": (lambda: ScaleActivation2d(3, [5], grid="fine"), ValueError, "level, common"),
    "unknown grid in a function": (lambda: F.nested_pool(x, [5], 2, grid="fine"), ValueError, "level, common"),
    "too few samples": (lambda: ScaleActivation2d(3, [5], oversample=0.5), ValueError, "at least 1, got 0.5"),
    "too few samples in a function": (lambda: F.nested_pool(x, [5], 2, oversample=0.5), ValueError, "at least 1"),
    "common grid of an open set": (
        lambda: ScaleActivation2d(3, "all", grid="common"),
        ValueError,
        "highest resolution",
    ),
    "unknown pooling": (lambda: ScalePool2d(2, [5], "min"), ValueError, "max, average"),
    "unknown pooling in a function": (lambda: F.nested_pool(x, [5], 2, "min"), ValueError, "max, average"),
    "pooling by nothing": (lambda: ScalePool2d(0, [5]), ValueError, "window must be a positive int"),
    "no channels": (lambda: LocalFourierConv2d(0, 4, 3, 12), ValueError, "in_channels must be a positive int"),
    "kernel of three axes": (lambda: LocalFourierConv2d(3, 4, (3, 3, 3), 12), ValueError, "or 2 of them"),
    "reference of no size": (lambda: LocalFourierConv1d(3, 4, 3, 0), ValueError, "reference_size must be"),
    "probability": (lambda: ScaleDropout(1.5), ValueError, "between 0 and 1"),
    "wrong declared pooling": (
        lambda: ScaleEquivariant(ScalePool2d(2, [5]))(torch.rand(1, 1, 12, 12)),
        ValueError,
        "pool",
    ),
    "residual of other channels": (lambda: ScaleResidual(conv)(x), ValueError, "the body gives 4 channels"),
    "no channel axis": (
        lambda: F.nested_activation(x[0, 0], [5], torch.relu, norm=F.InstanceNorm()),
        ValueError,
        "channel axis",
    ),
    "no input": (lambda: F.nested_map([], [5], lambda level: x), ValueError, "at least one input"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_gets_one_clear_sentence(name):
    call, error, message = CASES[name]
    with pytest.raises(error, match=message) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert text.count(". ") == 0


def test_a_refused_input_changes_nothing():
    layer = nn.Sequential(conv, ScaleActivation2d(4, [5, 12]))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(ValueError, match="channels"):
        layer(torch.zeros(2, 1, 11, 11))
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
