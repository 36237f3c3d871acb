"""From images to answers in one call."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fourierscale.data.errors import DataError
from fourierscale.data.folder import image_files
from fourierscale.data.progress import for_each
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.models import Answer, ImageModel, Preprocessing, as_image_model, load_trained, save_model
from fourierscale.models.files import write_whole
from fourierscale.predicting.card import write_card
from fourierscale.predicting.devices import find_device
from fourierscale.predicting.hub import download, upload
from fourierscale.predicting.images import LAYERS, Invert, Prepared, prepare_image
from fourierscale.predicting.levels import Look, looks

__all__ = ["Classifier", "Refused"]

ONNX, CARD, CONFIG = ".onnx", "README.md", "config.json"


@dataclasses.dataclass(frozen=True)
class Refused:
    """An image that cannot be classified.

    Attributes:
        name: The file, or what else it is called.
        error: Why not, in one sentence that begins with the name.
    """

    name: str
    error: Exception


class Classifier:
    """A trained model together with the way from an image to its answer.

    Args:
        model: Weights that ship with the package, by name; a run's folder; a ``.safetensors`` file; an ONNX file that
            ``fourierscale export`` wrote; or a model, in which case ``preprocessing`` says what its images are, unless
            the model brings it.
        preprocessing: How pixels become the model's input; what the model brings if not given.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"``: a GPU if there is one. ONNX files run on the CPU.
        invert: Whether black and white are swapped: ``"yes"``, ``"no"``, or ``"auto"``: for models that want light ink,
            where the border of the image is light.
        batch_size: Images in one pass.

    Attributes:
        model: In evaluation mode.
        preprocessing: What is done to images.
        info: The description beside the weights; empty where the model came without one.

    >>> classifier = Classifier("scalenet-mnist")
    >>> ink = np.zeros((28, 28), dtype=np.uint8)
    >>> ink[4:24, 13:16] = 255
    >>> answer = classifier(ink)
    >>> answer.label, answer.probability > 0.9, answer.levels[0]
    ('1', True, '8')
    >>> classifier(255 - ink).notes
    ('28 x 28', 'black and white swapped, for dark ink on light paper')
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | nn.Module | OnnxClassifier,
        *,
        preprocessing: Preprocessing | None = None,
        device: str = "auto",
        invert: Invert = "auto",
        batch_size: int = 64,
    ) -> None:
        if invert not in ("auto", "yes", "no"):
            raise ValueError(f"expected invert to be auto, yes or no, got {invert!r}")
        if batch_size < 1:
            raise ValueError(f"expected at least 1 image in a batch, got {batch_size}")
        self.invert: Invert = invert
        self.batch_size = batch_size
        self.device = find_device(device)
        self.model: ImageModel | OnnxClassifier
        self.model, self.info = _open(model)
        found = preprocessing or self.model.preprocessing
        if found is None:
            raise ValueError(
                "the model does not say how images are prepared: give preprocessing=Preprocessing(mean=..., std=..., "
                "classes=...) from fourierscale.models"
            )
        self.preprocessing = found
        if isinstance(self.model, nn.Module):
            self.model = self.model.to(self.device).eval()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty if nobody named them, then labels are numbers."""
        return self.preprocessing.classes

    def __call__(self, images: Any, *, sure: float | None = None, skip_bad: bool = False) -> Answer | list[Answer]:
        """Classify one image, or several.

        Args:
            images: A path, a picture of Pillow, or an array or tensor ``(H, W)``, ``(H, W, C)`` or ``(C, H, W)``: one
                answer. A folder, a batch ``(N, H, W, C)`` or ``(N, C, H, W)``, or a list or iterator of any of these: a
                list of answers. Arrays are unsigned bytes, or floats from 0 to 1; images may have any size.
            sure: If given, the answer of an image is that of the coarsest level whose probability is at least this; see
                :meth:`refine`.
            skip_bad: Whether images that cannot be used are left out; if not, the first of them raises.
        """
        answers: list[Answer] = []
        for answer in self.stream(images, sure=sure):
            if isinstance(answer, Answer):
                answers.append(answer)
            elif not skip_bad:
                raise answer.error
        return answers[0] if answers and is_one_image(images) else answers

    def stream(self, images: Any, *, sure: float | None = None) -> Iterator[Answer | Refused]:
        """Answers in the order of the images, as they come: memory does not grow with their number.

        Args:
            images: As for a call.
            sure: As for a call.
        """
        if sure is not None and not 0 < sure <= 1:
            raise ValueError(f"expected sure to be a probability above 0 and at most 1, got {sure}")
        named = ((source, name or f"image {number}") for number, (source, name) in enumerate(each_image(images)))
        while portion := list(itertools.islice(named, 4 * self.batch_size)):
            yield from self._portion(portion, sure)

    def refine(self, image: Any) -> Iterator[Answer]:
        """Answers for one image, coarse to fine, each computed when it is asked for.

        The image is looked at in resolutions an octave apart; the answer of a level is that of the image downscaled to
        it, so a coarse answer costs a fraction of the finest, and is the one that the finest pass gives for its level.

        >>> ink = torch.zeros(28, 28)
        >>> ink[4:24, 13:16] = 1
        >>> [answer.levels[-1] for answer in Classifier("scalenet-mnist").refine(ink)]
        ['8', '13, 14', '27, 28']
        """
        ((source, name),) = each_image(image)
        prepared = self.prepare(source, name)
        for look in self.looks(prepared.pixels.shape[-1]):
            (one,) = self.probabilities(prepared.pixels[None], look).cpu()
            yield _with(self._answer(one, look), prepared)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the weights, their description and a model card into a folder, which any of this library opens again.

        Raises:
            ValueError: The model came without a description, as ONNX files and models of other libraries do.
        """
        if not self.info or not isinstance(self.model, nn.Module):
            raise ValueError(
                "only a model with its description can be saved: open it by its name, its run or its .safetensors file"
            )
        info = {**self.info, "preprocessing": self.preprocessing.to_dict()}
        save_model(self.model, folder, info)
        write_whole(Path(folder) / CARD, write_card(info, self.preprocessing))
        about = {"library_name": "fourierscale", "model_type": info["model"]}
        write_whole(Path(folder) / CONFIG, json.dumps(about, indent=2) + "\n")
        return Path(folder)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, hub: Mapping[str, Any] | None = None, **options: Any
    ) -> Classifier:
        """A classifier from a folder that :meth:`save_pretrained` wrote, or from a repository of the Hugging Face hub.

        Args:
            name: The folder, or the repository's id, such as ``"user/digits"``; this needs the extra ``hub``.
            hub: Options of the download: ``revision``, ``token``, ``cache_dir``, ``force_download``,
                ``local_files_only``.
            options: Those of :class:`Classifier`.
        """
        return cls(download(name, **(hub or {})), **options)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload what :meth:`save_pretrained` writes to the Hugging Face hub; gives the address of the commit.

        Args:
            repository: Its id, such as ``"user/digits"``; made if it is not there.
            options: Of ``huggingface_hub``: ``private``, ``token``, ``commit_message``, ``branch``, ``create_pr``.
        """
        return upload(self, repository, **options)

    def prepare(self, image: Any, name: str = "") -> Prepared:
        """One image as pixels of a size that the model takes, and what was done to it."""
        return prepare_image(image, self.preprocessing, self.invert, name)

    def _portion(self, portion: Sequence[tuple[Any, str]], sure: float | None) -> Iterator[Answer | Refused]:
        """Answers for a few batches of images, which are decoded by several threads and may have several sizes."""

        def prepare(index: int) -> Prepared | Refused:
            source, name = portion[index]
            try:
                return self.prepare(source, name)
            except (DataError, OSError) as error:
                return Refused(name, error)

        found: list[Prepared | Answer | Refused] = [*for_each(len(portion), prepare)]
        by_size: dict[int, list[int]] = {}
        for index, one in enumerate(found):
            if isinstance(one, Prepared):
                by_size.setdefault(one.pixels.shape[-1], []).append(index)
        for indices in by_size.values():
            for first in range(0, len(indices), self.batch_size):
                batch = indices[first : first + self.batch_size]
                given = [one for index in batch if isinstance(one := found[index], Prepared)]
                answers = self.answer_pixels(torch.stack([one.pixels for one in given]), sure=sure)
                for index, answer, prepared in zip(batch, answers, given, strict=True):
                    found[index] = _with(answer, prepared)
        return (one for one in found if not isinstance(one, Prepared))

    def answer_pixels(self, pixels: Tensor, *, sure: float | None = None) -> list[Answer]:
        """Answers for a batch ``(B, C, n, n)`` that was prepared; each image leaves where it is sure.

        Args:
            pixels: From 0 to 1, of a size that the model takes.
            sure: As for a call.
        """
        pixels = pixels.to(self.device)
        *coarser, last = self.looks(pixels.shape[-1])
        answers: dict[int, Answer] = {}
        left = torch.arange(len(pixels), device=self.device)
        for look in coarser if sure is not None else ():
            probabilities = self.probabilities(pixels[left], look)
            enough = probabilities[:, -1].amax(-1) >= (sure or 1.0)
            notes = (f"sure at {look.resolution} px",)
            for index, one in zip(left[enough].tolist(), probabilities[enough].cpu(), strict=True):
                answers[index] = self._answer(one, look, notes)
            left = left[~enough]
            if not len(left):
                break
        else:
            for index, one in zip(left.tolist(), self.probabilities(pixels[left], last).cpu(), strict=True):
                answers[index] = self._answer(one, last)
        return [answers[index] for index in range(len(pixels))]

    def looks(self, size: int) -> list[Look]:
        """The resolutions, coarse to fine, at which an image of this size is looked at, the last being its own."""
        return looks(self.model, self.preprocessing, size)

    @torch.inference_mode()
    def probabilities(self, pixels: Tensor, look: Look) -> Tensor:
        """Probabilities ``(B, levels, classes)`` from one pass over prepared images."""
        logits = self.model(self.preprocessing(look(pixels.to(self.device))))
        if not isinstance(logits, Tensor) or logits.ndim not in (2, 3):
            raise ValueError(f"expected a model that gives logits (batch, classes), got {type(logits).__name__}")
        return self.preprocessing.probabilities(logits, look.names)

    def _answer(self, probabilities: Tensor, look: Look, notes: tuple[str, ...] = ()) -> Answer:
        classes = self.classes or tuple(map(str, range(probabilities.shape[-1])))
        return Answer(probabilities, classes, tuple(look.names[-len(probabilities) :]), notes=notes)


def _open(model: Any) -> tuple[ImageModel | OnnxClassifier, dict[str, Any]]:
    if isinstance(model, OnnxClassifier):
        return model, {}
    if isinstance(model, nn.Module):
        return as_image_model(model), {}
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"expected a model's name, a path or a model, got {type(model).__name__}")
    if os.fspath(model).endswith(ONNX):
        return OnnxClassifier(model), {}
    return load_trained(model)


def is_one_image(images: Any) -> bool:
    """Whether a call with these gives one answer and not a list."""
    if isinstance(images, (str, os.PathLike)):
        return not Path(images).is_dir()
    if isinstance(images, (np.ndarray, Tensor)):
        return images.ndim == 2 or (images.ndim == 3 and bool({images.shape[0], images.shape[-1]} & set(LAYERS)))
    return not isinstance(images, Iterable)  # a picture of Pillow is no iterable


def each_image(images: Any) -> Iterator[tuple[Any, str]]:
    """Single images, with the names of files; a folder stands for every image in it and below."""
    if isinstance(images, (str, os.PathLike)):
        path = Path(images)
        for file in (image_files(path) or [path]) if path.is_dir() else [path]:
            yield file, str(file)
    elif is_one_image(images):
        yield images, getattr(images, "filename", "") or ""
    else:
        for image in images:
            yield from each_image(image)


def _with(answer: Answer, prepared: Prepared) -> Answer:
    return dataclasses.replace(answer, name=prepared.name, notes=(*prepared.notes, *answer.notes))
