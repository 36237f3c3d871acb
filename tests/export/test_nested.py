"""Models inside one nested map as ONNX and as programs of torch.export: any number of images of a fixed size."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fourierscale import downscale
from fourierscale.export import OnnxClassifier, export_onnx
from fourierscale.export.write import export_program
from fourierscale.models import Preprocessing, UNet, create_model
from fourierscale.nn import NestedModel
from fourierscale.testing import assert_scale_consistent, assert_scale_equivariant

LEVELS = (16, 24, 32)
KINDS = ("maps", "vectors", "consistent", "exact")


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "maps":
        return NestedModel(UNet(3, 2, (4, 8)), LEVELS).eval()
    if kind == "vectors":
        layers = nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(24, 5)
        return NestedModel(nn.Sequential(*layers), LEVELS).eval()
    model = create_model("resnet-stl10-small", widths=(4, 8), hidden=8, resolutions=LEVELS, made=kind)
    model.train()
    for _ in range(2):  # statistics of each level that are no longer those of a new net
        model(torch.rand(4, 3, 32, 32))
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_one_size_computes_what_the_model_does(kind, tmp_path):
    model = make(kind)
    report = export_onnx(model, tmp_path / "model.onnx", [32], batches=())
    assert report.difference < 1e-5
    file = OnnxClassifier(tmp_path / "model.onnx")
    for count in (1, 3):
        x = torch.rand(count, 3, 32, 32)
        with torch.no_grad():
            torch.testing.assert_close(file(x), model(x), atol=1e-5, rtol=1e-4)
    assert not {"If", "Loop", "DFT"} & set(report.operators)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_of_one_size_computes_what_the_model_does(kind, tmp_path):
    model = make(kind)
    assert export_program(model, tmp_path / "model.pt2", [32], batches=()).difference < 1e-5
    program = torch.export.load(tmp_path / "model.pt2").module()
    x = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x), atol=1e-5, rtol=1e-4)


def test_what_is_made_of_a_plain_net_takes_several_sizes_in_one_file(tmp_path):
    model = make("consistent")
    model.preprocessing = Preprocessing(mean=(0.5,) * 3, std=(0.25,) * 3, sizes=LEVELS, classes=tuple("abcdefghij"))
    export_onnx(model, tmp_path / "model.onnx", LEVELS, raw=True, batches=())
    file = OnnxClassifier(tmp_path / "model.onnx")
    x = torch.rand(2, 3, 32, 32)
    assert assert_scale_consistent(file, x, [16, 24], tolerance=1e-9) <= 1e-9
    assert file(downscale(x, 16)).shape == (2, 1, 10)


def test_files_of_maps_are_as_equivariant_as_their_model(tmp_path):
    model = make("maps")
    files = {}
    for n in (16, 32):
        export_onnx(model, tmp_path / f"{n}.onnx", [n], batches=())
        files[n] = OnnxClassifier(tmp_path / f"{n}.onnx")
    error = assert_scale_equivariant(lambda x: files[x.shape[-1]](x), torch.rand(2, 3, 32, 32), [16], tolerance=1e-9)
    assert error <= 1e-9
