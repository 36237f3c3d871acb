"""Models as files of other tools: TorchScript, ``torch.export`` and ONNX. Only what goes in and comes out is seen.

A TorchScript or ``torch.export`` file is a program, and can do whatever the user can, such as write files: it is opened
only for a user who says that it is trusted. An ONNX file can compute, and nothing else.
"""

from __future__ import annotations

import io
import json
import logging
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourierscale.auditing.errors import AuditError

__all__ = ["SUFFIXES", "FileModel", "open_file"]

SCRIPTS = (".pt", ".pth", ".jit", ".ts")
SUFFIXES = (*SCRIPTS, ".pt2", ".onnx")
Shape = tuple[int | None, ...]


class FileModel:
    """A function on images that was read from a file.

    Where the file says that its input has a fixed number of images, they are given in such portions.

    Args:
        function: Takes a batch, gives a tensor.
        shape: Shape of the input, ``None`` where any size will do; empty if the file does not say.
        dtype: Type of the input's numbers.
        name: What the file is called.
    """

    def __init__(
        self,
        function: Callable[[Tensor], Any],
        shape: Shape = (),
        dtype: torch.dtype = torch.float32,
        name: str = "FileModel",
    ) -> None:
        self.function, self.shape, self.dtype, self.name = function, shape if len(shape) == 4 else (), dtype, name

    @property
    def channels(self) -> int | None:
        """Channels of its images; None if it does not say."""
        return self.shape[1] if self.shape else None

    @property
    def side(self) -> int | None:
        """The one side that its square images must have; None if it does not say or takes any."""
        return self.shape[3] if self.shape and self.shape[2] == self.shape[3] else None

    def __call__(self, x: Tensor) -> Any:
        """Images ``(B, C, n, n)`` to whatever the model gives."""
        fixed = self.shape[0] if self.shape else None
        if fixed is None or len(x) == fixed:
            return self.function(x)
        short = -len(x) % fixed  # the last portion is filled up with copies, which are cut off again
        filled = torch.cat([x, x[:1].expand(short, *x.shape[1:])]) if short else x
        parts = [self.function(part) for part in torch.unflatten(filled, 0, (-1, fixed))]
        if not all(isinstance(part, Tensor) for part in parts):
            return parts
        return torch.cat(parts)[: len(x)]


def open_file(path: str | os.PathLike[str], trust: bool = False) -> FileModel:
    """Read a model from a file.

    Args:
        path: ``.pt``, ``.pth``, ``.jit`` or ``.ts`` (TorchScript), ``.pt2`` (``torch.export.save``) or ``.onnx``.
        trust: Whether the program in a TorchScript or ``torch.export`` file may run: it can do whatever you can.

    Raises:
        AuditError: There is no such file, it holds something else, or it is a program that nobody vouches for.
    """
    file = Path(path).expanduser()
    if file.suffix not in SUFFIXES:
        raise AuditError(
            f"{file}: expected a TorchScript ({', '.join(SCRIPTS)}), torch.export (.pt2) or ONNX (.onnx) file"
        )
    if not file.is_file():
        raise AuditError(f"{file}: there is no such file")
    if file.suffix == ".onnx":
        return _open_onnx(file)
    if not trust:
        raise AuditError(
            f"{file} is a program that can do whatever you can: if you know who wrote it, open it with --trust "
            "(in Python: open_file(path, trust=True)), or audit the model as an ONNX file"
        )
    return _open_exported(file) if file.suffix == ".pt2" else _open_script(file)


def _open_script(file: Path) -> FileModel:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather see torch.export
            module = torch.jit.load(str(file), map_location="cpu")  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError, EOFError) as error:
        raise AuditError(
            f"{file} is no TorchScript file: save one with torch.jit.trace(model, images).save(path), or give the "
            "function that builds the model"
        ) from error
    module.eval()
    found = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    return FileModel(module, dtype=found.dtype, name=file.name)


def _open_exported(file: Path) -> FileModel:
    told = logging.getLogger("torch.export")
    before = told.level
    told.setLevel(logging.CRITICAL)  # it logs a traceback of what it then raises
    try:
        _refuse_pickles(file)
        program = torch.export.load(str(file))
        inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
        value = inputs[0].meta["val"]
        shape = tuple(n if isinstance(n, int) else None for n in value.shape)
        return FileModel(program.module(), shape, value.dtype, file.name)
    except AuditError:
        raise
    except Exception as error:  # a damaged archive raises whatever its first bad part raises
        raise AuditError(f"{file} is no torch.export file: save one with torch.export.save(program, path)") from error
    finally:
        told.setLevel(before)


def _refuse_pickles(file: Path) -> None:
    """Look into an archive before torch does, which unpickles all that the archive says is a pickle."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if len(set(names)) < len(names):
            raise ValueError("two members of one name: it depends on the reader which of them counts")
        for name in names:
            kind = None
            if name.endswith("_config.json"):
                entries = json.loads(archive.read(name)).get("config", {}).values()
                kind = "pickled weights" if any(entry.get("use_pickle") for entry in entries) else None
            elif name.endswith(".pt"):
                try:
                    torch.load(io.BytesIO(archive.read(name)), weights_only=True)
                except Exception:  # of many kinds: whatever is not plain tensors
                    kind = "sample inputs that are no plain tensors"
            elif "aotinductor" in name:
                kind = "compiled code"
            if kind is not None:
                raise AuditError(
                    f"{file} holds {kind} ({name}), which would run code of their own: export the model again from "
                    "its source, with tensors alone"
                )


def _open_onnx(file: Path) -> FileModel:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError("reading an ONNX file needs onnxruntime: pip install 'fourierscale[export]'") from None
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what it refuses, for example a size, it raises too
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each way a file can be bad
        raise AuditError(f"{file} is no ONNX file that onnxruntime can run: export it again") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    dtypes = {"tensor(float)": torch.float32, "tensor(double)": torch.float64, "tensor(float16)": torch.float16}
    if len(inputs) != 1 or inputs[0].type not in dtypes or not outputs:
        kinds = ", ".join(one.type for one in inputs) or "none"
        raise AuditError(f"{file}: expected one input of floating-point images and an output, got inputs: {kinds}")
    given, first = inputs[0], outputs[0]

    def function(x: Tensor) -> Tensor:
        (output,) = session.run([first.name], {given.name: x.detach().cpu().numpy()})
        return torch.from_numpy(output)

    shape = tuple(n if isinstance(n, int) else None for n in given.shape)
    return FileModel(function, shape, dtypes[given.type], file.name)
