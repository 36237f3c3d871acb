"""Models as files give the errors of the module they were made of; bad ones get a sentence."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
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
        if path.suffix in (".pt", ".pth", ".jit", ".ts"):
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


@pytest.mark.parametrize("name", ["model.pt", "model.jit", "model.pt2", "model.onnx"])
def test_a_file_gives_the_output_errors_of_its_module(name, model, x, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    expected = audit(model, x, RESOLUTIONS, labels=[0, 1, 2, 0, 1])
    file = open_file(write(model, x, tmp_path / name, fixed=False), trust=True)
    found = audit(file, x, RESOLUTIONS, labels=[0, 1, 2, 0, 1])
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
    file = open_file(path, trust=True)
    assert (file.channels, file.side) == (2, 16)
    expected = audit(
        model, x, RESOLUTIONS, kinds=["ideal"], preprocessing=Preprocessing(enlarge="zero", enlarge_size=16)
    )
    found = audit(file, x, RESOLUTIONS, kinds=["ideal"], preprocessing=Preprocessing(enlarge="zero", enlarge_size=16))
    assert found.layers[0].errors["ideal"][9] == pytest.approx(expected.layers[-1].errors["ideal"][9], rel=1e-3)
    with pytest.raises(AuditError, match="set enlarge in the preprocessing for a model of one input size"):
        audit(file, x, RESOLUTIONS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weights.pt", "is no TorchScript file: save one with"),
        ("broken.pt2", "is no torch.export file"),
        ("broken.onnx", "is no ONNX file"),
        ("model.h5", r"expected a TorchScript \(.pt, .pth, .jit, .ts\)"),
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
        open_file(path, trust=True)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said_to_be_missing(x, tmp_path):
    with pytest.raises(AuditError, match=r"nowhere\.onnx: there is no such file"):
        audit(tmp_path / "nowhere.onnx", x, [8])


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.jit", "model.ts", "model.pt2"])
def test_a_program_is_not_opened_for_who_does_not_trust_it(name, model, x, tmp_path, monkeypatch):
    path = write(model, x, tmp_path / name, fixed=True)
    monkeypatch.setattr(torch.jit, "load", None)
    monkeypatch.setattr(torch.export, "load", None)
    for give in (open_file, lambda path: audit(path, x, RESOLUTIONS)):
        with pytest.raises(AuditError, match=r"is a program that can do whatever you can.*--trust"):
            give(path)


class Calling:
    """Calls a function when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def with_member(path: Path, end: str, change) -> Path:
    """A copy of an archive in which one member is another."""
    target = path.with_name("changed.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        assert sum(name.endswith(end) for name in old.namelist()) == 1
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name.endswith(end) else old.read(name))
    return target


@pytest.mark.parametrize("where", ["sample inputs", "weights"])
def test_a_pickle_in_a_trusted_program_is_refused_before_it_runs(where, model, x, tmp_path):
    path, ran = write(model, x, tmp_path / "model.pt2", fixed=True), tmp_path / "ran"
    buffer = io.BytesIO()
    torch.save(Calling(ran), buffer)

    def pickled(text: bytes) -> bytes:
        config = json.loads(text)
        for entry in config["config"].values():
            entry["use_pickle"] = True
        return json.dumps(config).encode()

    if where == "weights":
        changed = with_member(path, "weights/model_weights_config.json", pickled)
        changed = with_member(changed.rename(path), "weights/weight_0", lambda _: buffer.getvalue())
        message = "changed.pt2 holds pickled weights"
    else:
        changed = with_member(path, "sample_inputs/model.pt", lambda _: buffer.getvalue())
        message = "changed.pt2 holds sample inputs that are no plain tensors"
    with pytest.raises(AuditError, match=message):
        open_file(changed, trust=True)
    assert not ran.exists()
    pickle.loads(pickle.dumps(Calling(ran)))
    assert ran.exists()  # it does run where it is unpickled


def test_an_onnx_file_without_inputs_is_refused_with_a_sentence(tmp_path):
    pytest.importorskip("onnxruntime")
    helper = pytest.importorskip("onnx.helper")
    output = helper.make_tensor_value_info("y", 1, [1])
    node = helper.make_node("Constant", [], ["y"], value_floats=[1.0])
    graph = helper.make_graph([node], "nothing", [], [output])
    opset = [helper.make_opsetid("", 18)]
    (tmp_path / "none.onnx").write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    )
    with pytest.raises(AuditError, match="expected one input of floating-point images and an output, got inputs: none"):
        open_file(tmp_path / "none.onnx")
