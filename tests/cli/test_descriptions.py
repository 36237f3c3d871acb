"""Whatever a description says, a command answers or says in one line why it does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fourierscale.cli import main
from fourierscale.models import Preprocessing, create_model, read_info, save_model

JUNK = [None, -1, 1e30, "x", [[1]], {"x": [None]}, 10**4000]
OVERRIDES: dict[str, Any] = {"widths": [2, 3], "hidden": 4, "resolutions": [8, 12]}
PREPARE = Preprocessing(mean=(0.1,), std=(0.3,), sizes=(8, 12), classes=tuple("0123456789"))


def edits(value: Any) -> Iterator[Any]:
    """The same description with one part left out or replaced, at every place; of a list the first entry alone."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value[:1])):
            less = copy.copy(value)
            del less[key]
            yield less
            for part in (*JUNK, *edits(value[key])):
                changed = copy.copy(value)
                changed[key] = part
                yield changed


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    path = tmp_path_factory.mktemp("image") / "a.png"
    Image.linear_gradient("L").resize((14, 14)).save(path)
    return path


def ends_in_words(arguments: list[str], capsys: pytest.CaptureFixture[str], case: object) -> int:
    """Run a command, which must answer or say one line."""
    status = main(arguments)
    error = capsys.readouterr().err
    assert (status, error.count("\n")) in ((0, 0), (2, 1)), f"{case}: {status}, {error}"
    return status


def test_every_edit_of_model_json_gives_an_answer_or_one_line(image, tmp_path, capsys):
    model = create_model("scalenet-tiny", **OVERRIDES)
    data = {"protocol": "mnist-scale", "hashes": {"test": "0"}}
    info = {"model": "scalenet-tiny", "overrides": OVERRIDES, "data": data, "config": {"data": {"seed": 3}}}
    save_model(model, tmp_path, {**info, "preprocessing": PREPARE.to_dict()})
    path = tmp_path / "model.json"
    whole = json.loads(path.read_text())
    seen = []
    for case in edits(whole):
        path.write_text(json.dumps(case))
        seen.append(ends_in_words(["predict", str(tmp_path), str(image)], capsys, case))
    assert len(seen) > 150
    assert 0 < seen.count(0) < len(seen) / 2
    for text in ("", "[]", "{", '{"model": ' + "[" * 100_000, "9" * 5000, '"\udcff"'):
        path.write_bytes(text.encode(errors="surrogateescape"))
        assert ends_in_words(["predict", str(tmp_path), str(image)], capsys, text[:20]) == 2


def test_a_description_that_asks_for_more_memory_than_its_weights_have_is_refused_first(tmp_path):
    save_model(create_model("scalenet-tiny", **OVERRIDES), tmp_path, {"model": "scalenet-tiny", "overrides": OVERRIDES})
    info = read_info(tmp_path) | {"overrides": OVERRIDES | {"widths": [10**7, 10**7]}}
    (tmp_path / "model.json").write_text(json.dumps(info))
    from fourierscale.models import WeightsError, load_model

    with pytest.raises(WeightsError, match=r"does not hold the weights of scalenet-tiny .*size mismatch"):
        load_model(tmp_path)


def test_every_edit_of_the_metadata_of_an_onnx_file_gives_an_answer_or_one_line(image, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from fourierscale.export import export_onnx

    model = create_model("scalenet-tiny", **OVERRIDES | {"widths": [2], "pool": 1, "resolutions": [12]}).eval()
    model.preprocessing = PREPARE
    path = tmp_path / "model.onnx"
    export_onnx(model, path, [12], batches=())
    proto = onnx.load(path)
    whole = {entry.key: json.loads(entry.value) for entry in proto.metadata_props}
    seen = []
    for case in edits(whole):
        del proto.metadata_props[:]
        for name, value in case.items():
            proto.metadata_props.add(key=name, value=json.dumps(value))
        path.write_bytes(proto.SerializeToString())
        seen.append(ends_in_words(["predict", str(path), str(image)], capsys, case))
    assert len(seen) > 100
    assert 0 < seen.count(0) < len(seen) / 2
    proto.metadata_props[0].value = "[" * 100_000
    path.write_bytes(proto.SerializeToString())
    assert ends_in_words(["predict", str(path), str(image)], capsys, "nested") == 2


def test_weights_are_those_of_before_when_the_description_is_whole(tmp_path):
    model = create_model("scalenet-tiny", **OVERRIDES).eval()
    about = {"model": "scalenet-tiny", "overrides": OVERRIDES, "preprocessing": PREPARE.to_dict()}
    save_model(model, tmp_path, about)
    from fourierscale.models import load_model

    again, x = load_model(tmp_path), torch.rand(1, 1, 12, 12)
    assert again.preprocessing == PREPARE
    with torch.no_grad():
        assert torch.equal(again(x), model(x))


def test_weights_that_are_not_finite_are_refused(image, tmp_path, capsys):
    model = create_model("scalenet-tiny", **OVERRIDES)
    with torch.no_grad():
        model.get_parameter("net.blocks.0.0.weight").view(-1)[3] = float("nan")
    save_model(model, tmp_path, {"model": "scalenet-tiny", "overrides": OVERRIDES, "preprocessing": PREPARE.to_dict()})
    assert main(["predict", str(tmp_path), str(image)]) == 2
    captured = capsys.readouterr()
    assert "model.safetensors holds numbers that are not finite (net.blocks.0.0.weight): train again" in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_blank_image_is_named_and_the_others_are_answered(image, tmp_path, capsys):
    from PIL import Image

    Image.new("RGB", (28, 28), (90, 30, 0)).save(tmp_path / "blank.png")
    assert main(["predict", "scalenet-mnist", str(tmp_path / "blank.png"), str(image)]) == 2
    captured = capsys.readouterr()
    assert "blank.png: it is blank: all its pixels are alike" in captured.err
    assert "blank.png" not in captured.out
    assert str(image) in captured.out
