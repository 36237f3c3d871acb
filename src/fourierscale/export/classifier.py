"""Exported classifiers, run by onnxruntime."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from fourierscale.export.errors import ExportError
from fourierscale.models.described import DescriptionError, checked
from fourierscale.models.preprocessing import Preprocessing

__all__ = ["OnnxClassifier"]

Images = TypeVar("Images")


@dataclass(frozen=True)
class _About:
    """What a file must say of itself; what it says of its images is :class:`Preprocessing`."""

    resolutions: list[int]
    levels: dict[str, list[str]]
    features: str | None


class OnnxClassifier:
    """A classifier from a file that ``fourierscale export`` wrote.

    Args:
        path: The ``.onnx`` file; everything about it is inside.
        threads: Threads of a call; default: as many as torch uses.

    Attributes:
        preprocessing: What pixels become before they go into the file, and which classes its logits stand for.
        resolutions: Sizes of the images it takes, increasing.
        domain: What :meth:`features` gives; None if the file has no features.
        about: All that the file says: besides these ``model``, ``version``, ``raw`` (whether images are 0..1 pixels and
            not normalised) and ``levels`` (their names, for each size).
    """

    def __init__(self, path: str | os.PathLike[str], threads: int | None = None) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ImportError("running ONNX files needs onnxruntime: pip install 'fourierscale[export]'") from None
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise FileNotFoundError(f"{self.path}: there is no such file")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads() if threads is None else threads
        options.log_severity_level = 4  # what goes wrong is raised
        try:
            self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a family of its own, not all of one base
            reason = " ".join(str(error).split())[:120]
            raise ExportError(f"{self.path} is not a whole ONNX file ({reason}): copy or export it again") from None
        try:
            stored = self.session.get_modelmeta().custom_metadata_map
            self.about: dict[str, Any] = {name: json.loads(value) for name, value in stored.items()}
            known = checked(_About, self.about)
            self.preprocessing = checked(Preprocessing, Preprocessing.values(_images(self.about)))
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            reason = f" ({error})" if isinstance(error, DescriptionError) else ""
            raise ExportError(
                f"{self.path} does not say what its classes are{reason}: write it by fourierscale export"
            ) from None
        self.resolutions, self._levels = tuple(known.resolutions), known.levels
        self.domain, self.boundary = known.features, self.preprocessing.boundary

    def __call__(self, images: Images) -> Images:
        """Images ``(B, C, n, n)`` to logits ``(B, levels, classes)``, coarse to fine, or ``(B, classes)``.

        A tensor gives a tensor, an array of numpy an array.
        """
        return self._run("logits", images)

    def features(self, images: Images) -> Images:
        """The final features, if the file gives them: coefficients ``(B, C', 2K+1, 2K+1)`` for our networks."""
        self.check_features()
        return self._run("features", images)

    def check_features(self) -> None:
        """Refuse a file that gives no features."""
        if self.domain is None:
            raise ExportError(f"{self.path} gives no features: export it with --features")

    def level_names(self, size: int) -> list[str]:
        """The resolution that each level of the logits stands for, for images of this size."""
        self._check_size(size, size)
        return self._levels.get(str(size), [])

    def _run(self, name: str, images: Images) -> Images:
        array: Any = images.detach().cpu().float().numpy() if isinstance(images, Tensor) else images
        channels = self.preprocessing.channels
        if array.ndim != 4 or array.shape[1] != channels:
            raise ExportError(f"expected images of shape (batch, {channels}, height, width), got {tuple(array.shape)}")
        self._check_size(*array.shape[2:])
        try:
            output = self.session.run([name], {"image": array.astype("float32", copy=False)})[0]
        except Exception as error:  # onnxruntime has a family of its own, not all of one base
            reason = " ".join(str(error).split())[:120]
            raise ExportError(f"{self.path} is not as it says of itself ({reason}): export it again") from error
        return torch.from_numpy(output) if isinstance(images, Tensor) else output  # type: ignore[return-value]

    def _check_size(self, height: int, width: int) -> None:
        if height != width or width not in self.resolutions:
            have = ", ".join(f"{n} x {n}" for n in self.resolutions)
            raise ExportError(
                f"{self.path} takes images of {have}, got {height} x {width}: resize, or export that size"
            )


def _images(about: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its images; files from before version 0.2 say it field by field."""
    if "preprocessing" in about:
        return dict(about["preprocessing"])
    raw, count = about["raw"] or about["mean"] is None, about["channels"]
    values = about | {"resolutions": about["image_resolutions"], "only_sizes": about["fit"] is None}
    values |= {"mean": [0.0] * count, "std": [1.0] * count} if raw else {}
    return {name: v for name, v in values.items() if name != "image_resolutions"}
