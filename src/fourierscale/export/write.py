"""Write a model as ONNX or as a program of ``torch.export``, and check what was written."""

from __future__ import annotations

import io
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.export.check import ExportReport, check_outputs
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.export.deployed import freeze, spectrum_entries
from fourierscale.export.describe import ExportPlan, make_plan
from fourierscale.export.errors import ExportError
from fourierscale.models.files import replacing

__all__ = ["OPSET", "export_onnx", "export_program"]

OPSET = 18
"""Version of the ONNX operators."""
RULES = (
    *("mul_by_1", "div_by_1", "add_0", "sub_0", "cast_cast", "no_op_cast", "no_op_expand", "no_op_transpose"),
    *("reshape_reshape", "transpose_transpose", "unsqueeze_unsqueeze", "materialize_reshape_shape"),
    *("collapse_slice", "collapse_slice2", "fuse_batchnorm_into_conv", "fuse_batchnorm_into_gemm"),
    "fuse_pad_into_conv",
)
"""Of onnxscript, by which a graph becomes smaller."""
FOLDED_AT_MOST = 2**28
"""Numbers of all spectra that onnxruntime may be asked to fold when it loads a file, in several times the memory."""


def export_onnx(
    model: nn.Module,
    path: str | os.PathLike[str],
    resolutions: Sequence[int] | None = None,
    *,
    name: str | None = None,
    raw: bool = False,
    features: bool = False,
    images: Tensor | None = None,
    batches: Sequence[int] = (1, 32),
) -> ExportReport:
    """Write a model as one ONNX file for any number of images of one size or of several.

    The file holds the taps of the Fourier layers; onnxruntime turns them into spectra when it loads it. For several
    sizes it computes what the largest needs, see :mod:`fourierscale.export.deployed`. If the check fails, no file is
    left behind.

    Args:
        model: A classifier of this library, or any module that maps images to logits. Its ``preprocessing`` goes
            into the file.
        path: The file to write.
        resolutions: Sides of the square images it is to take; default: the largest the model was made for.
        name: What the file calls the model; its class if not given.
        raw: Take 0..1 pixels: mean and std, and padding where the model needs it, become part of the file.
        features: Give the final features as a second output.
        images: Real images to check with besides random ones, as the file takes them, of the largest size.
        batches: Batch sizes to take times at; none if empty.

    Raises:
        ExportError: The model cannot be exported like that, or the file differs from it by more than 1e-4.
    """
    onnx = _import_onnx()
    target = _target(path)
    plan = make_plan(model, resolutions, name, raw, features)
    largest = plan.sizes[-1]
    entries = spectrum_entries(plan.model, plan.prepared(plan.images(largest, 1)))
    if entries > FOLDED_AT_MOST:
        raise ExportError(
            f"at {largest} pixels the spectra of this net have {4 * entries / 1e9:.1f} GB, more than onnxruntime can "
            "fold when it loads the file: write a .pt2 program, or export a smaller resolution or narrower net"
        )
    names = ["logits", "features"] if features else ["logits"]
    with _exporting(plan):
        program = torch.onnx.export(
            _program(plan),
            dynamo=True,
            input_names=["image"],
            output_names=names,
            opset_version=OPSET,
            verbose=False,
            optimize=False,
        )
        assert program is not None
        _simplify(program.model)
        proto = program.model_proto
    _clean(proto, plan.about)
    with replacing(target) as partial:
        onnx.save(proto, partial)
        checks = check_outputs(OnnxClassifier(partial), plan, images, batches)
    operators = tuple(sorted({node.op_type for node in proto.graph.node}))
    return ExportReport(target, tuple(plan.sizes), target.stat().st_size, operators, checks)


