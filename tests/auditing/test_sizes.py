"""Which sizes a model takes is found, said, and audited at: strides, one size, one height, boxes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fourierscale.auditing import AuditError, audit, open_file
from fourierscale.auditing.compare import compare_outputs
from fourierscale.auditing.sizes import find_sizes, fit_images, spread
from fourierscale.cli import main
from fourierscale.models import Preprocessing

STRIDE = 32


class Detector(nn.Module):
    """A map of the image's size by way of one that is 32 times smaller: other sides do not fit together again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = F.max_pool2d(self.conv(x), STRIDE)
        return torch.sigmoid(F.interpolate(small, scale_factor=STRIDE) + x.mean(1, keepdim=True))


class OneSize(nn.Module):
    """A transformer's embedding of one place each: images of one size alone."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 4, side // 4, stride=side // 4)
        self.places = nn.Parameter(torch.randn(1, 4, 4, 4))
        self.side = side

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[-1] == x.shape[-2] == self.side, f"input {x.shape[-1]} is not {self.side}"
        return (self.patches(x) + self.places).mean((2, 3))


class OneHeight(nn.Module):
    """A recogniser of lines of text: any width."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.Conv2d(3, 5, (48, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[2] == 48
        return self.columns(x).mean((2, 3))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(2, 3, 100, 100, generator=torch.Generator().manual_seed(1))


def onnx_file(path: Path, nodes: list, weights: dict, side: tuple = ("h", "w"), output: tuple = ("n",) * 4) -> Path:
    """A file of a few operators."""
    onnx, numpy = pytest.importorskip("onnx"), pytest.importorskip("numpy")
    pytest.importorskip("onnxruntime")
    made = [onnx.helper.make_node(kind, inputs, [out], **options) for kind, inputs, out, options in nodes]
    told = [onnx.numpy_helper.from_array(numpy.asarray(value), name) for name, value in weights.items()]
    image = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, *side])
    given = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [f"{n}{i}" for i, n in enumerate(output)])
    graph = onnx.helper.make_graph(made, "graph", [image], [given], told)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path))
    return path


def detector_file(path: Path) -> Path:
    import numpy

    scales = numpy.array([1, 1, STRIDE, STRIDE], dtype=numpy.float32)
    nodes = [
        ("MaxPool", ["image"], "small", {"kernel_shape": [STRIDE] * 2, "strides": [STRIDE] * 2}),
        ("Resize", ["small", "", "scales"], "large", {"mode": "nearest"}),
        ("Add", ["large", "image"], "y", {}),
    ]
    return onnx_file(path, nodes, {"scales": scales})


def boxes_file(path: Path) -> Path:
    """Six rows for each cell: two of pixels, four of scores; the number of boxes follows from the size."""
    import numpy

    weights = numpy.random.default_rng(0).normal(size=(6, 3, 1, 1)).astype(numpy.float32)
    factor = numpy.array([300, 300, 1, 1, 1, 1], dtype=numpy.float32).reshape(1, 6, 1)
    nodes = [
        ("MaxPool", ["image"], "small", {"kernel_shape": [STRIDE] * 2, "strides": [STRIDE] * 2}),
        ("Conv", ["small", "weights"], "cells", {}),
        ("Reshape", ["cells", "shape"], "rows", {}),
        ("Sigmoid", ["rows"], "scores", {}),
        ("Mul", ["scores", "factor"], "y", {}),
    ]
    given = {"weights": weights, "shape": numpy.array([0, 6, -1]), "factor": factor}
    return onnx_file(path, nodes, given, output=("batch", "rows", "boxes"))


def test_sizes_are_found_and_said(x):
    assert str(find_sizes(Detector(), x)) == "images of sides that are multiples of 32"
    assert str(find_sizes(nn.Conv2d(3, 2, 3), x)) == "images of any size"  # borders are cut off
    assert str(find_sizes(OneSize(64), x)) == "images of 64 x 64 alone"
    assert str(find_sizes(OneHeight(), x)) == "images of a height of 48 alone"
    with pytest.raises(AuditError, match=r"takes no square images .*with 3 channel\(s\)"):
        find_sizes(nn.Conv2d(1, 2, 3), x)


def test_a_model_that_refuses_large_images_is_audited_below_them(x):
    def squeezed(images):
        return F.avg_pool2d(images, 24).mean(3).squeeze(2) if images.shape[2] < 48 else images.reshape(len(images), 7)

    assert str(find_sizes(squeezed, x)) == "images of sides up to 47"
    found = audit(squeezed, x, kinds=["ideal"])
    assert (found.size, found.resolutions[0]) == (47, 24)


