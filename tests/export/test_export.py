"""Exported files compute what their models compute, and are as equivariant."""

import contextlib
import copy
import io
import json
import os
import re
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn

from fourierscale.cli import main
from fourierscale.export import ExportError, OnnxClassifier, export_onnx
from fourierscale.export.check import check_outputs
from fourierscale.export.deployed import size_matrix
from fourierscale.export.describe import make_plan
from fourierscale.functional import crop, downscale
from fourierscale.models import Preprocessing, ScaleHead, as_image_model, create_model, model_info
from fourierscale.models.files import replacing
from fourierscale.models.saved import save_model
from fourierscale.testing import relative_error
from tests.lab.baselines.small_baselines import SMALL, small_model

PREPARE = Preprocessing(mean=(0.3,), std=(0.2,), sizes=(5, 6, 7, 8, 9), classes=("ant", "bee", "cat"))
OVERRIDES = {"classes": 3, "widths": [4], "resolutions": [5, 9], "pool": 1, "hidden": 8, "head": "average"}
REAL = {
    *("Add", "Concat", "Div", "Expand", "Gather", "LayerNormalization", "MatMul", "Mul", "Pow", "Range", "Reciprocal"),
    *(
        "ReduceMax",
        "ReduceMean",
        "Relu",
        "Reshape",
        "Shape",
        "Slice",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Transpose",
        "Unsqueeze",
    ),
    *("Cast", "CumSum", "Gemm", "Identity", "Pad", "ReduceSum", "Softplus"),
}
"""Real arithmetic without branches: neither DFT nor complex numbers, neither If nor Loop."""


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    net = create_model("scalenet-tiny", **OVERRIDES).eval()
    net.preprocessing = PREPARE
    return net


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def run(model, folder):
    """The folder of a trained model."""
    info = {"model": "scalenet-tiny", "overrides": OVERRIDES, "preprocessing": PREPARE.to_dict()}
    info["data"] = {"protocol": "nowhere"}
    save_model(model, folder / "run", info)
    return folder / "run"


@pytest.fixture(scope="module")
def both(model, folder):
    """One file for 5 and 9 pixels, raw and with features, and its report."""
    report = export_onnx(model, folder / "both.onnx", [5, 9], raw=True, features=True, batches=(2,))
    return OnnxClassifier(folder / "both.onnx"), report


