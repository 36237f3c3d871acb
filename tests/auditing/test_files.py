"""Models as files give the errors of the module they were made of; bad ones get a sentence."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from fourierscale.auditing import AuditError, audit, open_file
from fourierscale.models import Preprocessing

RESOLUTIONS = [9, 12]


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    torch.manual_seed(3)
    layers = nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    return nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.rand(5, 2, 16, 16, generator=torch.Generator().manual_seed(1))


def write(model: nn.Module, x: torch.Tensor, path: Path, fixed: bool) -> Path:
    """Save a model in the format that the file's name asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each of these formats has a newer one that torch would rather see
        if path.suffix in (".pt", ".pth"):
            torch.jit.trace(model, x[:2]).save(str(path))
            return path
        batch, side = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("side", min=4, max=64)
        shapes = None if fixed else ({0: batch, 2: side, 3: side},)
        program = torch.export.export(model, (x[:2],), dynamic_shapes=shapes)
        if path.suffix == ".pt2":
            torch.export.save(program, path)
        else:
            torch.onnx.export(program, dynamo=True, verbose=False).save(str(path))
    return path


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pt2", "model.onnx"])
def test_a_file_gives_the_output_errors_of_its_module(name, model, x, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    expected = audit(model, x, RESOLUTIONS, labels=[0, 1, 2, 0, 1])
    found = audit(write(model, x, tmp_path / name, fixed=False), x, RESOLUTIONS, labels=[0, 1, 2, 0, 1])
    assert found.model == name
    assert [layer.name for layer in found.layers] == ["output"]
    for kind in expected.kinds:
        for r in RESOLUTIONS:
            assert found.layers[0].errors[kind][r] == pytest.approx(expected.layers[-1].errors[kind][r], rel=1e-3)
    assert found.logits[0].kl == pytest.approx(expected.logits[0].kl, rel=1e-3)
    assert found.accuracy == expected.accuracy
    last = [shift.error for shift in expected.shift if shift.layer == 5]
    assert [shift.error for shift in found.shift] == pytest.approx(last, rel=1e-2)
    assert "its output is off by" in found.finding


@pytest.mark.parametrize("name", ["fixed.pt2", "fixed.onnx"])
def test_a_file_of_one_shape_gets_its_images_in_portions_and_fitted(name, model, x, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    path = write(model, x, tmp_path / name, fixed=True)
    file = open_file(path)
    assert (file.channels, file.side) == (2, 16)
    expected = audit(
        model, x, RESOLUTIONS, kinds=["ideal"], preprocessing=Preprocessing(enlarge="zero", enlarge_size=16)
    )
    found = audit(path, x, RESOLUTIONS, kinds=["ideal"], preprocessing=Preprocessing(enlarge="zero", enlarge_size=16))
    assert found.layers[0].errors["ideal"][9] == pytest.approx(expected.layers[-1].errors["ideal"][9], rel=1e-3)
    with pytest.raises(AuditError, match="set enlarge in the preprocessing for a model of one input size"):
        audit(path, x, RESOLUTIONS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weights.pt", "is no TorchScript file: save one with"),
        ("broken.pt2", "is no torch.export file"),
        ("broken.onnx", "is no ONNX file"),
        ("model.h5", r"expected a TorchScript \(.pt, .pth\)"),
    ],
)
def test_a_file_of_something_else_is_named_with_the_remedy(name, message, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnxruntime")
    path = tmp_path / name
    path.write_bytes(b"nothing of the kind")
    if name == "weights.pt":
        torch.save({"weight": torch.zeros(2)}, path)
    with pytest.raises(AuditError, match=message) as caught:
        open_file(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said_to_be_missing(x, tmp_path):
    with pytest.raises(AuditError, match=r"nowhere\.onnx: there is no such file"):
        audit(tmp_path / "nowhere.onnx", x, [8])
