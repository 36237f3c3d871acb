"""Run a model and keep what comes out of each of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from fourierscale.auditing.compare import Form, form_of
from fourierscale.auditing.errors import AuditError, SizeError
from fourierscale.models import PerLevelClassifier
from fourierscale.models.classifier import ScaleHead
from fourierscale.nn import NestedModel, ScaleDropout, ScaleEquivariant, ScaleResidual, ToCoefficients, ToImage
from fourierscale.nn.conv import _FourierLayer
from fourierscale.nn.nested import _Nested

__all__ = ["OUTPUT", "LevelAnswers", "Record", "Trace", "answering_by_level", "run"]

OUTPUT = "output"


class LevelAnswers(nn.Module):
    """What a nested model says of each level, ``(B, levels, n)``."""

    def __init__(self, net: NestedModel) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of all levels, coarse to fine."""
        return torch.stack(self.net.per_level(x), 1)


def answering_by_level(model: Callable[[Tensor], Any], images: Tensor) -> Callable[[Tensor], Any]:
    """The model itself; of a nested one that gives a vector, what it says of each level."""
    vectors = isinstance(model, NestedModel) and model.look(images)[1] == [None]
    return LevelAnswers(model) if vectors and isinstance(model, NestedModel) else model


FORMS: tuple[tuple[type[nn.Module], Form], ...] = (
    (_FourierLayer, "coefficients"),
    (_Nested, "coefficients"),
    (ScaleResidual, "coefficients"),
    (ScaleDropout, "coefficients"),
    (ToCoefficients, "coefficients"),
    (ToImage, "image"),
    (ScaleEquivariant, "image"),
    (ScaleHead, "levels"),
    (LevelAnswers, "levels"),
    (PerLevelClassifier, "levels"),
)
WHOLE = (_FourierLayer, _Nested, ScaleHead, NestedModel, LevelAnswers, PerLevelClassifier)
"""Their insides are no layers; those of a nested model see each level of an image in turn."""


@dataclass(frozen=True)
class Record:
    """What one layer gave.

    Attributes:
        value: The output ``(B, ...)``, a copy: a later layer may write over the original.
        module: Name of the layer's class.
        form: What the output is.
    """

    value: Tensor
    module: str
    form: Form


@dataclass
class Trace:
    """One pass through a model.

    Attributes:
        records: By the name of the module, in the order in which they finished, the model's output last. A module that
            is called again gets a number, ``relu (2)``.
        last: Name of the layer whose output is the model's own; ``"output"`` if no layer gives it as it is.
    """

    records: dict[str, Record] = field(default_factory=dict)
    last: str = OUTPUT

    @property
    def output(self) -> Record:
        """What the model gave."""
        return self.records[OUTPUT]


class _Recorder:
    """The hooks of one pass.

    A layer of this library is known to give coefficients, samples or levels. Another module gives what its last layer
    gave, or, without layers inside, what it was given if that came straight out of a layer; else it gives samples.
    A module that passes on what the layer before it gave is no layer of its own.
    """

    def __init__(self, x: Tensor, depth: int | None) -> None:
        self.trace = Trace()
        self.depth = depth
        self.seen: dict[int, tuple[Tensor, Form, str, int]] = {id(x): (x, "image", "input", x._version)}
        self.form: Form = "image"

    def hook(self, name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def finished(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point() and output.ndim >= 2:
                self.keep(name, output, type(module).__name__, _known(module) or self.guess(module, inputs))

        return finished

    def guess(self, module: nn.Module, inputs: tuple[Any, ...]) -> Form:
        if next(module.children(), None) is not None:
            return self.form
        known = self.seen.get(id(inputs[0])) if inputs else None
        return "image" if known is None else known[1]

    def keep(self, name: str, output: Tensor, module: str, form: Form) -> str:
        """Record an output unless it is an earlier one; gives the name under which it is known."""
        self.form = form
        known = self.seen.get(id(output))
        if known is not None and known[3] == output._version:
            return known[2]
        key, call = name, 1
        while key in self.trace.records:
            call += 1
            key = f"{name} ({call})"
        self.seen[id(output)] = (output, form, key, output._version)  # held, so that its id stays its own
        if self.depth is None or name.count(".") < self.depth:
            self.trace.records[key] = Record(output.detach().clone(), module, form_of(output, form))
        return key


def run(model: Callable[[Tensor], Any], x: Tensor, depth: int | None = None) -> Trace:
    """Give a model images and keep what each of its layers makes of them.

    A function, or a module compiled by TorchScript, shows its output alone.

    Args:
        model: Takes images, gives one tensor.
        x: Images ``(B, C, n, n)``.
        depth: Only modules whose names have at most so many parts; all if not given.

    Raises:
        AuditError: The model does not take these images, or gives no finite tensor with one entry per image.
    """
    recorder = _Recorder(x, depth)
    handles = [module.register_forward_hook(recorder.hook(name)) for name, module in _layers(model)]
    size = f"{x.shape[-2]} x {x.shape[-1]}"
    try:
        with torch.no_grad():
            output = model(x)
    except AuditError:
        raise
    except Exception as error:  # whatever a stranger's model raises is told in one line
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SizeError(
            f"the model does not take images of shape {tuple(x.shape)} ({reason.strip()[:200]}): give the channels it "
            "was made for, leave out resolutions that are too small, or set enlarge in the preprocessing for a model "
            "of one input size"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
    if not isinstance(output, Tensor) or not output.is_floating_point() or output.ndim < 2 or len(output) != len(x):
        got = f"{output.dtype} of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise AuditError(
            f"expected one floating-point tensor of features or logits for {len(x)} images, the model gives {got}: "
            "wrap it in a function that picks the tensor"
        )
    if not bool(output.isfinite().all()):
        raise AuditError(
            f"the model's output is not finite for images of {size}: check its weights and its input range"
        )
    trace, form, module = recorder.trace, _known(model) or recorder.form, type(model).__name__
    trace.last = recorder.keep(OUTPUT, output, module, form)
    if trace.last not in trace.records:  # too deep to be kept
        trace.last = OUTPUT
    if trace.last != OUTPUT:
        trace.records[OUTPUT] = replace(trace.records[trace.last], module=module)
    elif OUTPUT not in trace.records:
        trace.records[OUTPUT] = Record(output.detach().clone(), module, form_of(output, form))
    return trace


def _known(module: object) -> Form | None:
    if isinstance(module, NestedModel):
        return "coefficients" if module.domain == "coefficients" else "image"
    return next((form for kind, form in FORMS if isinstance(module, kind)), None)


def _layers(model: Callable[[Tensor], Any]) -> Iterator[tuple[str, nn.Module]]:
    """Modules that may be layers, by name."""
    if not isinstance(model, nn.Module) or isinstance(model, (torch.jit.ScriptModule, *WHOLE)):
        return
    inside: list[str] = []
    for name, module in model.named_modules():
        if name and not any(name.startswith(f"{whole}.") for whole in inside):
            if isinstance(module, WHOLE):
                inside.append(name)
            yield name, module