def test_a_model_of_a_stride_is_audited_at_its_multiples(x):
    found = audit(Detector(), x)
    assert (found.size, found.resolutions) == (96, (32, 64))
    assert found.layers[-1].worst("ideal")[0] > 1e-4
    with pytest.raises(AuditError, match=r"\(2, 3, 24, 24\).*; it takes images of sides that are multiples of 32$"):
        audit(Detector(), x[..., :96, :96], [24, 64])
    with pytest.raises(AuditError, match="no such size below the images' 40 pixels: give larger images"):
        audit(Detector(), x[..., :40, :40])


def test_a_model_of_one_size_is_audited_with_smaller_images_padded(x):
    found = audit(OneSize(64), x, kinds=["ideal"])
    assert (found.size, found.enlarge) == (64, "zero")
    assert found.resolutions == tuple(spread(range(21, 64), 8))
    assert audit(OneHeight(), x, kinds=["ideal"]).size == 48
    with pytest.raises(AuditError, match="it takes images of a height of 48 alone"):
        audit(OneHeight(), x, [24])


def test_resolutions_too_small_for_a_deep_net_are_left_out(x):
    deep = nn.Sequential(nn.Conv2d(3, 4, 9), *[nn.MaxPool2d(2) for _ in range(5)], nn.Flatten(1))
    assert fit_images(nn.Sequential(deep[:6]), x, Preprocessing()).resolutions[0] > 33
    assert fit_images(nn.ReLU(), x, Preprocessing()).resolutions == spread(range(34, 100), 8)


def test_onnx_files_say_or_show_their_sizes(x, tmp_path):
    found = audit(detector_file(tmp_path / "detector.onnx"), x, kinds=["ideal"])
    assert (found.size, found.resolutions) == (96, (32, 64))
    assert found.layers[0].worst("ideal")[0] > 1e-3
    scale = [("Identity", ["image"], "y", {})]
    fixed = open_file(onnx_file(tmp_path / "fixed.onnx", scale, {}, (64, 64)))
    assert (fixed.side, str(find_sizes(fixed, x))) == (64, "images of 64 x 64 alone")
    line = open_file(onnx_file(tmp_path / "line.onnx", scale, {}, (48, "w")))
    assert (line.side, str(find_sizes(line, x))) == (None, "images of a height of 48 alone")
    wide = open_file(onnx_file(tmp_path / "wide.onnx", scale, {}, (32, 320)))
    with pytest.raises(AuditError, match="takes images of 32 x 320 alone, and an audit gives square ones"):
        audit(wide, x)


def test_of_boxes_the_largest_scores_are_compared(x, tmp_path):
    found = audit(boxes_file(tmp_path / "boxes.onnx"), x[..., :96, :96], [32, 64], kinds=["ideal"], shifts=())
    assert set(found.layers[0].errors["ideal"]) == {32, 64}
    assert "9 and 4 boxes: compared is the largest of each of 4 scores" in found.layers[0].note
    assert "nothing could be compared" not in found.finding
    large, small = torch.rand(2, 6, 9), torch.rand(2, 6, 4)
    large[:, 0] *= 40  # pixels
    rows = compare_outputs(large, small, "vector", 0.5)
    best, expected = large[:, 1:].amax(2).double(), small[:, 1:].amax(2).double()
    error = (best - expected).square().sum(1) / expected.square().sum(1)
    assert torch.allclose(rows.difference.sum(1), error)
    turned = compare_outputs(large.mT, small.mT, "vector", 0.5)
    assert torch.equal(turned.difference, rows.difference)
    assert "no row of them are scores" in compare_outputs(large * 100, small, "vector", 0.5)
    assert isinstance(compare_outputs(torch.rand(2, 6, 9), torch.rand(2, 5, 4), "vector", 0.5), str)


def test_the_command_audits_files_at_sizes_of_their_own(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    detector_file(tmp_path / "detector.onnx")
    onnx_file(tmp_path / "line.onnx", [("Identity", ["image"], "y", {})], {}, (48, "w"))
    options = ["--images", "2", "--kinds", "ideal"]
    assert main(["audit", "detector.onnx", *options]) == 0
    told = " ".join(capfd.readouterr().out.split())
    assert "2 random band-limited images of 3 x 128 x 128" in told
    assert "detector.onnx takes images of sides that are multiples of 32" in told
    assert "32 px 64 px 96 px" in told
    assert main(["audit", "detector.onnx", *options, "--size", "100"]) == 0
    assert "32 px 64 px" in " ".join(capfd.readouterr().out.split())
    assert main(["audit", "detector.onnx", *options, "--size", "96", "--resolutions", "24"]) == 2
    captured = capfd.readouterr()
    assert "it takes images of sides that are multiples of 32" in " ".join(captured.err.split())
    assert "onnxruntime:" not in captured.err
    assert main(["audit", "line.onnx", *options]) == 0
    told = " ".join(capfd.readouterr().out.split())
    assert "line.onnx takes images of a height of 48 alone; smaller ones reach it by zero, --enlarge says how" in told