@pytest.fixture(scope="module")
def written(run, folder):
    """What the command prints while it writes a file for 5 pixels alone."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["export", str(run), "--resolution", "5", "--features", str(folder / "small.onnx")]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def small(written, folder):
    """A file for 5 pixels alone."""
    return OnnxClassifier(folder / "small.onnx")


def normalised(x):
    return PREPARE(x)


def test_one_file_serves_every_size_for_any_number_of_images(model, both):
    classifier, report = both
    assert classifier.resolutions == report.resolutions == (5, 9)
    assert report.difference < 1e-4
    assert all(times > 0 for check in report.checks for times in check.milliseconds[2])
    for n in (5, 9):
        for count in (1, 7):
            x = torch.rand(count, 1, n, n)
            with torch.no_grad():
                expected = model(normalised(x))
            torch.testing.assert_close(classifier(x), expected, atol=1e-4, rtol=0)
            assert isinstance(classifier(x.numpy()), np.ndarray)


def test_a_net_of_mirrored_images_serves_several_sizes_too():
    mirrored = create_model("scalenet-tiny", **{**OVERRIDES, "boundary": "mirror"}).eval()
    mirrored.preprocessing = replace(PREPARE, boundary="mirror")
    plan = make_plan(mirrored, [5, 9], None, raw=True, features=False)
    assert plan.about["preprocessing"]["boundary"] == "mirror"
    assert plan.about["levels"]["9"] == ["5", "9"]
    for n in (5, 9):
        images = plan.images(n)
        with torch.no_grad():
            torch.testing.assert_close(plan.deployed(images), plan.reference(images), atol=1e-5, rtol=0)


def test_files_are_as_equivariant_as_the_model(both, small):
    classifier, _ = both
    x = torch.rand(6, 1, 9, 9)
    tiny = downscale(x, 5)
    for logits in (classifier(tiny), small(normalised(tiny))):
        torch.testing.assert_close(classifier(x)[:, :1], logits, atol=1e-4, rtol=0)
    for features in (classifier.features(tiny), small.features(normalised(tiny))):
        assert features.shape == (6, 4, 5, 5)
        assert relative_error(crop(classifier.features(x), 5), features) <= 1e-9


def test_a_file_is_products_of_real_numbers_and_says_all_about_itself(both, folder, model):
    classifier, report = both
    assert set(report.operators) <= REAL
    proto = onnx.load(report.path)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version >= 17
    assert {t.data_type for t in proto.graph.initializer} <= {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64}
    sizes = [d.dim_param or d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == ["batch", 1, "side", "side"]
    text = report.path.read_bytes()
    assert os.fsencode(os.path.dirname(torch.__file__)) not in text
    assert b"deployed.py" not in text
    about = classifier.about
    outside = classifier.preprocessing
    assert (outside.classes, outside.mean, outside.std, about["raw"]) == (PREPARE.classes, (0.0,), (1.0,), True)
    assert (outside.sizes, outside.only_sizes) == ((5, 9), True)
    assert about["levels"] == {"5": ["5"], "9": ["5", "9"]}
    assert about["levels"]["9"] == model.level_names(9) == classifier.level_names(9)
    assert about["version"]


def test_a_file_computes_nothing_that_is_known_when_it_is_written(both):
    _, report = both
    graph = onnx.load(report.path).graph
    known = {tensor.name for tensor in graph.initializer}
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    assert all(set(node.output) & used for node in graph.node)
    assert all(node.input[1] in known for node in graph.node if node.op_type == "Reshape")
    small = [node.op_type for node in graph.node if set(node.input) <= known and node.op_type != "MatMul"]
    assert not {"Constant", "Cast", "Identity", "Concat", "Shape"} & set(small)
    assert len({(node.op_type, *node.input, str(node.attribute)) for node in graph.node}) == len(graph.node)


class EveryHead(nn.Module):
    """The logits of the four heads, side by side, of coefficients that come in as an image."""

    def __init__(self):
        super().__init__()
        kinds = ("plain", "temperature", "cumulative", "average")
        self.heads = nn.ModuleList(ScaleHead(2, 2, [3, 5], kind, 4) for kind in kinds)
        for head in self.heads[1:]:
            nn.init.normal_(head.steps)

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], -1)


def test_all_four_heads_are_exported(folder):
    heads = as_image_model(EveryHead())
    heads.preprocessing = Preprocessing(mean=(0.0,) * 2, std=(1.0,) * 2)
    report = export_onnx(heads, folder / "heads.onnx", [5], batches=())
    assert report.difference < 1e-5
    assert set(report.operators) <= REAL
    assert OnnxClassifier(report.path)(torch.rand(3, 2, 5, 5)).shape == (3, 2, 8)


def test_a_program_of_torch_export_serves_the_same_sizes(model, run, folder, capsys):
    path = folder / "both.pt2"
    assert main(["export", str(run), "--resolutions", "5,9", str(path)]) == 0
    assert "takes normalised images" in capsys.readouterr().out
    extra = {"about.json": ""}
    program = torch.export.load(path, extra_files=extra)
    assert tuple(json.loads(extra["about.json"])["preprocessing"]["classes"]) == PREPARE.classes
    assert "fourierscale" not in str(program.graph)
    # the layer's 5 x 5 taps are gone, its spectrum is there: 9 rows, frequencies 0 to 4, real and imaginary parts
    shapes = [tuple(tensor.shape) for tensor in program.state_dict.values()]
    assert (9, 5, 1, 8) in shapes
    assert (4, 1, 5, 5) not in shapes
    for n in (5, 9):
        x = torch.rand(3, 1, n, n)
        torch.testing.assert_close(program.module()(x), model(x), atol=1e-4, rtol=0)


def trained(name):
    """A baseline that says how its images are prepared, as if it had been trained."""
    info, model = model_info(name), small_model(name)
    channels, side, _ = info.largest_input
    many = {"mean": (0.3,) * channels, "std": (0.2,) * channels, "sizes": (side,)}
    model.preprocessing = Preprocessing(**many, enlarge=info.enlarge, enlarge_size=info.enlarge_size)
    return model


def test_a_padded_baseline_takes_every_size_in_one_file(folder):
    report = export_onnx(trained("cnn-mnist"), folder / "cnn.onnx", [9, 28], raw=True, batches=())
    assert [check.resolution for check in report.checks] == [9, 28]
    classifier = OnnxClassifier(report.path)
    assert classifier(torch.rand(2, 1, 9, 9)).shape == (2, 10)
    with pytest.raises(ExportError, match="export it with --features"):
        classifier.features(torch.rand(2, 1, 9, 9))


def test_a_baseline_at_its_own_size(folder):
    report = export_onnx(trained("sesn-mnist"), folder / "sesn.onnx", [28], features=True, batches=())
    assert report.difference < 1e-4
    assert OnnxClassifier(report.path).domain == "image"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SMALL if name not in ("cnn-mnist", "sesn-mnist")])
def test_every_baseline_is_exported(name, tmp_path):
    report = export_onnx(trained(name), tmp_path / "out.onnx", raw=True, batches=())
    assert report.difference < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"), [("scalenet-tiny", [8, 28]), ("scalenet-mnist", [8, 13, 28]), ("scalenet-stl10", [48, 96])]
)
def test_our_networks_are_exported_whole(name, sizes, tmp_path):
    small = {"widths": (8, 8, 8)} if name == "scalenet-stl10" else {}
    report = export_onnx(create_model(name, **small), tmp_path / "out.onnx", sizes, features=True, batches=())
    assert report.difference < 1e-4


@pytest.mark.parametrize("enlarge", ["zero", "reflect", "replicate", "circular", "upsample"])
@pytest.mark.parametrize(("n", "reach"), [(1, 4), (3, 8), (4, 7), (5, 5)])
def test_a_size_is_reached_by_one_matrix_per_axis(enlarge, n, reach):
    from fourierscale.functional.enlarging import enlarge_to

    x = torch.randn(2, 3, n, n)
    matrix = size_matrix(n, reach, enlarge)
    expected = x if n == reach else enlarge_to(x, reach, enlarge)
    torch.testing.assert_close(matrix @ x @ matrix.mT, expected, atol=1e-5, rtol=1e-5)


def test_predict_gives_the_same_lines_for_a_file_as_for_its_model(run, both, small, tmp_path, capsys):
    pixels = np.random.default_rng(0).integers(0, 255, (9, 9), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "nine.png")
    assert main(["predict", str(run), str(tmp_path / "nine.png")]) == 0
    expected = capsys.readouterr().out
    assert expected.count(" px  ") == 2
    arguments = ["--onnx", str(both[0].path), str(tmp_path / "nine.png"), "--features", str(tmp_path)]
    assert main(["predict", *arguments]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "wrote" not in line] == expected.splitlines()
    assert (tmp_path / "nine-features.png").is_file()
    assert main(["predict", str(small.path), str(tmp_path / "nine.png")]) == 0
    assert "downscaled to 5 x 5" in capsys.readouterr().out


def test_the_command_prints_difference_and_speed(written):
    assert re.search(r"small\.onnx: \d+\.\d MB, scalenet-tiny, takes normalised images", written)
    assert re.search(r"^ *5 +\d\.\de-\d\d( +\d+\.\d\d ms){4}", written, re.MULTILINE)
    assert "no real ones" in written


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["export", "RUN", "out.txt"], "the name must end in .onnx or .pt2"),
        (["export", "RUN", "out.onnx", "--resolutions", "5;9"], "such as 8,14,28, got 5;9"),
        (["export", "RUN", "out.onnx", "--resolutions", "7,9"], "7 and 9 do not fit into one file"),
        (["export", "RUN", "nowhere/out.onnx", "--resolution", "5"], "nowhere: there is no such folder"),
        (["export", "nothing", "out.onnx"], "nothing is no file or folder"),
        (["predict", "--onnx", "none.onnx", "nine.png"], "none.onnx: there is no such file"),
        (["predict", "text.onnx", "nine.png"], "text.onnx is not a whole ONNX file"),
        (["predict", "cut.onnx", "nine.png"], "cut.onnx is not a whole ONNX file"),
        (["predict", "other.onnx", "nine.png"], "other.onnx does not say what its classes are"),
        (["predict", "BOTH", "dot.png"], "dot.png: 3 x 3 pixels, the model needs at least 5 x 5"),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(arguments, text, run, both, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Image.new("L", (9, 9)).save("nine.png")
    Image.new("L", (3, 3)).save("dot.png")
    whole = both[0].path.read_bytes()
    (tmp_path / "text.onnx").write_text("no model")
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    proto = onnx.load(both[0].path)
    proto.ClearField("metadata_props")
    onnx.save(proto, "other.onnx")
    places = {"RUN": str(run), "BOTH": str(both[0].path)}
    assert main([places.get(part, part) for part in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("fourierscale: ")
    assert text in captured.err
    assert not list(tmp_path.glob("out.*"))


def test_images_of_another_size_or_shape_are_refused(both, small):
    classifier, _ = both
    with pytest.raises(ExportError, match="takes images of 5 x 5, 9 x 9, got 7 x 7"):
        classifier(torch.rand(1, 1, 7, 7))
    with pytest.raises(ExportError, match=r"expected images of shape \(batch, 1, height, width\)"):
        classifier(torch.rand(1, 3, 9, 9))
    with pytest.raises(Exception, match="out of data bounds"):  # the file itself refuses it too
        classifier.session.run(None, {"image": np.zeros((1, 1, 7, 7), "float32")})


def test_what_cannot_be_exported_is_refused_before_any_work(model, tmp_path):
    told = copy.deepcopy(model)
    told.preprocessing = replace(PREPARE, classes=("one",))
    cases = [
        (small_model("cnn-mnist"), [9], {"raw": True}, "set model.preprocessing"),
        (trained("cnn-mnist"), [9], {}, "export it with --raw"),
        (trained("cnn-mnist"), [29], {"raw": True}, "at most 28 x 28, got 29"),
        (told, [9], {}, "has 3 classes, its description names 1"),
        (nn.Flatten(), [9], {}, "set model.preprocessing"),
        (nn.Conv2d(1, 2, 3), None, {}, "say at which resolution"),
    ]
    for broken, sizes, options, text in cases:
        with pytest.raises(ExportError, match=re.escape(text)):
            export_onnx(broken, tmp_path / "out.onnx", sizes, **options)


def test_a_file_that_differs_is_refused_and_not_left_behind(both, tmp_path):
    torch.manual_seed(1)
    other = create_model("scalenet-tiny", **OVERRIDES)
    other.preprocessing = PREPARE
    plan = make_plan(other, [5, 9], None, raw=True, features=False)

    def write():
        with replacing(tmp_path / "out.onnx") as partial:
            partial.write_bytes(b"file")
            check_outputs(both[0], plan, torch.rand(2, 1, 9, 9), ())

    with pytest.raises(ExportError, match="no file was written"):
        write()
    assert not list(tmp_path.iterdir())


def test_a_net_whose_spectra_are_too_large_to_fold_is_refused(tmp_path, monkeypatch):
    from fourierscale.export import write

    monkeypatch.setattr(write, "FOLDED_AT_MOST", 100)
    model = create_model("scalenet-tiny", widths=[4], resolutions=[6, 12], pool=1)
    with pytest.raises(ExportError, match=r"at 12 pixels the spectra .* write a \.pt2 program"):
        export_onnx(model, tmp_path / "large.onnx", [12])
    assert not list(tmp_path.iterdir())


def test_large_images_are_exported_without_an_fft(tmp_path):
    torch.manual_seed(0)
    options = {"widths": (2,), "hidden": 4, "resolutions": (120, 240), "pool": 1}
    model = create_model("scalenet-tiny", **options).eval()
    report = export_onnx(model, tmp_path / "large.onnx", [240], batches=[1])
    assert report.difference < 1e-4
    assert "DFT" not in report.operators