def export_program(
    model: nn.Module,
    path: str | os.PathLike[str],
    resolutions: Sequence[int] | None = None,
    *,
    name: str | None = None,
    raw: bool = False,
    features: bool = False,
    images: Tensor | None = None,
    batches: Sequence[int] = (1, 32),
) -> ExportReport:
    """Write a model as a program of ``torch.export``.

    ``torch.export.load(path).module()`` runs it, without this library. Takes what :func:`export_onnx` takes. The file
    holds the spectra of the Fourier layers, because nothing folds constants when such a program is loaded. What it says
    about itself is its extra file ``about.json``.
    """
    target = _target(path)
    plan = make_plan(model, resolutions, name, raw, features)
    plan.deployed.model = freeze(plan.model, plan.prepared(plan.images(plan.sizes[-1])))
    with _exporting(plan):
        program = _program(plan)
    archive = io.BytesIO()  # torch's own writer of files ends the process where the disk is full
    with _exporting(plan):
        torch.export.save(program, archive, extra_files={"about.json": json.dumps(plan.about)})
    with replacing(target) as partial:
        partial.write_bytes(archive.getbuffer())
        with _exporting(plan):
            module = torch.export.load(partial).module()

        def run(x: Tensor) -> Tensor:
            with torch.no_grad():
                outputs: Any = module(x)
            logits: Tensor = outputs[0] if features else outputs
            return logits

        checks = check_outputs(run, plan, images, batches)
    operators = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    return ExportReport(target, tuple(plan.sizes), target.stat().st_size, tuple(sorted(operators)), checks)


def _target(path: str | os.PathLike[str]) -> Path:
    target = Path(path).expanduser()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: there is no such folder to write {target.name} in")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file")
    return target


def _program(plan: ExportPlan) -> torch.export.ExportedProgram:
    sizes = plan.sizes
    free: dict[int, Any] = {0: torch.export.Dim("batch")}
    if len(sizes) > 1:
        side = torch.export.Dim("side", min=sizes[0], max=sizes[-1])
        free |= {2: side, 3: side}
    return torch.export.export(plan.deployed, (plan.images(sizes[-1]),), dynamic_shapes=(free,), strict=False)


def _simplify(model: Any) -> None:
    """Fold small constants, and drop what changes nothing, is not used or is computed twice.

    This is the exporter's own optimiser less the rules that find nothing here. One of those, for slices that are a
    split, compares all pairs of slices and takes longer than all the rest of an export.
    """
    from onnx_ir.passes import common
    from onnxscript.optimizer import fold_constants
    from onnxscript.rewriter import rewrite
    from onnxscript.rewriter.rules import common as rules

    common.InlinePass()(model)
    for _ in range(2):  # what is folded shows more to fold
        fold_constants(model, onnx_shape_inference=True)
        rewrite(model, [getattr(rules, f"{name}_rule") for name in RULES])
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    common.DeduplicateInitializersPass()(model)
    common.CommonSubexpressionEliminationPass()(model)
    common.NameFixPass()(model)


def _clean(proto: Any, about: Mapping[str, Any]) -> None:
    """Say what the file is; drop what the exporter notes of the machine it ran on, and its names of sizes."""
    for part in (*proto.graph.node, *proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    proto.graph.ClearField("value_info")
    proto.graph.ClearField("metadata_props")
    proto.ClearField("metadata_props")
    for name, value in about.items():
        proto.metadata_props.add(key=name, value=json.dumps(value))
    proto.graph.name = about["model"]
    proto.producer_name, proto.producer_version = "fourierscale", about["version"]
    names = {"image": ("batch", "", "side", "side"), "logits": ("batch", "levels"), "features": ("batch", "", "k", "k")}
    for value in (*proto.graph.input, *proto.graph.output):
        for dim, name in zip(value.type.tensor_type.shape.dim, names[value.name], strict=False):
            if dim.dim_param:
                dim.dim_param = name


@contextmanager
def _exporting(plan: ExportPlan) -> Iterator[None]:
    """Without gradients and warnings: exporters warn of their own deprecations, and of packages not needed here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    except (
        Exception
    ) as error:  # of many kinds, for operators that the exporter does not know or shapes it cannot follow
        reason = " ".join(str(error).split())[:200]
        raise ExportError(f"PyTorch {torch.__version__} cannot export {plan.about['model']} ({reason})") from error
    finally:
        logger.setLevel(level)


def _import_onnx() -> Any:
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"writing ONNX needs {error.name}: pip install 'fourierscale[export]'") from None
    return onnx
